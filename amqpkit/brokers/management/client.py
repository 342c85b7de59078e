"""HTTP to the management API: addresses that survive every name, a pool, a deadline, another try."""

import asyncio
import html
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import httpx2
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from amqpkit.brokers.url import Location, ManagementURL
from amqpkit.errors import ConnectionFailed

# RabbitMQ 4.0 drops a kept-alive connection after some refusals (measured), and any proxy drops idle ones. A request
# that timed out is not sent again: the broker is slow, and three times the wait helps nobody.
_LOST: Final = (httpx2.NetworkError, httpx2.RemoteProtocolError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said; `body` is decoded JSON, None when it is empty or something else."""

    status: int
    body: Any = None

    @property
    def fine(self) -> bool:
        """Whether it did what was asked."""
        return self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def reason(self) -> str:
        """The broker's own words for a refusal, on one line."""
        text = str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""
        # 4.0 escapes for HTML what 4.3 sends as it is: `&lt;&lt;"max-lenght"&gt;&gt;`.
        return " ".join(html.unescape(text).split())


class Client:
    """Requests to one management API, each sent again on a lost connection: all that we send may be repeated."""

    def __init__(
        self,
        api_url: str,
        *,
        pool: int,
        timeout: float,
        tls: ssl.SSLContext | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        url = ManagementURL.parse(api_url)
        self.location: Final[Location] = url.location
        self._base = url.base
        self._timeout = timeout
        self._http = httpx2.AsyncClient(
            auth=httpx2.BasicAuth(url.location.user, url.location.password),
            limits=httpx2.Limits(max_connections=pool, max_keepalive_connections=pool),
            # Waiting for a free connection is not the broker's fault, so it has no deadline.
            timeout=httpx2.Timeout(timeout, connect=min(timeout, 5.0), pool=None),
            verify=tls or True,
            transport=transport,
            trust_env=False,
        )

    async def ask(self, method: str, *path: str, body: object = None, **query: str | int) -> Answer:
        """Send one request; raises ConnectionFailed when nobody answers. Each part of `path` may hold any character."""
        url = "/".join((self._base, *(quote(part, safe="") for part in path)))
        try:
            response = await self._send(method, url, body, query)
        except httpx2.TimeoutException as error:
            raise ConnectionFailed(self._advice(f"did not answer within {self._timeout:g} s")) from error
        except (httpx2.TransportError, OSError) as error:
            raise ConnectionFailed(self._advice(f"cannot be reached ({_cause(error)})")) from error
        return Answer(response.status_code, _decoded(response))

    async def _send(self, method: str, url: str, body: object, query: dict[str, str | int]) -> httpx2.Response:
        again = AsyncRetrying(
            retry=retry_if_exception_type(_LOST),
            stop=stop_after_attempt(4),
            wait=wait_exponential(multiplier=0.1, max=1),
            sleep=asyncio.sleep,
            reraise=True,
        )
        content: dict[str, Any] = {} if body is None else {"json": body}
        return await again(self._http.request, method, url, params=query or None, **content)

    def _advice(self, what: str) -> str:
        return (
            f"the management API at {self.location} {what}; is RabbitMQ running there, with its management plugin on "
            "(rabbitmq-plugins enable rabbitmq_management)?"
        )

    async def close(self) -> None:
        """Give back the connections."""
        await self._http.aclose()


def _decoded(response: httpx2.Response) -> Any:
    try:
        return response.json() if response.content else None
    except ValueError:
        return None


def _cause(error: BaseException) -> str:
    # httpx2's own texts repeat no URL; an empty one is worth no more than its class.
    return str(error) or type(error).__name__
