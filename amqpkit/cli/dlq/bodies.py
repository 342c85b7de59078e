"""A letter's body and headers as they may be shown: without credentials, and without anything that is no text."""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.cli.dlq.credentials import hushed_document, names_credentials
from amqpkit.cli.dlq.wording import sized
from amqpkit.deliver import headers as h
from amqpkit.deliver.bodies import BodyError, plain_text
from amqpkit.deliver.credentials import HIDDEN
from amqpkit.model import Received
from amqpkit.operate.dead_letters.lines import written

STORY: Final = frozenset({h.ERROR, h.HISTORY, "x-exception-message", "x-exception-stacktrace"})
"""Headers that tell of the failure, and show credentials where the body does."""
_BODIES: Final = frozenset({"argsrepr", "kwargsrepr"})
"""Celery's headers that repeat the body."""


@dataclass(frozen=True, slots=True)
class Body:
    """What is shown of a body: a redacted document, or the whole, or neither: only its kind and size."""

    kind: str
    size: int
    document: Any = None
    text: str | None = None

    @property
    def summary(self) -> str:
        """Kind and size in words."""
        return f"{sized(self.size)} of {self.kind}"


def shown_body(received: Received, *, whole: bool) -> Body:
    """Look at a body; only JSON can be redacted, so anything else is shown only when it is wanted `whole`."""
    size, properties = len(received.body), received.properties
    try:
        text = plain_text(received).decode()
    except (BodyError, UnicodeDecodeError) as error:
        kind = properties.content_type or "something"
        why = f"cannot be read: {error}" if isinstance(error, BodyError) else "is no UTF-8 text"
        kind = f"{kind} that {why}" if size else "nothing"
        return Body(kind, size, text=received.body.decode(errors="backslashreplace") if whole and size else None)
    kind = properties.content_type or "text"
    if whole:
        return Body(kind, size, text=text)
    try:
        return Body("JSON", size, document=hushed_document(json.loads(text)))
    except (ValueError, RecursionError):
        return Body(f"{kind} that is no JSON", size)


def shown_headers(headers: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
    """Copy headers as JSON has them: credentials hidden, what repeats a body left out.

    Wanted `whole`, what repeats the body or tells of the failure is as it was; a telling name still hides.
    """
    return {name: _shown(name, value, whole=whole) for name, value in headers.items()}


def _shown(name: str, value: Any, *, whole: bool) -> Any:
    if names_credentials(name):
        return HIDDEN
    if name in _BODIES and not whole:
        return f"({len(str(value))} characters, shown with --body)"
    try:
        document = written(value)
        return document if whole and name in STORY | _BODIES else hushed_document(document)
    except ValueError as error:
        return f"({error})"


def whole_body(received: Received) -> dict[str, Any]:
    """A body in JSON, byte for byte."""
    try:
        return {"text": received.body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(received.body).decode()}
