"""Jobs over HTTP, as an ASGI application to mount: where a job stands, as it happens, and that it be given up.

    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/jobs", jobs_app(open_jobs(url), authorise=may_see))])

`GET /{id}`, `POST /{id}/cancel` and, as server-sent events, `GET /{id}/events`. It mounts into FastAPI alike.
"""

import asyncio
import inspect
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from amqpkit.errors import StoreUnavailable
from amqpkit.jobs import Job, JobState
from amqpkit.ports import JobLog
from amqpkit.web.watch import Watch, heard

Authorise = Callable[[Request, Job], bool | Awaitable[bool]]
"""Whether whoever makes this request may see this job, and cancel it: `request.method` tells which."""

LOOK_AGAIN: Final = 1
"""Seconds after which it is worth asking again."""
LATEST: Final = 60
"""Seconds after which a reader should ask again in any case."""
PATIENCE: Final = 5.0
"""Seconds for which events wait for a job that nothing is known of yet: its news may be late."""


def jobs_app(log: JobLog, *, authorise: Authorise, poll: float = 0.5) -> Starlette:
    """Make the application; `authorise` is asked for every request, and what it refuses looks like an unknown job.

    `poll` is how often, in seconds, the log is looked at for all readers of events together. A log that cannot be asked
    is 503, and events go on when it is back. The log is the caller's to prepare and to close.
    """
    room = _Room(log, authorise, poll)
    return Starlette(
        routes=[  # a message's id may hold slashes, so what ends in a word of ours comes first
            Route("/{id:path}/cancel", room.cancel, methods=["POST"]),
            Route("/{id:path}/events", room.events, methods=["GET"]),
            Route("/{id:path}", room.show, methods=["GET"]),
        ]
    )


class _Room:
    """The three requests, and what they share."""

    def __init__(self, log: JobLog, authorise: Authorise, poll: float) -> None:
        self._log, self._authorise, self._poll = log, authorise, poll
        self._watch = Watch(log, poll)

    async def show(self, request: Request) -> Response:
        """Say where a job stands; Retry-After says when to ask again, and is missing once it has ended."""
        try:
            job = await self._find(request)
        except StoreUnavailable:
            return _unavailable()
        return _unknown() if job is None else _shown(job)

    async def cancel(self, request: Request) -> Response:
        """Ask that a job be given up: 202, and it is up to its handler; 409 when it has ended."""
        try:
            job = await self._find(request)
            if job is not None:
                job = await self._log.cancel(job.id)
        except StoreUnavailable:
            return _unavailable()
        if job is None:
            return _unknown()
        return _shown(job, 409 if job.state.final else 202)

    async def events(self, request: Request) -> Response:
        """Tell each change of a job as an event `job`, until it has ended."""
        try:
            job = await self._awaited(request)
        except StoreUnavailable:
            return _unavailable()
        return (
            _unknown() if job is None else EventSourceResponse(self._told(job), headers={"Cache-Control": "no-store"})
        )

    async def _get(self, job: str) -> Job | None:
        """Look a job up, to the end: a reader who goes away must not leave a database connection half used."""
        looking = asyncio.ensure_future(self._log.get(job))
        looking.add_done_callback(heard)
        return await asyncio.shield(looking)

    async def _find(self, request: Request) -> Job | None:
        job = await self._get(request.path_params["id"])
        if job is None:
            return None
        allowed = self._authorise(request, job)
        if inspect.isawaitable(allowed):
            allowed = await allowed
        # anything but True refuses: a function that forgets to return must not let everybody in
        return job if allowed is True else None

    async def _awaited(self, request: Request) -> Job | None:
        """Find a job that may only just have been published."""
        deadline, refused = asyncio.get_running_loop().time() + PATIENCE, False
        while True:
            if not refused and await self._get(request.path_params["id"]) is not None:
                if (job := await self._find(request)) is not None:
                    return job
                refused = True  # and yet it takes as long as for a job that is not there, or strangers could tell
            if asyncio.get_running_loop().time() >= deadline or await request.is_disconnected():
                return None
            await asyncio.sleep(self._poll)

    async def _told(self, job: Job) -> AsyncIterator[ServerSentEvent]:
        told = _text(job)
        yield ServerSentEvent(told, event="job", retry=LOOK_AGAIN * 1000)
        while not job.state.final:
            try:
                found = await self._watch.next(job.id)
            except StoreUnavailable:
                continue  # the connection stays: the ping says so, and the next news follows when the log is back
            if found is None:
                return  # its row was tidied away
            job = found
            if (text := _text(job)) != told:
                told = text
                yield ServerSentEvent(told, event="job")


def _text(job: Job) -> str:
    return json.dumps(job.as_json(), ensure_ascii=False)


def _shown(job: Job, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    if not job.state.final:
        headers["Retry-After"] = str(look_again(job, datetime.now(UTC)))
    return JSONResponse(job.as_json(), status, headers)


def look_again(job: Job, now: datetime) -> int:
    """Say after how many whole seconds to ask again: of a job that waits for its retry, not before that."""
    if job.state is JobState.RETRYING and job.next_attempt is not None:
        return min(LATEST, max(LOOK_AGAIN, math.ceil((job.next_attempt - now).total_seconds())))
    return LOOK_AGAIN


def _unknown() -> Response:
    # News of a job may come late, so it is worth asking again for a while.
    said = {"error": "unknown-job", "sentence": "No job of that id is known, or it is not yours."}
    return JSONResponse(said, 404, {"Retry-After": str(LOOK_AGAIN), "Cache-Control": "no-store"})


def _unavailable() -> Response:
    said = {"error": "unavailable", "sentence": "The log of jobs cannot be asked just now. The jobs themselves go on."}
    return JSONResponse(said, 503, {"Retry-After": str(5 * LOOK_AGAIN), "Cache-Control": "no-store"})
