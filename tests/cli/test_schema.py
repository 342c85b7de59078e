"""`amqpkit schema export` and `check`: the lock's folder, what is printed where, and the exit codes."""

import json
import sys

import pytest

from amqpkit import cli

FIRST = """
from amqpkit import Consumer, Payload

class {prefix}Order(Payload, type="order"):
    n: int

class TakeOrders(Consumer[{prefix}Order], queue="order"):
    def handle(self, payload, context):
        pass
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def module(folder, request):
    """Write a module under a new name each time: an old one would be remembered."""
    count = iter(range(100))

    def write(text):
        name = f"shapes_{abs(hash(request.node.nodeid))}_{next(count)}"
        (folder / f"{name}.py").write_text(text)
        return name

    yield write
    for name in [each for each in sys.modules if each.startswith("shapes_")]:
        del sys.modules[name]


def test_what_is_exported_is_as_locked(module, folder, capsys):
    name = module(FIRST.format(prefix=""))

    assert cli.main(["schema", "export", name]) == 0
    path = folder / "topology" / "schemas" / "order.v1.json"
    written = path.read_bytes()
    assert capsys.readouterr().out.splitlines()[-1].endswith("schemas: 1 schema, 1 written")
    assert json.loads(written)["x-amqpkit"] == {"type": "order", "version": 1}

    assert cli.main(["schema", "export", name]) == 0
    assert capsys.readouterr().out.endswith("1 schema, 0 written\n")
    assert path.read_bytes() == written

    assert cli.main(["schema", "check", name]) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("schemas: 1 schema, as locked\n")
    assert captured.err == ""


def test_a_compatible_change_is_listed_with_what_to_do(module, capsys):
    cli.main(["schema", "export", module(FIRST.format(prefix="")), "--out", "lock"])
    changed = module(FIRST.format(prefix="").replace("n: int", 'n: int\n    note: str = ""'))
    capsys.readouterr()

    assert cli.main(["schema", "check", changed, "--lock", "lock"]) == 0

    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "order v1 $.note: field added (optional, string)",
        "  consumers: compatible",
        "  producers: compatible",
    ]
    assert captured.err == f"nothing is broken; lock it: amqpkit schema export {changed} --out lock\n"
    assert cli.main(["schema", "export", changed, "--out", "lock"]) == 0


def test_a_breaking_change_fails_and_is_not_locked_unless_forced(module, folder, capsys):
    cli.main(["schema", "export", module(FIRST.format(prefix="")), "--out", "lock"])
    before = (folder / "lock" / "order.v1.json").read_bytes()
    changed = module(FIRST.format(prefix="").replace("n: int", "n: str"))
    capsys.readouterr()

    assert cli.main(["schema", "check", changed, "--lock", "lock"]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "order v1 $.n: integer → string",
        "  consumers: breaking: integer may be written, string is read",
        "  producers: breaking: string may be written, integer is read",
    ]
    assert captured.err.startswith("a breaking change needs a new version")

    assert cli.main(["schema", "check", changed, "--lock", "lock", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["format_version"] == "1.0"
    assert (found["ok"], found["changes"][0]["path"], found["changes"][0]["consumers"]["verdict"]) == (
        False,
        "$.n",
        "breaking",
    )

    assert cli.main(["schema", "export", changed, "--out", "lock"]) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert (folder / "lock" / "order.v1.json").read_bytes() == before
    assert cli.main(["schema", "export", changed, "--out", "lock", "--force"]) == 0
    assert cli.main(["schema", "check", changed, "--lock", "lock"]) == 0


def test_with_a_new_version_it_is_no_breaking_change(module, capsys):
    cli.main(["schema", "export", module(FIRST.format(prefix="")), "--out", "lock"])
    evolved = module(
        """
from amqpkit import Payload

class OrderV1(Payload, type="order"):
    n: int

    def upgrade(self):
        return Order(n=str(self.n))

class Order(Payload, type="order", previous=OrderV1):
    n: str
"""
    )
    capsys.readouterr()

    assert cli.main(["schema", "check", evolved, "--lock", "lock"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "order v2 $: new version, not locked yet"
    assert cli.main(["schema", "export", evolved, "--out", "lock"]) == 0
    capsys.readouterr()

    assert cli.main(["schema", "check", module(FIRST.format(prefix="")), "--lock", "lock"]) == 1
    assert "order v2 $: version removed" in capsys.readouterr().out


def test_a_consumer_stands_for_its_payloads(module, capsys):
    shared = module(FIRST.format(prefix=""))
    rest = FIRST.split("n: int")[1].format(prefix="")
    consumer = module(f"from amqpkit import Consumer\nfrom {shared} import Order\n{rest}")

    assert cli.main(["schema", "check", consumer, "--lock", "lock"]) == 0
    assert "order v1 $: new version, not locked yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", "{", "cannot be read"),
        ("a.json", "[]", "not a locked schema"),
        ("a.json", '{"x-amqpkit": {}}', "not a locked schema"),
        ("a.json", "[" * 100_000, "cannot be read"),
        ("other.json", '{"x-amqpkit": {"type": "order", "version": 1}}', 'a second schema of "order" version 1'),
    ],
    ids=["no json", "no object", "no version", "too deep", "twice"],
)
def test_a_file_that_is_no_locked_schema_is_named(module, folder, capsys, name, content, says):
    shapes = module(FIRST.format(prefix=""))
    cli.main(["schema", "export", shapes, "--out", "lock"])
    (folder / "lock" / name).write_text(content)
    capsys.readouterr()

    assert cli.main(["schema", "check", shapes, "--lock", "lock"]) == 1
    told = capsys.readouterr().err
    assert says in told
    assert ".json" in told


def test_a_folder_that_cannot_be_written_is_named(module, folder, capsys):
    (folder / "lock").write_text("a file")

    assert cli.main(["schema", "export", module(FIRST.format(prefix="")), "--out", "lock"]) == 1
    assert "lock: cannot be written" in capsys.readouterr().err


def test_which_modules_is_a_question_of_usage(module, capsys):
    assert cli.main(["schema", "check"]) == 64
    assert "whose payloads?" in capsys.readouterr().err
    assert cli.main(["schema", "check", "no.such.module"]) == 1
    assert cli.main(["schema", "check", module("x = 1")]) == 1
    assert "defines no Payload and no Consumer" in capsys.readouterr().err
    assert cli.main(["schema", "chekc"]) == 64


def test_help_names_both(capsys):
    assert cli.main(["schema", "--help"]) == 0
    told = capsys.readouterr().out
    assert "export" in told
    assert "check" in told
