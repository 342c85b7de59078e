"""Where this machine gets Debian from, read from its own apt configuration; no mirror is ever assumed.

Knows both spellings of a source, the one-line sources.list and the deb822 *.sources. Run as a program it prints the
mirror. Standard library only: the image script runs it with whichever python3 there is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RELEASES = frozenset({"stable", "testing", "unstable", "oldstable", "sid"})
# Suites beside a release: they hold no base system to bootstrap from.
BESIDE = re.compile(r"(-security|-updates|-backports.*|-proposed-updates|/updates)/?$")


class NoMirrorError(Exception):
    """The apt configuration names no Debian archive that a system could be bootstrapped from."""


@dataclass(frozen=True, slots=True)
class Source:
    """One `deb` line, or one (URI, suite) pair of a deb822 stanza."""

    uri: str
    suite: str
    components: tuple[str, ...]


def one_line(text: str) -> Iterator[Source]:
    """Read sources.list: `deb [options] uri suite component...`."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^]]*\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            yield Source(match[1], match[2], tuple(match[3].split()))


def deb822(text: str) -> Iterator[Source]:
    """Read a *.sources file: stanzas of fields, several URIs and suites in each."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, list[str]] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields.setdefault(name, []).extend(line.split())
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.split()
        if "deb" not in fields.get("types", ()) or fields.get("enabled", ["yes"])[0].lower() in {"no", "false", "0"}:
            continue
        for uri in fields.get("uris", ()):
            for suite in fields.get("suites", ()):
                yield Source(uri, suite, tuple(fields.get("components", ())))


def sources(etc: Path = Path("/etc/apt")) -> list[Source]:
    """Return every active binary source, in the order in which apt reads the files."""
    found: list[Source] = []
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if file.is_file() and file.suffix in {".list", ".sources"}:
            read = deb822 if file.suffix == ".sources" else one_line
            found += read(file.read_text(encoding="utf-8"))
    return found


def mirror(candidates: list[Source], codename: str) -> str:
    """Pick the archive that the machine itself is installed from: its own release, main, and called debian if any is.

    Raises NoMirrorError when there is none, as with a machine that installs from a CD.
    """
    archives = [
        source.uri.rstrip("/")
        for source in candidates
        if source.uri.startswith(("http://", "https://"))
        and not BESIDE.search(source.suite)
        and (source.suite == codename or source.suite in RELEASES)
        and "main" in source.components
    ]
    # Other vendors' archives carry Debian's suite names too; Debian's own is conventionally at .../debian.
    for uri in sorted(archives, key=lambda uri: not re.search(r"/debian(/|$)", uri)):
        return uri
    message = "no Debian archive (http or https, component main) in /etc/apt/sources.list or sources.list.d"
    raise NoMirrorError(message)


def codename(os_release: Path = Path("/etc/os-release")) -> str:
    """Return the release's name, such as trixie; testing has none in some images, and RELEASES covers it."""
    match = re.search(r"^VERSION_CODENAME=\"?(\w+)", os_release.read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else ""


if __name__ == "__main__":
    try:
        print(mirror(sources(), codename()))
    except NoMirrorError as error:
        sys.exit(str(error))
