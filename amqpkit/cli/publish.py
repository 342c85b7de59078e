"""`amqpkit publish`: one message, to where the topology routes its type."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.clock import SystemClock
from amqpkit.cli.connect import BrokerOptions
from amqpkit.cli.files import topology_files
from amqpkit.declare.load import load_topology
from amqpkit.deliver.outgoing import build_message, fill, route_of
from amqpkit.errors import AmqpkitError


async def publish(  # noqa: PLR0913 - a command's options
    type: str,  # noqa: A002 - AMQP's word
    body: str,
    *files: Path,
    connection: BrokerOptions | None = None,
    version: Annotated[int, Parameter(name="--schema-version")] = 1,
    key: str | None = None,
    correlation_id: str | None = None,
    priority: int | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 - the deadline of the publish
) -> int:
    """Publish one message and wait until the broker has it; prints its id.

    The body must be one JSON document; whether it fits its payload class is for the consumer to judge. Exit codes:
    0 stored, 1 not stored or fate unknown (the message says which).

    Parameters
    ----------
    type
        The payload type, which says where the message goes.
    body
        JSON; - reads it from standard input.
    files
        Topology files, merged in order.
    version
        The payload's schema version.
    key
        The idempotency key; without it the message id.
    correlation_id
        The AMQP correlation id.
    priority
        The AMQP priority.
    timeout
        Seconds for everything, connecting included.
    """
    topology = load_topology(*topology_files(files), environ=os.environ)
    url = (connection or BrokerOptions()).broker(topology.vhost)
    text = sys.stdin.read() if body == "-" else body
    fields = _fields(text)
    route = route_of(topology, type)
    routing_key = fill(route.routing_key, fields, type)
    message = build_message(
        text.encode(),
        type=type,
        version=version,
        clock=SystemClock(),
        key=key,
        correlation_id=correlation_id,
        priority=priority,
    )
    transport = AioTransport(url.text, name="amqpkit publish", connect_timeout=timeout)
    await transport.open()
    try:
        await transport.publish(route.exchange, routing_key, message, timeout=timeout)
    finally:
        await transport.close()
    print(message.properties.message_id)
    return 0


def _fields(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        msg = f"the body is not JSON: {error}"
        raise AmqpkitError(msg) from error
    except RecursionError as error:
        msg = "the body is not JSON that anybody could read: it is nested too deep"
        raise AmqpkitError(msg) from error
    return document if isinstance(document, dict) else {}


def _refuse_constant(name: str) -> None:
    msg = f"{name} is not JSON"
    raise ValueError(msg)
