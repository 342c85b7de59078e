"""The command line: parses, calls one command's function, turns errors into messages and exit codes.

Each command lives in its own module, which is imported only when the command runs.
"""

import errno
import gc
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from itertools import takewhile
from keyword import iskeyword
from typing import Final

from cyclopts import App, CycloptsError, Group, Parameter

import amqpkit
from amqpkit.cli.problems import listed
from amqpkit.cli.usage import UsageError
from amqpkit.errors import AmqpkitError, TopologyError

OK, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 64, 130, 141

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""How the system says that a file cannot grow."""

_TOPOLOGY: Final = Group("topology", sort_key=1)
_RUN: Final = Group("run", sort_key=2)
_OPERATE: Final = Group("operate", sort_key=3)
_OPTIONS: Final = Group("options", sort_key=9)

_COMMANDS: Final = (
    ("validate", _TOPOLOGY, "Check topology files and name every problem with its place."),
    ("lint", _TOPOLOGY, "Find what RabbitMQ would refuse, ignore or lose."),
    ("compile", _TOPOLOGY, "Print what RabbitMQ will be asked for."),
    ("route", _TOPOLOGY, "Say which queues a message reaches, and why not the others."),
    ("graph", _TOPOLOGY, "Draw a topology: messages, exchanges, queues, retry ladders, dead letters."),
    ("plan", _TOPOLOGY, "Say what apply would change, what that risks and what stands in its way."),
    ("apply", _TOPOLOGY, "Make the broker have what the topology declares, after a plan and a question."),
    ("drift", _TOPOLOGY, "Say in what the broker is not what the topology says."),
    ("import", _TOPOLOGY, "Write a topology file from a vhost or a definitions file."),
    ("migrate", _TOPOLOGY, "Change what RabbitMQ never changes on a live queue, and lose no message."),
    ("export", _TOPOLOGY, "Write definitions, AsyncAPI, alert rules or runbooks."),
    ("schema", _TOPOLOGY, "Print the JSON Schema of topology files, for editors."),
    ("run", _RUN, "Run the consumers of a module."),
    ("publish", _RUN, "Publish one message."),
    ("demo", _RUN, "Watch messages travel through a topology."),
    ("status", _OPERATE, "Show each work queue: depth, oldest, rate, failures, handling time, dead letters, alerts."),
    ("jobs", _OPERATE, "Look at jobs, cancel them, watch their progress."),
    ("dlq", _OPERATE, "Look into dead-letter queues and decide what becomes of the letters."),
)
_JUDGES: Final = frozenset(name for name, group, _ in _COMMANDS if group is _TOPOLOGY)
"""Commands that judge a topology and end; a worker lives for weeks, and its garbage must go."""
_NESTED: Final = frozenset({"dlq", "export"})
"""Commands with verbs of their own, each in a package with a `build`."""


def build(words: Sequence[str] = ()) -> App:
    """Build the app; commands are names of functions until one is called.

    The table's one line stands for a command that is not imported; the one that the first words call speaks for itself.
    """
    called, verb = (*words, "", "")[:2]
    app = App(
        name="amqpkit",
        help="RabbitMQ topology as code: declare it in YAML, run consumers on it, survive failure.",
        version=amqpkit.__version__,
        group_commands=_OPTIONS,
        default_parameter=Parameter(negative=()),
        help_format="markdown",
        suppress_keyboard_interrupt=False,
        exit_on_error=False,
        result_action="return_value",
    )
    for name, group, text in _COMMANDS:
        if name in _NESTED and name == called:
            app.command(import_module(f"amqpkit.cli.{name}").build(verb))
            continue
        function = f"{name}_" if iskeyword(name) else name
        target = f"amqpkit.cli.{function}:{function}"
        app.command(target, name=name, group=group, help=None if name == called else text)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code: 0 fine, 1 failed, 64 usage, 130 interrupted.

    `arguments` are `sys.argv` without the program by default. Raises nothing that amqpkit raises on
    purpose; a programming error keeps its traceback.
    """
    for client in ("aio_pika", "aiormq", "pika"):
        # every loss is told by our own errors and events; these would print it again, or half of it
        logging.getLogger(client).setLevel(logging.CRITICAL)
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        refuse_password(words)
        judges = bool(words) and words[0] in _JUDGES
        with rare_collections() if judges else nullcontext():
            code = build(words[:2])(words)
        sys.stdout.flush()
    except CycloptsError:  # cyclopts has printed it
        return USAGE
    except UsageError as error:
        return _failed(f"amqpkit: {error}", USAGE)
    except TopologyError as error:
        return _failed(listed(error.problems), FAILED)
    except AmqpkitError as error:
        return _failed(f"amqpkit: {error}", FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _give_up_stdout()
        return _failed(f"amqpkit: the output cannot be written: {os.strerror(error.errno).lower()}", FAILED)
    return code if isinstance(code, int) else OK


def refuse_password(words: Sequence[str]) -> None:
    """Raise UsageError for an option `--password`: cyclopts would print the password with its complaint."""
    if any(word.partition("=")[0] == "--password" for word in takewhile(lambda word: word != "--", words)):
        msg = (
            "there is no --password, since `ps` shows the arguments to everybody on the machine: give it in "
            "AMQP_PASSWORD or in a file, with --password-file"
        )
        raise UsageError(msg)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for circles less often: of the objects of a large topology none is garbage, and all would be gone through.

    Judging ten thousand queues takes a quarter less, and its time grows with their number (benchmarks/topology.py).
    """
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _give_up_stdout() -> None:
    """Let go nowhere what Python flushes once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code
