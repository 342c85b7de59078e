"""An engine is started only where that is allowed, also after a killed one; nobody else's things are touched."""

import os
import subprocess
import sys

import pytest

from tests.containers import engine, image, run


@pytest.fixture
def said():
    return []


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


@pytest.mark.parametrize("content", ["dead", "reused", "garbage"])
def test_the_pid_file_of_a_killed_engine_is_removed(tmp_path, said, content):
    text = {"dead": str(dead_pid()), "reused": str(os.getpid()), "garbage": "?"}[content]
    (tmp_path / "docker.pid").write_text(text)
    containerd = tmp_path / "docker" / "containerd" / "containerd.pid"
    containerd.parent.mkdir(parents=True)
    containerd.write_text(text)

    engine.clear_stale(tmp_path, said.append)

    assert not (tmp_path / "docker.pid").exists()
    assert not containerd.exists()
    assert len(said) == 2


def test_the_pid_file_of_an_engine_that_lives_is_left_alone(tmp_path, said, monkeypatch):
    (tmp_path / "docker.pid").write_text("4711")
    monkeypatch.setattr(run, "command", {4711: "dockerd"}.get)

    engine.clear_stale(tmp_path, said.append)

    assert (tmp_path / "docker.pid").read_text() == "4711"
    assert said == []


@pytest.mark.parametrize(
    ("environ", "user", "reason"),
    [
        ({"AMQPKIT_BOOTSTRAP": "0"}, 0, "forbids"),
        ({"DOCKER_HOST": "tcp://elsewhere.example:2375"}, 0, "DOCKER_HOST"),
        ({}, 1000, "only root"),
        ({}, 0, None),
        ({"AMQPKIT_BOOTSTRAP": "1", "DOCKER_HOST": engine.SOCKET}, 0, None),
    ],
)
def test_an_engine_is_started_only_where_that_is_allowed(environ, user, reason, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(engine, "is_debian", lambda: True)

    found = engine.why_not_here(environ)

    assert found is None if reason is None else reason in found


@pytest.mark.parametrize(
    ("text", "debian"),
    [("ID=debian\n", True), ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", True), ("ID=fedora\n", False)],
)
def test_debian_is_recognised(text, debian, tmp_path, monkeypatch):
    monkeypatch.setattr(engine.shutil, "which", lambda name: f"/usr/bin/{name}")
    (tmp_path / "os-release").write_text(text)
    assert engine.is_debian(tmp_path / "os-release") is debian


def test_a_run_that_was_killed_is_told_from_one_that_goes_on():
    assert run.lives(run.mark())
    assert not run.lives(run.mark().replace(str(os.getpid()), str(dead_pid())))
    assert not run.lives(f"{run.mark()}0"), "a process that got the pid later is another one"
    assert run.lives("another-host:1:1"), "its containers are not ours to judge"


def test_an_engine_that_a_killed_run_left_is_stopped_by_the_next(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as daemon:
        engine.remember(tmp_path, daemon.pid)
        assert engine.adopted(tmp_path) is None, "its owner, this process, lives"

        note = tmp_path / "amqpkit-engine.json"
        note.write_text(note.read_text().replace(run.mark(), f"{run.mark()}0"))
        assert engine.adopted(tmp_path) == daemon.pid
        assert engine.adopted(tmp_path) is None, "it has an owner again"
        daemon.communicate(b"\n")
    assert engine.adopted(tmp_path) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", {"4.3": "rabbitmq:4-management", "4.0": "rabbitmq:4.0-management"}),
        ("rabbitmq:4.1-management", {"4.1": "rabbitmq:4.1-management"}),
        ("a.example:5000/rabbit, b/rabbit:4.2", {"latest": "a.example:5000/rabbit", "4.2": "b/rabbit:4.2"}),
        ("a/rabbit:4.2, b/rabbit:4.2", {"a-rabbit-4.2": "a/rabbit:4.2", "b-rabbit-4.2": "b/rabbit:4.2"}),
        ("amqpkit-test-rabbitmq:4.0", {"4.0": "amqpkit-test-rabbitmq:4.0"}),
    ],
)
def test_images_are_chosen_by_the_environment(value, expected):
    wanted = image.wanted({"AMQPKIT_TEST_RABBITMQ_IMAGE": value})
    assert {each.id: each.name for each in wanted} == expected


def test_an_image_of_ours_can_be_built_when_it_is_asked_for_by_name():
    (wanted,) = image.wanted({"AMQPKIT_TEST_RABBITMQ_IMAGE": "amqpkit-test-rabbitmq:4.0"})
    assert wanted.suite == "trixie"
