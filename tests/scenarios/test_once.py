"""The shop handles once: charges in one transaction with their claims, e-mail by the provider's idempotency key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from amqpkit.cli.modules import find_consumers
from amqpkit.deliver.consumer import check_consumers
from amqpkit.events import Begun, Outcome, Settled
from amqpkit.stores import MemoryStore
from amqpkit.testing.simulator import Simulator
from examples.shop import consumers
from examples.shop.books import booked
from examples.shop.consumers import ChargeCard, SendEmail
from examples.shop.payloads import BillingCharge, EmailSend
from examples.shop.services import Bank, BankDown
from tests.scenarios.shop import PatientProvider, death, shop_database, topology


def charge(invoice: str, card: str = "4242") -> BillingCharge:
    return BillingCharge(invoice=invoice, card=card, cents=1990)


def outcomes(simulator: Simulator) -> list[Outcome]:
    return [event.outcome for event in simulator.events if isinstance(event, Settled)]


def calls(simulator: Simulator) -> int:
    return sum(isinstance(event, Begun) for event in simulator.events)


@asynccontextmanager
async def charging(folder: Path, *, bank: Bank | None = None) -> AsyncIterator[Any]:
    """Billing alone, its books and store in one SQLite file: gives the simulator and the books."""
    async with shop_database(folder) as (books, store):

        async def drop() -> None:
            simulator.broker.drop_connections()

        consumer = ChargeCard(books, bank or Bank(), crash=death(drop))
        simulator = Simulator(topology(), [consumer])
        simulator.use_store(store)
        async with simulator:
            yield simulator, books


async def test_a_charge_that_is_delivered_three_times_is_booked_once(tmp_path):
    async with charging(tmp_path) as (simulator, books):
        for _ in range(3):
            await simulator.publish(charge("2026-1"), message_id="b-1")

        assert booked(books) == ["2026-1"]
        assert outcomes(simulator) == [Outcome.HANDLED, Outcome.DUPLICATE, Outcome.DUPLICATE]
        assert (calls(simulator), simulator.ledger()) == (1, {})


async def test_an_invoice_that_is_sent_under_two_message_ids_is_booked_once(tmp_path):
    async with charging(tmp_path) as (simulator, books):
        await simulator.publish(charge("2026-1"), message_id="b-1")
        await simulator.publish(charge("2026-1"), message_id="b-2")
        await simulator.publish(charge("2026-2"), message_id="b-3")

        assert booked(books) == ["2026-1", "2026-2"]
        assert outcomes(simulator) == [Outcome.HANDLED, Outcome.DUPLICATE, Outcome.HANDLED]


async def test_a_worker_that_dies_between_the_charge_and_the_ack_has_charged_once(tmp_path):
    async with charging(tmp_path) as (simulator, books):
        await simulator.publish(charge("2026-1", card="fatal"), message_id="b-1")
        await simulator.advance("1h")

        assert booked(books) == ["2026-1"]
        assert set(outcomes(simulator)) == {Outcome.REQUEUED, Outcome.DUPLICATE}
        assert (calls(simulator), simulator.ledger()) == (1, {})


async def test_a_worker_that_dies_before_the_commit_has_not_booked_and_the_next_one_does(tmp_path, monkeypatch):
    died = []
    async with charging(tmp_path) as (simulator, books):

        async def drop() -> None:
            simulator.broker.drop_connections()

        def book_or_die(page: Any, invoice: str, cents: int) -> None:
            book(page, invoice, cents)
            if not died:
                died.append(invoice)
                die()

        book, die = consumers.book, death(drop)
        monkeypatch.setattr(consumers, "book", book_or_die)
        await simulator.publish(charge("2026-1"), message_id="b-1")
        await simulator.advance("1m")

        assert (died, booked(books)) == (["2026-1"], ["2026-1"])
        assert outcomes(simulator).count(Outcome.HANDLED) == 1
        assert (calls(simulator), simulator.ledger()) == (2, {})


async def test_a_bank_that_was_down_is_asked_again_and_the_charge_is_booked_once(tmp_path):
    class SlowStart(Bank):
        down = 2

        def charge(self, card: str, cents: int, *, key: str) -> None:
            if self.down:
                self.down -= 1
                raise BankDown("not yet")
            super().charge(card, cents, key=key)

    bank = SlowStart()
    async with charging(tmp_path, bank=bank) as (simulator, books):
        await simulator.publish(charge("2026-1"), message_id="b-1")
        await simulator.publish(charge("2026-1"), message_id="b-1")
        await simulator.advance("3m")  # the copy may find the other at work, and waits for what is left of its claim

        assert (bank.charged, booked(books)) == ({"2026-1": 1990}, ["2026-1"])
        assert simulator.ledger() == {}


async def test_a_charge_without_a_store_is_a_failure_that_says_what_to_do(tmp_path):
    async with shop_database(tmp_path) as (books, _), Simulator(topology(), [ChargeCard(books)]) as simulator:
        await simulator.publish(charge("2026-1"), message_id="b-1")

        (event,) = (event for event in simulator.events if isinstance(event, Settled))
        assert "--store" in event.reason
        assert (booked(books), simulator.ledger()) == ([], {"billing.charge.retry.2s": ["b-1"]})


# --- e-mail ----------------------------------------------------------------------------------------


class LeftBehind(MemoryStore):
    """A store that never hears from a dead worker again: what it held runs out."""

    dead = False

    async def release(self, key: str, *, owner: str) -> None:
        if not self.dead:
            await super().release(key, owner=owner)


async def test_a_mail_whose_worker_dies_after_the_sending_is_asked_for_twice_and_sent_once():
    class Deadly(PatientProvider):
        async def send(self, to: str, template: str, language: str, *, key: str | None) -> None:
            await super().send(to, template, language, key=key)
            if len(self.asked) == 1:
                store.dead = True
                simulator.broker.drop_connections()
                raise RuntimeError

    provider = Deadly()
    simulator = Simulator(topology(), [SendEmail(provider)])
    store = LeftBehind(simulator.clock)
    simulator.use_store(store)
    async with simulator:
        await simulator.publish(EmailSend(to="ann@example.com", template="bill", language="de"), message_id="e-1")
        assert provider.asked == ["e-1"]
        assert simulator.ledger() == {"email.send.retry.1m": ["e-1"]}, "the next worker waits for the claim"

        await simulator.advance("2m")
        assert provider.asked == ["e-1", "e-1"]
        assert provider.sent == {"e-1": "bill (de) to ann@example.com"}
        assert outcomes(simulator) == [Outcome.REQUEUED, Outcome.SNOOZED, Outcome.HANDLED]
        assert simulator.ledger() == {}


# --- as it is run ----------------------------------------------------------------------------------


def test_its_functions_make_what_the_topology_declares(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    found = find_consumers("examples.shop.consumers:shop")
    (watched,) = find_consumers("examples.shop.imports:importer")
    try:
        check_consumers(topology(), [*found, watched])
        assert {consumer.queue for consumer in (*found, watched)} == set(topology().work_queues)
        assert (tmp_path / "shop.db").exists()
    finally:
        next(each for each in found if isinstance(each, ChargeCard)).books.dispose()
        watched.catalogue.dispose()


def test_its_readme_runs_it_with_books_and_store_in_one_database():
    readme = (Path(consumers.__file__).parent / "README.md").read_text()

    assert f"amqpkit run examples.shop.consumers:shop topology/shop.yaml --store {consumers.DATABASE}" in readme
