"""What a letter tells, as it may be shown: without the credentials that exceptions repeat.

A text is a stranger's and has no fields, so what follows a telling name is hidden though it may be prose: a word too
few in an error is a nuisance, a password on a screen is not to be taken back. Every text is read once, left to right.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from amqpkit.deliver.credentials import DEPTH_MAX, HIDDEN, is_telling
from amqpkit.operate.dead_letters.letter import HistoryLine, Letter

_TELLING: Final = frozenset(
    {"authorization", "auth", "token", "cookie", "credential", "credentials", "passwd", "pwd", "passphrase"}
)
_ENDS: Final = ("password", "passwd", "secret")
"""Of one word that was run together, as in PGPASSWORD."""
_FAULTS: Final = frozenset({"error", "exception", "warning", "fault"})
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LINES: Final = frozenset({"authorization", "cookie"})
"""Headers whose whole line is the credential."""

_URL: Final = re.compile(r"""://((?:(?!://)[^\s"'<>`])+)""")
_PORT: Final = re.compile(r"\d{1,5}(?:[/?#,;)\]]|$)")
_NAMED: Final = re.compile(
    r"""
    (?<!\w)(?P<flag>--)?(?P<name>[A-Za-z_][\w-]{0,100})
    (?P<is>\\?["'`]?\]?[ \t]{0,3}(?:=>|[:=]{1,2})[ \t]{0,3}|(?(flag)["']?(?:,[ ]?|[ ])|(?!)))
    """,
    re.VERBOSE,
)
_QUOTED: Final = re.compile(
    r"""(?:\w{1,30}\()?[bBfFrRuU]{0,2}(?P<quote>\\?["'`])(?:(?!(?P=quote))(?:\\.|[^\n]))*(?P=quote)?"""
)
_NESTED: Final = re.compile(r"[(\[{][^)\]}\n]*[)\]}]?")
_BARE: Final = re.compile(
    r"""(?:(?:Bearer|Basic|Digest|Token|ApiKey|Negotiate)[ ]+)?(?:[^\s,;&"'`)\]}<>]|,(?![\s]|[\w-]+[=:]|$))+""",
    re.IGNORECASE,
)
_LINE: Final = re.compile(r"""[^\n"'`]+""")
_PROSE: Final = re.compile(
    r"(?:Field|Input|String|Value|Extra|is|must|should|was|cannot|not|missing|required|expected)\s"
)
"""How validators go on after a field's name and a colon."""
_ALONE: Final = re.compile(
    r"""
    (?P<scheme>\b(?:Bearer|Basic)[ ]+)[\w.~+/-]{16,}=*
  | \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?
  | -----BEGIN[ ][A-Z ]{0,30}PRIVATE[ ]KEY-----(?:(?!-----END)[\s\S])*(?:-----END[ ][A-Z ]{0,30}-----)?
    """,
    re.VERBOSE,
)


def names_credentials(name: str) -> bool:
    """Whether a name says that its value is a credential, in a header or a text: more names than a payload's field."""
    words = {word.lower() for word in _WORDS.findall(name)}
    return is_telling(name) or bool(words & _TELLING) or any(word.endswith(_ENDS) for word in words)


def hushed(text: str) -> str:
    """A text without credentials: of URLs, after telling names, bearer tokens, private keys."""
    text = _ALONE.sub(lambda found: f"{found['scheme'] or ''}{HIDDEN}", text)
    return "".join(_without_named(_URL.sub(_without_password, text)))


def _without_password(found: re.Match[str]) -> str:
    user, colon, rest = found[1].partition(":")
    if not colon or set("/?#@[") & set(user) or _PORT.match(rest):
        return found[0]
    _, at, place = rest.rpartition("@")
    if at:
        return f"://{user}:{HIDDEN}@{place}"
    # a letter's headers have little room, so texts are cut; what is no port was the front of a password
    is_cut = found.string[found.end() : found.end() + 1] in ("", "\n") and "/" not in rest
    return f"://{user}:{HIDDEN}" if is_cut else found[0]


def _without_named(text: str) -> Iterator[str]:
    at = 0
    while found := _NAMED.search(text, at):
        yield text[at : found.end()]
        at = found.end()
        if names_credentials(found["name"]) and (value := _value(found, text)) is not None:
            yield HIDDEN if (quote := value.groupdict().get("quote")) is None else f"{quote}{HIDDEN}{quote}"
            at = value.end()
    yield text[at:]


def _value(found: re.Match[str], text: str) -> re.Match[str] | None:
    at, words = found.end(), [word.lower() for word in _WORDS.findall(found["name"])]
    if value := _QUOTED.match(text, at) or _NESTED.match(text, at):
        return value
    if ":" in found["is"] and "=" not in found["is"]:
        if _FAULTS & set(words[-1:]) or _PROSE.match(text, at):
            return None
        if set(words) & _LINES:
            return _LINE.match(text, at)
    return _BARE.match(text, at)


def hushed_document(document: object, depth: int = 0) -> object:
    """Copy a JSON document with every value under a telling name hidden, and every text hushed."""
    if depth > DEPTH_MAX:
        return "…"
    match document:
        case str():
            return hushed(document)
        case Mapping():
            return {
                name: HIDDEN if names_credentials(str(name)) else hushed_document(value, depth + 1)
                for name, value in document.items()
            }
        case list() | tuple():
            return [hushed_document(value, depth + 1) for value in document]
        case _:
            return document


def hushed_error(letter: Letter) -> Letter:
    """A letter whose error may be shown, its type and message only: lists and groups show no more."""
    kind, message, trace = letter.error
    return replace(letter, error=(hushed(kind), hushed(message), trace))


def hushed_letter(letter: Letter) -> Letter:
    """A letter whose error, traceback and history may be shown."""
    kind, message, trace = letter.error
    return replace(
        letter,
        error=(hushed(kind), hushed(message), hushed(trace)),
        history=tuple(map(_hushed_line, letter.history)),
    )


def _hushed_line(line: HistoryLine) -> HistoryLine:
    return replace(line, type=hushed(line.type), message=hushed(line.message))
