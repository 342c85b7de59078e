"""docker-compose.yml gives a developer what the tests have, and lets nobody else in."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from amqpkit.testing.container import IMPATIENT

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"


@pytest.fixture(scope="module")
def services():
    return YAML(typ="safe").load(FILE)["services"]


def test_every_port_is_bound_to_loopback(services):
    ports = [port for service in services.values() for port in service["ports"]]
    assert len(ports) >= 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_only_rabbitmq_starts_unless_a_profile_asks_for_more(services):
    assert {name: service.get("profiles") for name, service in services.items()} == {
        "rabbitmq": None,
        "redis": ["redis"],
        "postgres": ["postgres"],
    }


def test_every_service_has_a_health_check(services):
    assert all(service["healthcheck"]["test"][0] == "CMD" for service in services.values())


def test_rabbitmq_has_the_management_and_the_prometheus_plugin(services):
    files = dict(volume.split(":")[:2] for volume in services["rabbitmq"]["volumes"])
    (plugins,) = (path for path, inside in files.items() if inside == "/etc/rabbitmq/enabled_plugins")
    assert (ROOT / plugins).read_text() == "[rabbitmq_management,rabbitmq_prometheus].\n"
    assert {port.rpartition(":")[2] for port in services["rabbitmq"]["ports"]} == {"5672", "15672", "15692"}


def test_every_mounted_file_exists(services):
    mounted = [volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", ())]
    assert all((ROOT / path).is_file() for path in mounted if path.startswith("."))


@pytest.mark.parametrize("setting", [key.split()[1] for key in IMPATIENT])
def test_its_broker_is_as_impatient_as_that_of_the_tests(setting):
    written = "".join(
        re.sub(r"\s|%%.*", "", line) for line in (ROOT / "docker/rabbitmq/advanced.config").read_text().splitlines()
    )
    written += (ROOT / "docker/rabbitmq/rabbitmq.conf").read_text().replace(" = ", ",")
    value = next(value for key, value in IMPATIENT.items() if key.endswith(f" {setting}"))
    assert f"{setting},{value}" in written


def compose() -> list[str] | None:
    """Return the compose program of this machine."""
    if (
        shutil.which("docker")
        and subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    ):
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


def test_compose_itself_accepts_the_file():
    command = compose()
    if command is None:
        pytest.skip("no compose program on this machine")
    done = subprocess.run(
        [*command, "--file", str(FILE), "config", "--quiet"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
