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
    """Fails the first two times for each address, then works; knows a mail by its key, however often it is asked."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self.tries: Counter[str] = Counter()
        self.sent: dict[str | None, str] = {}

    async def send(self, to: str, template: str, language: str, *, key: str | None) -> None:
        """Send it, once for each key; raises ProviderDown."""
        self.tries[to] += 1
        if self.tries[to] <= 2:  # noqa: PLR2004 - twice, as the class says
            raise ProviderDown("503 try again later")
        self.sent.setdefault(key, f"{template} ({language}) to {to}")


class Bank:
    """Refuses a card that is `expired`, gets no answer for one that is `unreachable`; knows no asyncio."""

    def __init__(self) -> None:
        """Begin with nothing charged."""
        self.charged: dict[str, int] = {}

    def charge(self, card: str, cents: int, *, key: str) -> None:
        """Charge it, once for each key; raises CardExpired or BankDown."""
        if card == "expired":
            raise CardExpired(f"the card of {key} is no longer valid")
        if card == "unreachable":
            raise BankDown(f"no answer, {cents / 100:.2f} EUR open")
        self.charged.setdefault(key, cents)


class Crm:
    """Takes eight seconds for an answer."""

    async def look_up(self, company: str, *, patience: float) -> str:
        """Say what is known of a company; raises CrmTimeout when `patience`, in seconds, is not enough."""
        if patience < 8:  # noqa: PLR2004 - seconds, as the class says
            raise CrmTimeout(f"no answer in {patience:g} s")
        return f"{company}, 40 employees"


def die() -> None:
    """End this process as a crash of a native library would: at once, with nothing tidied up."""
    os._exit(137)
