"""An exported document against AsyncAPI's own JSON Schema, which npm gives."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from amqpkit.cli import main
from tests.servers import npm

pytestmark = pytest.mark.server
REPOSITORY = Path(__file__).parents[2]
FULL = REPOSITORY / "tests" / "unit" / "declare" / "full.yaml"
PACKAGE = ("@asyncapi/specs", "6.11.1")
INTEGRITY = "sha512-A3WBLqAKGoJ2+6FWFtpjBlCQ1oFCcs4GxF7zsIGvNqp/klGUHjlA3aAcZ9XMMpLGE8zPeYDz2x9FmO6DSuKraQ=="
HARD = """
from typing import Annotated, Literal
from amqpkit import Payload
from pydantic import BaseModel, Field

class Card(BaseModel):
    kind: Literal["card"]
    inner: "list[Card]" = []

class Cash(BaseModel):
    kind: Literal["cash"]
    spot: tuple[int, str]

class Pay(Payload, type="pay", version=1):
    by: Annotated[Card | Cash, Field(discriminator="kind")]
    notes: dict[int, str] = {}
    size: Annotated[float, Field(gt=0)] | None = None
"""


@pytest.fixture(scope="module")
def official():
    schema = json.loads(npm.member(*PACKAGE, INTEGRITY, "schemas/3.0.0.json"))
    return jsonschema.Draft7Validator(schema)


def faults(official, text):
    return [
        f"{'/'.join(map(str, error.path))}: {error.message}"[:300] for error in official.iter_errors(json.loads(text))
    ]


@pytest.mark.parametrize("file", [REPOSITORY / "topology" / "shop.yaml", FULL])
def test_the_examples_are_valid(official, file, capsys):
    schemas = REPOSITORY / "topology" / "schemas"

    assert main(["export", "asyncapi", str(file), "--schemas", str(schemas), "--json"]) == 0

    assert faults(official, capsys.readouterr().out) == []


def test_payloads_of_every_shape_are_valid_and_a_wrong_document_is_not(official, tmp_path):
    (tmp_path / "hard.py").write_text(HARD)
    (tmp_path / "topology.yaml").write_text(
        "version: 1\nexchanges: {x: {type: x-random}}\nqueues: {'a {b}/ü': {}}\n"
        "work_queues: {jobs: {accepts: [pay, 'un/known']}}\nmessages: {pay: {exchange: x, routing_key: '{by}.k'}}\n"
    )
    command = [sys.executable, "-m", "amqpkit.cli", "export", "asyncapi", "--payloads", "hard", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert faults(official, done.stdout) == []
    assert "payload un/known has no schema in topology/schemas" in done.stderr
    document = json.loads(done.stdout)
    assert document["components"]["schemas"]["pay.v1"]["properties"]["by"]["discriminator"] == "kind"
    document["components"]["schemas"]["pay.v1"]["type"] = "no type"
    assert faults(official, json.dumps(document)) != []
    document["components"]["schemas"]["pay.v1"]["type"] = "object"
    document["channels"]["queue.jobs"]["bindings"]["amqp"]["is"] = "shelf"
    assert faults(official, json.dumps(document)) != []
