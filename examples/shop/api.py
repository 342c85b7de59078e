"""The shop's HTTP API: it takes a job, publishes it, and says 503 with Retry-After when the queues are full.

    AMQP_URL=amqp://guest:guest@localhost:5672/ uvicorn --factory examples.shop.api:shop

A caller is not kept waiting: a full queue is told at once, anything else within two seconds. 202 means that the broker
has the message. 503 means come back: nothing was stored, or it is not known; then the answer's `id`, sent again as
`Idempotency-Key`, makes a second copy the same message to a worker with a store.
"""

import math
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from amqpkit import (
    MessageTooLarge,
    Nacked,
    Overloaded,
    Payload,
    Publisher,
    PublishError,
    PublishTimeout,
    PublishUncertain,
    Topology,
    broker_url,
    connect,
    load_topology,
)
from amqpkit.events import OnEvent, ignore
from amqpkit.ports import Clock, Transport

from .payloads import BillingCharge, EmailSend, ImageResize, LeadCreated

Connected = Callable[[], AbstractAsyncContextManager[Transport]]
TOPOLOGY = Path(__file__).parents[2] / "topology" / "shop.yaml"
PATHS: dict[str, type[Payload]] = {
    "/emails": EmailSend,
    "/images": ImageResize,
    "/charges": BillingCharge,
    "/leads": LeadCreated,
}
TIMEOUT = 2.0
BODY_MAX = 1024 * 1024
KEY_MAX = 255
RETRY_AFTER = 5


def shop() -> Starlette:
    """Make the API on the environment's broker; uvicorn's factory."""
    broker = broker_url(os.environ)  # noqa: TID251 - an application reads its own
    return api(load_topology(TOPOLOGY), partial(connect, broker, name="shop api"))


def api(
    topology: Topology,
    connected: Connected,
    *,
    clock: Clock | None = None,
    on_event: OnEvent = ignore,
    more: Iterable[BaseRoute] = (),
) -> Starlette:
    """Make the API, and `more` beside it, on any transport; it is opened and closed with the application."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with connected() as transport:
            app.state.transport = transport
            app.state.publisher = Publisher(
                topology, transport, clock=clock, timeout=TIMEOUT, overload="fail", on_event=on_event
            )
            yield

    routes = [Route(path, partial(take, cls), methods=["POST"]) for path, cls in PATHS.items()]
    return Starlette(routes=[*routes, Route("/health", health), *more], lifespan=lifespan)


async def health(request: Request) -> JSONResponse:
    """Say how hard the brakes are on; publishing may still work."""
    state = request.app.state
    return JSONResponse({"blocked": state.transport.blocked, "pressure": round(state.publisher.pressure, 3)})


async def take(cls: type[Payload], request: Request) -> JSONResponse:
    """Publish what a request says."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 0 < len(key.encode()) <= KEY_MAX:
        return refusal(422, f"the Idempotency-Key must have 1 to {KEY_MAX} bytes")
    body = await read_body(request)
    if body is None:
        return refusal(413, f"the body is over {BODY_MAX} bytes")
    try:
        payload = cls.model_validate_json(body)
    except ValidationError as error:
        return refusal(422, "the body is not valid", errors=error.errors(include_url=False, include_input=False))
    try:
        message_id = await request.app.state.publisher.publish(payload, message_id=key)
    except (Overloaded, Nacked, PublishTimeout, PublishUncertain) as error:
        return later(error)
    except MessageTooLarge as error:
        return refusal(413, str(error))
    return JSONResponse({"id": message_id}, status_code=202)


async def read_body(request: Request) -> bytes | None:
    """Read what a request brings; None when that is too much."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX:
            return None
    return bytes(body)


def later(error: PublishError) -> JSONResponse:
    """Answer that it is not done, when to come back, and under which id if it may be done after all."""
    seconds = error.retry_after if isinstance(error, Overloaded) else RETRY_AFTER
    answer: dict[str, object] = {"error": str(error), "stored": "no"}
    # of several queues behind an exchange one may have the copy that another refused
    if isinstance(error, PublishUncertain) or (isinstance(error, Nacked) and error.exchange):
        answer |= {"stored": "unknown", "id": error.message_id}
    return JSONResponse(answer, status_code=503, headers={"Retry-After": str(math.ceil(seconds))})


def refusal(status: int, reason: str, **details: object) -> JSONResponse:
    """Answer that the request itself is at fault."""
    return JSONResponse({"error": reason, **details}, status_code=status)
