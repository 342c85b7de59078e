"""Where a command's result goes: to stdout, or into a file that is not there yet."""

from pathlib import Path

from amqpkit.errors import AmqpkitError


def refuse_to_overwrite(out: Path | None, *, force: bool) -> None:
    """Say so before any work is done; raises AmqpkitError."""
    if out is not None and out.exists() and not force:
        raise AmqpkitError(f"{out} exists already; give another --out, or --force to replace it")


def deliver(text: str, out: Path | None) -> None:
    """Write the result; raises AmqpkitError when the file cannot be written."""
    if out is None:
        print(text, end="")
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AmqpkitError(f"{out} cannot be written: {(error.strerror or str(error)).lower()}") from error
