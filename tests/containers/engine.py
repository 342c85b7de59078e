"""A Docker engine for the test run: the one that is there, or Debian's own, installed, started and stopped by it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

import docker.errors

import docker
from tests.containers import run

Say = Callable[[str], None]

SOCKET = "unix:///var/run/docker.sock"
PACKAGES = ("docker.io", "iptables", "debootstrap", "ca-certificates")
STARTS_WITHIN = 120.0


class NoEngineError(Exception):
    """No container engine, and none can or may be started. Says what to do."""


@contextmanager
def alone() -> Iterator[None]:
    """Let one run at a time install, start, build or stop things."""
    with (Path(tempfile.gettempdir()) / f"amqpkit-tests-{os.geteuid()}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def connect() -> docker.DockerClient | None:
    """Return a client of the engine that answers, if one does."""
    address = os.environ.get("DOCKER_HOST", SOCKET)
    # docker-py leaves a socket that nobody answers open, and a later test would be blamed for it.
    if address.startswith("unix://") and not listens(address.removeprefix("unix://")):
        return None
    try:
        client = docker.from_env()
    except docker.errors.DockerException:
        return None
    try:
        client.ping()
    # docker-py lets requests' own errors out of some calls, and those are OSErrors.
    except (docker.errors.DockerException, OSError):
        client.close()
        return None
    return client


def listens(path: str) -> bool:
    """Say whether a process takes connections at this Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def is_debian(os_release: Path = Path("/etc/os-release")) -> bool:
    """Say whether apt-get can be asked for Debian's packages here."""
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError:
        return False
    return bool(re.search(r"^ID(_LIKE)?=.*\bdebian\b", text, re.MULTILINE)) and shutil.which("apt-get") is not None


def why_not_here(environ: dict[str, str]) -> str | None:
    """Name the reason why this run must not set up an engine; None when it may."""
    if environ.get("AMQPKIT_BOOTSTRAP") == "0":
        return "AMQPKIT_BOOTSTRAP=0 forbids to install and start one"
    if environ.get("DOCKER_HOST", SOCKET) != SOCKET:
        return "DOCKER_HOST points elsewhere, and nothing answers there"
    if os.geteuid() != 0:
        return "only root can install or start one"
    if shutil.which("dockerd", path=daemon_path()) is None and not is_debian():
        return "only on Debian can the tests install one"
    return None


def daemon_path() -> str:
    """A root shell made by su keeps a user's PATH, which lacks sbin."""
    return os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"


def install(packages: tuple[str, ...], say: Say) -> None:
    """Install Debian packages, having said so. Raises NoEngineError with apt's last words."""
    say(f"installing Debian packages: {' '.join(packages)} (AMQPKIT_BOOTSTRAP=0 forbids it)")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": daemon_path()}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", *arguments], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            last = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            message = f"apt-get {arguments[0]} failed:\n{last}"
            raise NoEngineError(message)


def clear_stale(directory: Path, say: Say) -> None:
    """Remove pid files of a killed engine: a pid that another process has by now would keep a new one from starting."""
    for file, name in (
        (directory / "docker.pid", "dockerd"),
        (directory / "docker/containerd/containerd.pid", "containerd"),
    ):
        with suppress(OSError):
            text = file.read_text(encoding="utf-8").strip()
            if not (text.isdigit() and run.command(int(text)) == name):
                say(f"removing {file.name}, left by an engine that was killed")
                file.unlink()


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine in use; `daemon` is the pid of the dockerd that this run must stop, `process` is it as a child."""

    client: docker.DockerClient
    daemon: int | None = None
    process: subprocess.Popen[bytes] | None = None

    def close(self, say: Say) -> None:
        """Leave the machine as it was found. An engine whose containers somebody else uses by now goes on running."""
        if self.daemon is not None:
            with alone():
                others = self.client.containers.list()
                self.client.close()
                if others:
                    say(f"the engine goes on: {len(others)} containers of others run on it")
                else:
                    stop(self.daemon, self.process, say)
        else:
            self.client.close()


def acquire(say: Say, directory: Path = Path("/var/run")) -> Engine:
    """Return the engine that answers, else install and start one. Raises NoEngineError when neither can be."""
    with alone():
        client = connect()
        if client is not None:
            return Engine(client, adopted(directory))
        reason = why_not_here(dict(os.environ))
        if reason is not None:
            message = f"no Docker engine answers, and {reason}"
            raise NoEngineError(message)
        if shutil.which("dockerd", path=daemon_path()) is None:
            install(PACKAGES, say)
        return start(directory, say)


def adopted(directory: Path) -> int | None:
    """Return the pid of a daemon that a killed run left running: this run will stop it in its place."""
    try:
        note = json.loads((directory / "amqpkit-engine.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    pid = note["daemon"]
    if run.started(pid) != note["started"] or run.lives(note["owner"]):
        return None
    remember(directory, pid)
    return int(pid)


def remember(directory: Path, pid: int) -> None:
    """Note whose daemon this is."""
    note = {"daemon": pid, "started": run.started(pid), "owner": run.mark()}
    (directory / "amqpkit-engine.json").write_text(json.dumps(note), encoding="utf-8")


def start(directory: Path, say: Say) -> Engine:
    """Start dockerd and wait until it answers. Raises NoEngineError with its last words."""
    # The package may have started it already, where an init system runs.
    client = connect()
    log = Path(tempfile.mkdtemp(prefix="amqpkit-dockerd-")) / "log"
    process: subprocess.Popen[bytes] | None = None
    if client is None:
        clear_stale(directory, say)
        mount_cgroups(say)
        say(f"starting dockerd for this run (its log: {log})")
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["dockerd"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PATH": daemon_path()},
                # Ctrl-C stops the tests; the engine is still needed to remove their containers.
                start_new_session=True,
            )
    deadline = time.monotonic() + STARTS_WITHIN
    while client is None:
        if time.monotonic() > deadline or (process is not None and process.poll() is not None):
            if process is not None:
                process.kill()
                process.wait()
            message = "dockerd does not start; its last words:\n" + "\n".join(
                log.read_text(errors="replace").splitlines()[-15:]
            )
            raise NoEngineError(message)
        time.sleep(0.2)
        client = connect()
    pid = process.pid if process else int((directory / "docker.pid").read_text(encoding="utf-8"))
    remember(directory, pid)
    return Engine(client, pid, process)


def mount_cgroups(say: Say) -> None:
    """Give a machine without an init system the control groups that containers need."""
    groups = Path("/sys/fs/cgroup")
    if groups.is_dir() and not any(groups.iterdir()):
        say("mounting the control groups")
        subprocess.run(["mount", "-t", "cgroup2", "none", str(groups)], check=False)


def ended(process: subprocess.Popen[bytes] | None) -> bool:
    """Say whether a child, if there is one, has ended."""
    return process is not None and process.poll() is not None


def stop(pid: int, process: subprocess.Popen[bytes] | None, say: Say) -> None:
    """Stop the engine that this run started, through the init system where that one keeps it."""
    say("stopping the engine")
    if Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "stop", "docker.socket", "docker.service"], check=False)
    ticks = run.started(pid)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 30
    # A child that has ended is there until it is asked after.
    while ticks is not None and run.started(pid) == ticks and time.monotonic() < deadline and not ended(process):
        time.sleep(0.1)
    for log in Path(tempfile.gettempdir()).glob("amqpkit-dockerd-*"):
        shutil.rmtree(log, ignore_errors=True)
    Path("/var/run/amqpkit-engine.json").unlink(missing_ok=True)
