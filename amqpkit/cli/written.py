"""Where a command's result goes: to stdout, or into a file that is not there yet."""

import os
import shutil
from pathlib import Path

from amqpkit.errors import AmqpkitError


def refuse_to_overwrite(out: Path | None, *, force: bool) -> None:
    """Say so before any work is done; raises AmqpkitError."""
    if out is not None and out.exists() and not force:
        raise AmqpkitError(f"{out} exists already; give another --out, or --force to replace it")


def deliver(text: str, out: Path | None) -> None:
    """Write the result, a file whole or not at all; raises AmqpkitError when it cannot be written."""
    if out is None:
        print(text, end="")
        return
    try:
        _put(text, out)
    except OSError as error:
        raise AmqpkitError(f"{out} cannot be written: {(error.strerror or str(error)).lower()}") from error


def _put(text: str, out: Path) -> None:
    if out.exists() and not out.is_file():  # a device or a pipe; of a folder the system says so
        out.write_text(text, encoding="utf-8")
        return
    out = out.resolve()  # a link stays one
    part = out.with_name(f".amqpkit.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # or the name may be there after a power cut, and the text not
        if out.exists():
            shutil.copymode(out, part)
        part.replace(out)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
