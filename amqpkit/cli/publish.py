"""`amqpkit publish`: one message or many, to where the topology routes their type."""

import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.clock import SystemClock
from amqpkit.cli.bodies import Body, Checker, checker_of, text_of
from amqpkit.cli.connect import BrokerOptions
from amqpkit.cli.dlq.wording import print_json
from amqpkit.cli.files import topology_files
from amqpkit.cli.lines import NOT_TRIED, Line, Lines, Tally, spans
from amqpkit.cli.rates import Rate, rate_of
from amqpkit.cli.resume import Resume, ResumeUnwritableError
from amqpkit.cli.schema import LOCK
from amqpkit.cli.usage import UsageError
from amqpkit.declare.load import load_topology
from amqpkit.deliver.outgoing import Order, build_message, fill, route_of
from amqpkit.deliver.publisher import Publisher
from amqpkit.deliver.sending import fate_of
from amqpkit.errors import AmqpkitError, PublishError
from amqpkit.events import Fate
from amqpkit.model import Topology


async def publish(  # noqa: PLR0913 - a command's options
    type: str,  # noqa: A002 - AMQP's word
    body: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *files: Path,
    connection: BrokerOptions | None = None,
    many: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    resume: Path | None = None,
    skip_invalid: bool = False,
    payloads: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    schemas: Path = LOCK,
    version: Annotated[int | None, Parameter(name="--schema-version")] = None,
    key: str | None = None,
    correlation_id: str | None = None,
    priority: int | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 - the deadline of the publish
    overload: Literal["wait", "fail"] = "wait",
    rate: Rate = None,
    json_: bool = False,
) -> int:
    """Publish one message, or a file of them, and wait until the broker has them.

    The body is checked before anything connects: against its class (--payloads), else against its locked schema, else
    only that it is JSON; standard error says which. Of one message the id is printed, of many how they ended. With
    --many every line is checked first; a bad one keeps all from being sent. Exit codes: 0 stored, 1 not stored or fate
    unknown (the message says which; of many: any of them).

    Parameters
    ----------
    type
        The payload type, which says where the message goes.
    body
        JSON; @file reads it from a file, - from standard input. Left out with --many.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    many
        A file with one body to a line (JSON Lines); - is standard input.
    resume
        With --many: remember in this file what is stored, and go on from it. A line whose fate was unknown is sent
        again under the same message id. When the file cannot be written any more, the run ends and names what it does
        not know.
    skip_invalid
        With --many: send the good lines though there are bad ones.
    payloads
        A module with Payload or Consumer classes, as in an import: package.module. May be given several times.
    schemas
        The folder of locked schemas.
    version
        The payload's schema version. Without it the newest that is known, else 1.
    key
        The idempotency key; without it the class's own, which needs --payloads, else the message id.
    correlation_id
        The AMQP correlation id.
    priority
        The AMQP priority.
    timeout
        Seconds for everything that happens to one message, connecting, an alarm and a full queue included.
    overload
        What to do about a full queue: wait for it, or fail at once.
    json_
        Print one JSON document: outcome, message id, exchange and routing key; of many how many lines ended how, and
        each line that failed. There is none where the command line, the topology or the one body is wrong.
    """
    if many is not None and body is not None:
        files, body = (Path(body), *files), None
    _check_usage(body, many, resume, key, skip_invalid=skip_invalid)
    _check_timeout(timeout)
    speed = rate_of(rate)
    topology = load_topology(*topology_files(files), environ=os.environ)
    url = (connection or BrokerOptions()).broker(topology.vhost)
    checker = checker_of(type, version, modules=payloads, lock=schemas)
    writer = _Writer(topology, type, checker, {"correlation_id": correlation_id, "priority": priority})
    print(checker.by, file=sys.stderr)
    transport = AioTransport(url, name="amqpkit publish", connect_timeout=timeout)
    publisher = Publisher(topology, transport, timeout=timeout, overload=overload, rate=speed)
    if many is None:
        order = writer.order(writer.read(text_of(body or "")), key=key)
        return await _publish_one(order, publisher, transport, as_json=json_)
    memory = Resume.read(resume, type)
    with Lines.open(many, writer.read, memory) as lines:
        lines.check()
        if lines.invalid and not skip_invalid:
            if json_:
                print_json(Tally(lines.total, memory).as_json(lines))
            msg = f"invalid lines: {lines.invalid}; nothing was sent. Mend them, or send the others with --skip-invalid"
            raise AmqpkitError(msg)
        return await _publish_many(lines, memory, writer, publisher, transport, as_json=json_)


class _Writer:
    """Makes messages of one type."""

    def __init__(self, topology: Topology, type: str, checker: Checker, said: dict[str, Any]) -> None:  # noqa: A002 - AMQP's word
        self.type = type
        self._route, self._checker, self._said, self._clock = route_of(topology, type), checker, said, SystemClock()

    def read(self, text: str) -> Body:
        """Check one body, and that its fields fill the routing key; raises AmqpkitError."""
        body = self._checker.body(text)
        fill(self._route.routing_key, body.fields, self.type)
        return body

    def order(self, body: Body, *, key: str | None = None, message_id: str | None = None) -> Order:
        message = build_message(
            body.content,
            type=self.type,
            version=self._checker.version,
            clock=self._clock,
            key=body.key if key is None else key,
            message_id=message_id,
            **self._said,
        )
        return Order(self.type, self._route.exchange, fill(self._route.routing_key, body.fields, self.type), message)


async def _publish_one(order: Order, publisher: Publisher, transport: AioTransport, *, as_json: bool) -> int:
    try:
        await transport.open()
        try:
            await publisher.send(order)
        finally:
            await transport.close()
    except AmqpkitError as error:
        if as_json:
            print_json(_as_json(order, error))
        raise
    if as_json:
        print_json(_as_json(order, None))
    else:
        print(order.message_id)
    return 0


def _as_json(order: Order, error: AmqpkitError | None) -> dict[str, Any]:
    outcome = fate_of(error).value if error is None or isinstance(error, PublishError) else NOT_TRIED
    return {
        "outcome": outcome,
        "message_id": order.message_id,
        "type": order.type,
        "exchange": order.exchange,
        "routing_key": order.routing_key,
        "error": None if error is None else str(error),
    }


async def _publish_many(  # noqa: PLR0913 - what is sent, by whom, and how it is told
    lines: Lines, resume: Resume, writer: _Writer, publisher: Publisher, transport: AioTransport, *, as_json: bool
) -> int:
    tally = Tally(lines.total, resume)

    def order(line: Line) -> Order:
        tally.numbers.append(line.number)
        return writer.order(line.body, message_id=resume.id_of(line.number, line.text))

    try:
        if lines.total:
            with resume:
                resume.begin(writer.type)
                await transport.open()
                with tally.shown():
                    await publisher.publish_many(map(order, lines), progress=tally.note)
    except ResumeUnwritableError as error:
        raise AmqpkitError(f"{error}; {_what_is_forgotten(tally)}") from error
    finally:
        await transport.close()
        if as_json:
            print_json(tally.as_json(lines))
        else:
            print(tally.summary(lines))
    return int(bool(lines.invalid) or tally.fates[Fate.CONFIRMED] < lines.total)


def _what_is_forgotten(tally: Tally) -> str:
    if not tally.forgotten:
        return "the lines that were not tried can be sent with it when there is room"
    return (
        f"the rest was not tried. Stored, though it does not say so: line {spans(tally.forgotten)}. A run that goes on "
        "from it sends these again, under the same message ids"
    )


def _check_usage(
    body: str | None, many: str | None, resume: Path | None, key: str | None, *, skip_invalid: bool
) -> None:
    if body is not None and body.startswith("--"):
        msg = f"there is no option {body}"
        raise UsageError(msg)
    if many is None and body is None:
        msg = "what is to be published? give a body as JSON, @file or -, or a file of them with --many"
        raise UsageError(msg)
    if many is None and (resume is not None or skip_invalid):
        msg = "--resume and --skip-invalid are for --many"
        raise UsageError(msg)
    if many is not None and key is not None:
        msg = "--key would make all of the lines one message to their consumers; leave it out with --many"
        raise UsageError(msg)


def _check_timeout(timeout: float) -> None:
    if not 0 < timeout < math.inf:
        msg = f"--timeout {timeout:g} makes no sense; write a number of seconds above 0"
        raise UsageError(msg)
