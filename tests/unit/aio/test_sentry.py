"""What is said of an operation on a queue that the broker does not answer, or refuses."""

import asyncio
from types import SimpleNamespace

import aiormq
import pytest

from amqpkit.brokers.aio.sentry import AioSentry
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed
from amqpkit.model import Queue


class Silent:
    """A channel of the client's on which every round trip ends in one way."""

    def __init__(self, end):
        self.end = end

    async def rpc(self, *_, **__):
        raise self.end

    basic_publish = rpc


def sentry(end):
    async def channel(**_):
        async def underlay():
            return Silent(end)

        return SimpleNamespace(get_underlay_channel=underlay)

    return AioSentry(SimpleNamespace(connection=SimpleNamespace(channel=channel)))


ATTEMPTS = [
    pytest.param(lambda it: it.look("jobs"), "look at", id="look"),
    pytest.param(lambda it: it.delete_empty(Queue("jobs", "classic")), "delete", id="classic"),
    pytest.param(lambda it: it.delete_empty(Queue("jobs", "quorum")), "delete", id="quorum"),
    pytest.param(lambda it: it.delete_empty(Queue("jobs", "stream")), "delete", id="stream"),
]


@pytest.mark.parametrize(("attempt", "words"), ATTEMPTS)
@pytest.mark.parametrize(
    ("end", "kind", "text"),
    [
        (TimeoutError(), ConnectionFailed, 'cannot {} queue "jobs": '),
        (aiormq.ChannelAccessRefused("no"), AccessRefused, 'the broker does not let us {} queue "jobs": no'),
    ],
)
async def test_the_message_names_what_was_attempted(attempt, words, end, kind, text):
    with pytest.raises(BrokerError) as caught:
        await asyncio.wait_for(attempt(sentry(end)), 5)

    assert type(caught.value) is kind
    assert str(caught.value).startswith(text.format(words))
