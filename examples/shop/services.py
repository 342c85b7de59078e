"""The outside world, pretended: each service fails in the way that its real counterpart is known for."""

import os
from collections import Counter


class ProviderDown(Exception):
    """The e-mail provider does not answer."""


class BankDown(Exception):
    """The bank does not answer."""


class CardExpired(Exception):
    """The bank says no, and will say no tomorrow."""


class CrmTimeout(Exception):
    """The customer database takes too long."""


class EmailProvider:
    """Fails the first two times for each address, then works."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self.tries: Counter[str] = Counter()
        self.sent: list[tuple[str, str]] = []

    async def send(self, to: str, template: str) -> None:
        """Send it; raises ProviderDown."""
        self.tries[to] += 1
        if self.tries[to] <= 2:  # noqa: PLR2004 - twice, as the class says
            raise ProviderDown("503 try again later")
        self.sent.append((to, template))


class Bank:
    """Is down for every card but an expired one, which it refuses; its client library knows no asyncio."""

    def charge(self, card: str, cents: int) -> None:
        """Charge it; raises CardExpired or BankDown."""
        if card == "expired":
            raise CardExpired("the card expired in May")
        raise BankDown(f"no answer about {cents / 100:.2f} EUR")


class Crm:
    """Times out the first time for each lead, then works."""

    def __init__(self) -> None:
        """Begin with nobody looked up."""
        self.tries: Counter[str] = Counter()

    async def look_up(self, lead: str, company: str) -> str:
        """Say what is known of a company; raises CrmTimeout."""
        self.tries[lead] += 1
        if self.tries[lead] == 1:
            raise CrmTimeout("no answer in 5 s")
        return f"{company}, 40 employees"


def die() -> None:
    """End this process as a crash of a native library would: at once, with nothing tidied up."""
    os._exit(137)
