"""What the events say of a delivery: its age, the time in its handler, its trace."""

import pytest

from amqpkit.deliver.headers import read_trace
from amqpkit.events import Begun, Settled
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import Does, Task, topology

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


async def test_a_delivery_says_how_old_it_was_and_how_long_its_handler_took() -> None:
    sim: Simulator
    async with Simulator(topology(), [Does(lambda *_: sim.clock.sleep(3))], worker={"grace": 60}) as sim:
        await sim.publish(Task(), headers={"traceparent": TRACEPARENT})
        await sim.advance("3s")
        await sim.stop_worker()
        await sim.publish(Task())
        await sim.advance("1m")
        await sim.start_worker()
        await sim.advance("3s")
        begun = [event for event in sim.events if isinstance(event, Begun)]
        settled = [event for event in sim.events if isinstance(event, Settled)]

    assert [(event.age, event.trace) for event in begun] == [(0.0, TRACE), (60.0, None)]
    assert [(event.handling, event.trace) for event in settled] == [(3.0, TRACE), (3.0, None)]


async def test_a_delivery_whose_handler_was_never_called_spent_no_time_in_it() -> None:
    async with Simulator(topology(), [Does()]) as sim:
        await sim.transport.publish("", "task", _nonsense())
        await sim.settle()
        (settled,) = (event for event in sim.events if isinstance(event, Settled))

    assert (settled.fate, settled.handling) == ("invalid", None)


def _nonsense():
    from amqpkit.model import Message, Properties

    return Message(b"{", Properties(type="task", message_id="m"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        b"00",
        "",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        TRACEPARENT.upper(),
        TRACEPARENT[:-1],
        f"{TRACEPARENT}x",
    ],
)
def test_what_is_no_traceparent_names_no_trace(value: object) -> None:
    assert read_trace({"traceparent": value}) is None


def test_a_later_version_of_traceparent_may_say_more() -> None:
    assert read_trace({"traceparent": f"01-{TRACE}-00f067aa0ba902b7-01-more"}) == TRACE
