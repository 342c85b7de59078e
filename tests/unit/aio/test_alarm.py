"""What the broker says of alarms is heard on its way to aiormq."""

import asyncio

from pamqp import commands, frame

from amqpkit.brokers.aio.alarm import Alarm
from amqpkit.brokers.aio.guard import GuardedReader


async def read(alarm: Alarm, *said: object, channel: int = 0) -> None:
    stream = asyncio.StreamReader()
    for each in said:
        stream.feed_data(frame.marshal(each, channel))
    stream.feed_eof()
    reader = GuardedReader(stream, alarm)
    while not reader.at_eof():
        await reader.readexactly(1)
        kind_and_rest = await reader.readexactly(6)
        await reader.readexactly(int.from_bytes(kind_and_rest[2:], "big") + 1)


async def test_an_alarm_and_its_end_are_heard_and_who_waits_is_told() -> None:
    alarm, ends = Alarm(), list[bool]()
    alarm.call_at_end(lambda: ends.append(alarm.blocked))
    await read(alarm, commands.Basic.Qos(), commands.Connection.Blocked(reason="low on memory"))
    assert (alarm.blocked, alarm.reason, ends) == (True, "low on memory", [])
    await read(alarm, commands.Connection.Unblocked())
    assert (alarm.blocked, alarm.reason, ends) == (False, "", [False])


async def test_only_the_connection_itself_is_listened_to() -> None:
    alarm = Alarm()
    await read(alarm, commands.Connection.Blocked(reason="no"), channel=1)
    assert not alarm.blocked
