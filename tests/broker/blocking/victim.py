"""Programs that fork or end with a blocking transport open: `python -m tests.broker.blocking.victim NAME URL`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from amqpkit import connect_blocking
from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.errors import PublishUncertain
from amqpkit.model import Message, Properties


def send(transport: PikaTransport, name: str, timeout: float = 20.0) -> None:
    """Publish and wait for the confirm."""
    transport.publish("", "q", Message(b"", Properties(message_id=name, delivery_mode=2)), timeout=timeout).result()


def many(transport: PikaTransport, prefix: str, count: int = 50) -> None:
    """Publish one after the other."""
    for n in range(count):
        send(transport, f"{prefix}-{n}")


def both(transport: PikaTransport, prefix: str) -> None:
    """Publish, and close."""
    many(transport, prefix)
    transport.close()


def leave(work: Callable[[], None]) -> None:
    """Run a child's work and end the child, as a forking server's worker does."""
    status = 1
    try:
        work()
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def forks(url: str) -> None:
    """Fork three times while four threads publish; everybody goes on."""
    transport = connect_blocking(url, name="forking")
    stop, counts = threading.Event(), dict[int, int]()

    def busy(thread: int) -> None:
        n = 0
        while not stop.is_set() or n < 50:
            send(transport, f"parent-{thread}-{n}")
            n += 1
        counts[thread] = n

    threads = [threading.Thread(target=busy, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    children = []
    for child in range(3):
        time.sleep(0.05)
        pid = os.fork()
        if not pid:
            leave(partial(both, transport, f"child-{child}"))
        children.append(pid)
    for pid in children:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stop.set()
    for each in threads:
        each.join()
    send(transport, "last")
    transport.close()
    for number, count in counts.items():
        print(f"parent-{number} {count}")


def preloads(url: str) -> None:
    """Open before the fork and publish only after it: what `--preload` and Celery's prefork do."""
    transport = connect_blocking(url, name="preloaded")
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=many, args=(transport, f"child-{n}", 10)) for n in range(2)]
    for each in children:
        each.start()
    for each in children:
        each.join(30)
        assert each.exitcode == 0, each.exitcode
    # the children have gone, and with them their copies of our socket
    many(transport, "parent", 10)
    transport.close()


def pending(url: str) -> None:
    """Fork while a publish is under way: its future belongs to the parent, and nobody waits for ever in the child."""
    transport = connect_blocking(url)
    futures = [transport.publish("", "q", Message(b"", Properties(message_id=f"p-{n}"))) for n in range(200)]
    pid = os.fork()

    def child() -> None:
        for each in futures:
            error = each.exception(5)
            assert error is None or isinstance(error, PublishUncertain), error

    if not pid:
        leave(child)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [each.exception() for each in futures] == [None] * 200
    transport.close()


KEPT: list[PikaTransport] = []


def drops(url: str) -> None:
    """Publish and forget the transport."""
    transport = connect_blocking(url)
    for n in range(300):
        transport.publish("", "q", Message(b"", Properties(message_id=f"m-{n}", delivery_mode=2)))


def ends(url: str) -> None:
    """Publish and reach the end of the program."""
    KEPT.append(connect_blocking(url))
    for n in range(300):
        KEPT[0].publish("", "q", Message(b"", Properties(message_id=f"m-{n}", delivery_mode=2)))


def fails(url: str) -> None:
    """Publish and end by an exception."""
    ends(url)
    sys.exit("on purpose")


def stuck(url: str) -> None:
    """Publish to a broker that is frozen, and reach the end of the program."""
    KEPT.append(connect_blocking(url))
    send(KEPT[0], "first")  # from now on its channel is open: what comes next is sent, and its fate uncertain
    print("frozen?", flush=True)
    sys.stdin.readline()
    future = KEPT[0].publish("", "q", Message(b"", Properties(message_id="m")))
    future.add_done_callback(lambda each: print(type(each.exception()).__name__, flush=True))


def interrupted(url: str) -> None:
    """Ctrl-C while a caller waits; the transport goes on."""
    transport = connect_blocking(url)
    print("frozen?", flush=True)
    sys.stdin.readline()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        send(transport, "first", timeout=60.0)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stdin.readline()
    send(transport, "second")
    transport.close()


PROGRAMS = (forks, preloads, pending, ends, drops, fails, stuck, interrupted)

if __name__ == "__main__":
    {each.__name__: each for each in PROGRAMS}[sys.argv[1]](sys.argv[2])
