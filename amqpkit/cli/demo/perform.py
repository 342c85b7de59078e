"""The demo from its opening to its verdict."""

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from amqpkit.cli.connect import AdminOptions
from amqpkit.cli.demo.memory import MemoryStage
from amqpkit.cli.demo.play import Stage, check, play
from amqpkit.cli.demo.screen import Screen
from amqpkit.cli.demo.script import acts
from amqpkit.cli.demo.shop import Shop, find_shop, shown

FAILED: Final = 1
QUIET: Final = ("amqpkit", "aio_pika", "aiormq")
TERMINATED: Final = 128 + signal.SIGTERM
_AFTER_MEMORY: Final = """\
Next: read {topology} and {consumers}, the whole application, then
  {amqpkit} compile {topology}
      what RabbitMQ is asked for
  {up}{amqpkit} demo --url amqp://guest:guest@127.0.0.1:5672/
      the same on RabbitMQ, in real time"""
_AFTER_BROKER: Final = """\
What the demo had made on the broker is deleted again.
Next: make it to stay, and run the shop's consumers until you stop them:
  {amqpkit} apply {topology}
  {amqpkit} run {module}:shop {topology} --store {store}"""


async def in_memory(screen: Screen) -> int:
    """Play in memory; return the exit code."""
    shop = find_shop()
    stage = MemoryStage(shop, screen.line)
    with _quiet_log():
        async with stage.running():
            where = f"a broker in memory that behaves like RabbitMQ {stage.broker.info.version}, in virtual time"
            code = await _perform(stage, shop, screen, where)
    screen.farewell(_filled(_AFTER_MEMORY, shop))
    return code


async def on_broker(screen: Screen, options: AdminOptions, *, yes: bool) -> int:
    """Play on a broker and clean up; return the exit code."""
    from amqpkit.cli.demo.live import LiveStage

    shop = find_shop()
    place = options.place()
    if sys.stderr.isatty():
        print("Applying the topology and starting a worker …", file=sys.stderr)
    with _quiet_log(), _terminable():
        async with LiveStage(shop, place, screen.line).running(use_existing=yes) as stage:
            where = f"RabbitMQ {stage.transport.broker.version}, {place}, with short delays"
            code = await _perform(stage, shop, screen, where)
    screen.farewell(_filled(_AFTER_BROKER, shop))
    return code


async def _perform(stage: Stage, shop: Shop, screen: Screen, where: str) -> int:
    script = acts(shop.payloads)
    screen.opening(where, stage.topology, shown(shop.topology_file))
    for number, act in enumerate(script, start=1):
        screen.act(number, act)
        await play(stage, act)
    problems = await check(stage, tuple(sent for act in script for sent in act.messages))
    screen.closing(list(stage.story.journeys.values()), stage.topology, problems)
    return FAILED if problems else 0


@contextmanager
def _terminable() -> Iterator[None]:
    """Clean up on SIGTERM as on Ctrl-C."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    terminated = False

    def end() -> None:
        nonlocal terminated
        terminated = True
        if task is not None:
            task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if terminated:
            raise SystemExit(TERMINATED) from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _filled(text: str, shop: Shop) -> str:
    return text.format(
        amqpkit=_command(),
        topology=shown(shop.topology_file),
        consumers=shown(Path(shop.consumers.__file__ or "")),
        module=shop.consumers.__name__,
        store=shop.consumers.DATABASE,
        up="make up && " if Path("Makefile").is_file() and not shop.is_installed else "",
    )


def _command() -> str:
    """Spell this program as the reader can: by its path unless it is on the PATH."""
    program = Path(sys.argv[0])
    if program.name != "amqpkit" or shutil.which("amqpkit"):
        return "amqpkit"
    return os.path.relpath(program)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Leave the telling to the demo: the logs say the same in other words."""
    before = {name: logging.getLogger(name).level for name in QUIET}
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
