"""E-mail goes from version 1 to 2: old and new producers and workers meet in any order, and no message is dead."""

from __future__ import annotations

from typing import Any

from amqpkit import Consumer
from amqpkit.cli import main
from amqpkit.events import Outcome, Settled
from amqpkit.stores import MemoryStore
from amqpkit.testing.simulator import Simulator
from examples.shop.consumers import SendEmail
from examples.shop.payloads import EmailSend, EmailSendV1
from tests.scenarios.shop import ROOT, PatientProvider, SendEmailOfTheLastRelease, topology

OLD = EmailSendV1(to="ann@example.com", template="welcome")
NEW = EmailSend(to="ben@example.com", template="welcome", language="de")


async def deploy(simulator: Simulator, *consumers: Consumer[Any]) -> None:
    """Drain the worker that runs, start the next release."""
    await simulator.stop_worker()
    await simulator.start_worker(consumers)


def ends(simulator: Simulator, message_id: str) -> list[tuple[Outcome, int]]:
    settled = (event for event in simulator.events if isinstance(event, Settled))
    return [(event.outcome, event.attempt) for event in settled if event.message_id == message_id]


async def test_an_old_producers_message_is_handled_by_a_new_worker():
    provider = PatientProvider()
    async with Simulator(topology(), [SendEmail(provider)]) as simulator:
        await simulator.publish(OLD, message_id="e-1")

        assert provider.sent == {"e-1": "welcome (en) to ann@example.com"}
        assert ends(simulator, "e-1") == [(Outcome.HANDLED, 1)]


async def test_a_new_producers_message_waits_at_an_old_worker_for_the_new_one():
    provider = PatientProvider()
    async with Simulator(topology(), [SendEmailOfTheLastRelease(provider)]) as simulator:
        await simulator.publish(NEW, message_id="e-2")
        await simulator.publish(OLD, message_id="e-1")
        assert simulator.ledger() == {"email.send.retry.2s": ["e-2"]}
        assert provider.sent == {"e-1": "welcome (en) to ann@example.com"}

        await deploy(simulator, SendEmail(provider))
        await simulator.advance("2s")
        assert provider.sent["e-2"] == "welcome (de) to ben@example.com"
        assert ends(simulator, "e-2") == [(Outcome.SNOOZED, 1), (Outcome.HANDLED, 1)]
        assert simulator.ledger() == {}


async def test_a_message_that_the_old_worker_has_failed_with_is_finished_by_the_new_one():
    class Down(PatientProvider):
        async def send(self, to: str, template: str, language: str, *, key: str | None) -> None:
            raise ConnectionError

    provider = PatientProvider()
    async with Simulator(topology(), [SendEmailOfTheLastRelease(Down())]) as simulator:
        await simulator.publish(OLD, message_id="e-1")
        assert simulator.ledger() == {"email.send.retry.2s": ["e-1"]}

        await deploy(simulator, SendEmail(provider))
        await simulator.advance("2s")
        assert provider.sent == {"e-1": "welcome (en) to ann@example.com"}
        assert ends(simulator, "e-1") == [(Outcome.RETRIED, 1), (Outcome.HANDLED, 2)]


async def test_what_the_old_worker_has_handled_the_new_one_knows_as_a_duplicate():
    provider = PatientProvider()
    simulator = Simulator(topology(), [SendEmailOfTheLastRelease(provider)])
    simulator.use_store(MemoryStore(simulator.clock))
    async with simulator:
        await simulator.publish(OLD, message_id="e-1")
        await deploy(simulator, SendEmail(provider))
        await simulator.publish(OLD, message_id="e-1")

        assert provider.asked == ["e-1"]
        assert [outcome for outcome, _ in ends(simulator, "e-1")] == [Outcome.HANDLED, Outcome.DUPLICATE]


def test_its_payloads_are_as_locked(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    assert main(["schema", "check", "examples.shop.payloads"]) == 0
    assert "6 schemas, as locked" in capsys.readouterr().out
