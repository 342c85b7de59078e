"""`amqpkit dlq show`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from amqpkit.cli.dlq.bodies import STORY, Body, shown_body, shown_headers, whole_body
from amqpkit.cli.dlq.credentials import hushed_letter
from amqpkit.cli.dlq.desk import DeskOptions, desk
from amqpkit.cli.dlq.letters import error_text, history_json, is_called, letter_json
from amqpkit.cli.dlq.wording import Paper, harmless, harmless_lines, note, print_document, stamped
from amqpkit.deliver import headers as h
from amqpkit.model import Properties, Received, Stamp
from amqpkit.operate.dead_letters.browse import browse
from amqpkit.operate.dead_letters.letter import Letter, read_letter

_TOLD: Final = STORY - {"x-exception-message"}
"""Headers that are told in sections of their own."""
_TELLERS: Final = {"dlx": ", as RabbitMQ tells", "celery": ", a Celery task", "spring": ", as Spring tells"}
_LINE: Final = 500
_TRACEBACK: Final = 32_768
_BODY: Final = 20_000
_MANY: Final = 20


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is kept of a message when its queue is left."""

    letter: Letter
    properties: Properties
    body: Body
    bytes: dict[str, Any] | None


async def show(
    queue: str,
    id: str,  # noqa: A002 - what it is called everywhere
    *files: Path,
    connection: DeskOptions | None = None,
    body: bool = False,
    json_: bool = False,
) -> int:
    """Show one letter: properties, headers, what it went through, the traceback, the body; credentials are hidden.

    Hidden is a URL's password, what follows a telling name (password=, "apiKey":, Authorization:), a bearer token, a
    private key: in errors, traceback, history, headers and body alike. A body that is no JSON is named by its kind and
    size. Exit codes: 0 shown, 1 no such letter.

    Parameters
    ----------
    queue
        A work queue of the file (its dead letters are meant), or any queue on the broker.
    id
        The message id, or the sha256: name of a letter that has none, as `dlq list --letters` and `dlq groups` say it;
        also as a narrow terminal has it, with … in it.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    body
        Show the body, the errors and the traceback as they are, whatever is in them. Headers with a telling name stay
        hidden; `dlq export` has everything.
    json_
        Print one JSON document, which docs/dead-letters.md describes.
    """
    found = list[_Shown]()
    async with desk(files, connection, verb="show") as here:
        place = await here.find(queue)
        if not here.may_look(place.queue):
            return 1

        def visit(received: Received) -> None:
            letter = read_letter(received, work=place.work)
            if is_called(letter.id, id) and len(found) < _MANY:
                whole = whole_body(received) if body and json_ else None
                shown = letter if body else hushed_letter(letter)
                found.append(_Shown(shown, received.properties, shown_body(received, whole=body), whole))

        browsed = await browse(here.transport, place.queue, visit, clock=here.clock)
    if json_:
        print_document({"letters": [_as_json(each, whole=body) for each in found]})
    for each in () if json_ else found:
        _print(Paper(), each, whole=body)
    if browsed.trouble:
        note(f"{place.queue}: {browsed.trouble}")
    if not found:
        note(f'no letter in "{place.queue}" has the id {id} ({browsed.seen} of {browsed.total} were seen)')
    return int(not found)


# --- as JSON ---------------------------------------------------------------------------------------


def _as_json(shown: _Shown, *, whole: bool) -> dict[str, Any]:
    properties = dict(_properties(shown.properties))
    body: dict[str, Any] = {"kind": shown.body.kind, "size": shown.body.size}
    if shown.bytes is not None:
        body |= shown.bytes
    elif shown.body.document is not None:
        body["redacted"] = shown.body.document
    return letter_json(shown.letter) | {
        "traceback": shown.letter.error[2],
        "history": [history_json(line) for line in shown.letter.history],
        "properties": properties,
        "headers": shown_headers(shown.properties.headers, whole=whole),
        "body": body,
    }


def _properties(properties: Properties) -> Iterator[tuple[str, Any]]:
    for each in fields(properties):
        value = getattr(properties, each.name)
        if each.name != "headers" and value is not None:
            yield each.name, value.isoformat() if isinstance(value, datetime) else value
        if isinstance(value, Stamp) and value.sent is not None:
            yield f"{each.name}_sent", value.sent


# --- on paper --------------------------------------------------------------------------------------


def _print(paper: Paper, shown: _Shown, *, whole: bool) -> None:
    letter = shown.letter
    paper.line(harmless(letter.id, _LINE), "bold")
    for name, value in _facts(letter):
        if value:
            paper.line(f"  {name:<12}{harmless(value, _LINE)}")
    _section(paper, "Properties", (f"{name}: {value}" for name, value in _properties(shown.properties)))
    headers = shown_headers(shown.properties.headers, whole=whole)
    _section(paper, "Headers", (f"{name}: {_value(value)}" for name, value in headers.items() if name not in _TOLD))
    _section(paper, "Timeline", _timeline(letter))
    _section(paper, "Errors", _details(headers))
    if letter.error[2]:
        paper.line("Traceback", "bold")
        for line in harmless_lines(letter.error[2].rstrip(), _TRACEBACK):
            paper.line(f"  {line}")
    paper.line("Body", "bold")
    _print_body(paper, shown.body)
    paper.line()


def _facts(letter: Letter) -> Iterator[tuple[str, str]]:
    yield "fate", letter.fate + _TELLERS.get(letter.source, "")
    yield "error", error_text(letter.fate, *letter.error[:2])
    yield "type", f"{letter.type} v{letter.version}" if letter.type and letter.version else letter.type
    yield "queue", letter.queue
    yield "failed in", letter.own_queue or "nothing tells: a replay needs --to"
    yield "origin", f'exchange "{letter.exchange}", key "{letter.routing_key}"'
    yield "died", stamped(letter.died_at)
    yield "attempts", str(letter.attempts)
    yield "replays", f"{letter.replays}, last by run {letter.replay_run}" if letter.replays else ""
    yield "key", letter.key if letter.key and letter.key != letter.id else ""


def _timeline(letter: Letter) -> Iterator[str]:
    if letter.published_at:
        yield f"{stamped(letter.published_at)}  published"
    for line in letter.history:
        what = f"attempt {line.attempt}: " if line.attempt else ""
        then = f"; again after {line.delay}" if line.delay else ""
        yield f"{stamped(line.at) or '?':<20}  {what}{line.type}: {line.message}{then}"
    yield f"{stamped(letter.died_at) or '?':<20}  dead: {letter.fate}"


def _details(headers: Mapping[str, Any]) -> Iterator[str]:
    """What validation said, place by place."""
    error = headers.get(h.ERROR)
    errors = error.get("errors") if isinstance(error, dict) else None
    for each in errors[:_MANY] if isinstance(errors, list) else ():
        yield (
            ", ".join(f"{name}: {_typed(value)}" for name, value in each.items())
            if isinstance(each, dict)
            else str(each)
        )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(_typed(value), ensure_ascii=False)


def _typed(value: Any) -> Any:
    """A value for reading, without the marks that keep its type for other programs."""
    if isinstance(value, dict):
        name = next(iter(value), "")
        return value[name] if len(value) == 1 and name.startswith("$") else {k: _typed(v) for k, v in value.items()}
    return [_typed(item) for item in value] if isinstance(value, list) else value


def _section(paper: Paper, title: str, lines: Iterator[str]) -> None:
    for number, line in enumerate(lines):
        if not number:
            paper.line(title, "bold")
        paper.line(f"  {harmless(line, _LINE)}")


def _print_body(paper: Paper, body: Body) -> None:
    paper.line(f"  {harmless(body.summary, _LINE)}", "dim")
    if body.text is not None:
        text, room = body.text, len(body.text)
    elif body.document is not None:
        text, room = json.dumps(body.document, indent=2, ensure_ascii=False), _BODY
    else:
        return
    for line in harmless_lines(text, room):
        paper.line(f"  {line}")
    if len(text) > room:
        paper.line(f"  … ({len(text) - room} characters more: --body)", "dim")
