"""The shop's page for its catalogue: bring a file, see how far its import is, give it up, read why it failed.

    AMQP_URL=amqp://guest:guest@localhost:5672/ uvicorn --factory examples.shop.page:shop

It is the API with four addresses more: `GET /`, `POST /imports`, and under `/jobs` amqpkit's own application. The
import answers at once, with 202 and where to ask; the file waits in the database for a worker.
Who somebody is, a cookie says: whoever has brought a file, and nobody else, sees its job and may cancel it.
"""

import asyncio
import hashlib
import os
import re
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from amqpkit import (
    JobListener,
    Nacked,
    Overloaded,
    PublishTimeout,
    PublishUncertain,
    Topology,
    broker_url,
    connect,
    load_topology,
)
from amqpkit.jobs import Job
from amqpkit.ports import Transport
from amqpkit.stores import Log, open_jobs
from amqpkit.web.jobs import jobs_app

from .api import BODY_MAX, TOPOLOGY, Connected, api, later, read_body, refusal
from .catalogue import forget, keep, open_catalogue, owner_of
from .imports import DATABASE
from .payloads import CatalogueImport

COOKIE = "shop-session"
SESSION = re.compile(r"[A-Za-z0-9_-]{43}")
NAME_MAX = 100
HTML = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")


def shop() -> Starlette:
    """Make page and API on the environment's broker and on shop.db; uvicorn's factory."""
    broker = broker_url(os.environ)  # noqa: TID251 - an application reads its own
    return site(
        load_topology(TOPOLOGY),
        partial(connect, broker, name="shop page"),
        open_catalogue(DATABASE),
        open_jobs(DATABASE),
    )


def site(topology: Topology, connected: Connected, catalogue: Engine, log: Log) -> Starlette:
    """Make page and API on any transport; `log` is opened and closed with the application."""
    listener = JobListener(log)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Transport]:
        await log.prepare()
        try:
            async with listener, connected() as transport:  # the last news is written after the last publish
                yield transport
        finally:
            await log.close()

    return api(topology, opened, on_event=listener, more=Desk(catalogue, log).routes())


class Desk:
    """Where files are brought to and asked for."""

    def __init__(self, catalogue: Engine, log: Log) -> None:
        """Keep files in this catalogue, ask this log."""
        self._catalogue, self._log = catalogue, log

    def routes(self) -> tuple[BaseRoute, ...]:
        """Say what is where."""
        return (
            Route("/", show, methods=["GET"]),
            Route("/imports", self.take, methods=["POST"]),
            Mount("/jobs", jobs_app(self._log, authorise=self.may_see)),
        )

    async def take(self, request: Request) -> Response:
        """Keep the file, and have it imported: `text/csv` as the body, its name as `?name=`."""
        # Another site's form cannot send this type; a script of another site is not let through by the browser.
        if request.headers.get("Content-Type", "").partition(";")[0].strip() != "text/csv":
            return refusal(415, "send the file itself, with Content-Type: text/csv")
        body = await read_body(request)
        if body is None:
            return refusal(413, f"the file is over {BODY_MAX // 1024} KiB")
        text = read_text(body)
        if text is None:
            return refusal(422, "the file is not text in UTF-8: save it as CSV UTF-8")
        who = session(request)
        upload = await asyncio.to_thread(keep, self._catalogue, who, text)
        answer = await self._order(request, upload)
        remember(answer, who)
        return answer

    async def _order(self, request: Request, upload: str) -> Response:
        """Publish the import of a file; the job's id is the file's, which is how its owner is known."""
        name = request.query_params.get("name", "")[:NAME_MAX] or "products.csv"
        try:
            await request.app.state.publisher.publish(CatalogueImport(upload=upload, file=name), message_id=upload)
        except PublishUncertain as error:  # it may be on its way after all: then it needs its file
            return later(error)
        except (Overloaded, Nacked, PublishTimeout) as error:
            await asyncio.to_thread(forget, self._catalogue, upload)
            return later(error)
        return JSONResponse({"id": upload}, status_code=202, headers={"Location": f"/jobs/{upload}"})

    async def may_see(self, request: Request, job: Job) -> bool:
        """Say whether a job is that of a file which this browser has brought."""
        owner = await asyncio.to_thread(owner_of, self._catalogue, job.id)
        return owner is not None and secrets.compare_digest(owner.encode(), request.cookies.get(COOKIE, "").encode())


async def show(request: Request) -> Response:
    """Give the page, the same for everybody: what it shows it asks for."""
    answer = HTMLResponse(HTML, headers={"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"})
    remember(answer, session(request))
    return answer


def session(request: Request) -> str:
    """Say who this is; somebody new, or whose cookie is none of ours, gets a name that nobody can guess."""
    known = request.cookies.get(COOKIE, "")
    return known if SESSION.fullmatch(known) else secrets.token_urlsafe(32)


def remember(answer: Response, who: str) -> None:
    """Let the browser say so next time, but not when another site sends something. Behind TLS, add `secure=True`."""
    answer.set_cookie(COOKIE, who, max_age=30 * 24 * 3600, httponly=True, samesite="lax")


def read_text(body: bytes) -> str | None:
    """Decode a file; None when it is no text."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def policy(html: str) -> str:
    """Let the browser run and apply what stands in the page itself, and nothing else whatever comes to be in it."""

    def hashed(tag: str) -> str:
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        return f"'sha256-{b64encode(hashlib.sha256(inner.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {hashed('script')}; style-src {hashed('style')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


POLICY = policy(HTML)
