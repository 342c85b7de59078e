"""Importing the kit costs nothing that is not used, and rooms import only what lies below them."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENTS = {
    "aio_pika",
    "aiormq",
    "pika",
    "pamqp",
    "httpx2",
    "ruamel",
    "cyclopts",
    "rich",
    "pydantic",
    "tenacity",
    "testcontainers",
}


def loaded_by(code: str) -> set[str]:
    """Return the top-level packages that are loaded after this code has run in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return set(done.stdout.split())


def test_import_amqpkit_loads_no_library_of_others():
    assert loaded_by("import amqpkit") & CLIENTS == set()


def test_a_payload_needs_no_client_library():
    assert (
        loaded_by("from amqpkit import Payload, Consumer") & {"aio_pika", "httpx2", "ruamel", "cyclopts", "rich"}
        == set()
    )


def test_every_public_name_can_be_imported():
    done = loaded_by("import amqpkit\nfor name in amqpkit.__all__: getattr(amqpkit, name)")
    assert "amqpkit" in done


def test_the_import_law_holds():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_installed_command_answers(option):
    command = Path(sys.executable).with_name("amqpkit")
    if not command.exists():
        pytest.skip("amqpkit is not installed in this environment; `make` does that")
    assert subprocess.run([command, option], capture_output=True, check=False).returncode == 0


def imported(folder: Path) -> set[str]:
    """Return the top-level modules that the sources in a folder import, wherever in a file they do."""
    found = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add((node.module or "").partition(".")[0])
    return found - sys.stdlib_module_names - {"amqpkit", "examples", "tests"}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    written = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    declared = {re.match(r"[\w.-]+", name)[0].lower().replace(".", "-") for name in written} - {"amqpkit"}
    homes = importlib.metadata.packages_distributions()
    used = {
        home.lower().replace("_", "-").replace(".", "-") for name in imported(ROOT / "amqpkit") for home in homes[name]
    }

    # What a client or pydantic exposes in its own interface comes with it, in the version that it needs.
    # The packages of OpenTelemetry share one name; of them only the API is ours to use.
    beside = {name for name in used - declared if name.startswith("opentelemetry-")}
    assert used - declared - beside <= {"aiormq", "pamqp", "yarl", "pydantic-core"}
    # Looked for by name, where it is installed.
    assert declared - used <= {"uvloop"}


def test_what_the_tests_import_is_pinned():
    pins = set(re.findall(r"^([\w.-]+)", (ROOT / "requirements/test.txt").read_text(), re.MULTILINE))
    homes = importlib.metadata.packages_distributions()
    used = {
        home.lower().replace("_", "-").replace(".", "-") for name in imported(ROOT / "tests") for home in homes[name]
    }
    assert used <= pins
