"""`validate`, `compile`, `schema`: what they print where, and their exit codes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from amqpkit import cli
from amqpkit.declare.load import load_topology
from amqpkit.declare.rendering import rendered
from amqpkit.declare.schema import file_schema
from amqpkit.declare.spec import document
from amqpkit.declare.spec.tree import plain
from amqpkit.errors import AmqpkitError

FULL = Path(__file__).parents[1] / "unit" / "declare" / "full.yaml"
FIVE_MISTAKES = """\
version: 1
exchanges: {mail: {type: topic}}
work_queues:
  email.send:
    bindings: [{source: mial}]
    consume: {prefech: 20, timeout: 30}
    retry: {delays: [1m, 10s]}
    max-length: 10
    max_length: 20
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "amqpkit.cli", *arguments]
    path = str(Path(cli.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "120", **environ}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_a_good_file_is_one_line_on_stdout(capsys):
    assert cli.main(["validate", str(FULL)]) == 0

    captured = capsys.readouterr()
    assert captured.out == f"{FULL}: ok, 1 work queue, 7 queues, 4 exchanges, 8 bindings, 2 policies\n"
    assert captured.err == ""


def test_five_mistakes_are_five_lines_on_stderr_and_exit_code_1(folder):
    (folder / "mail.yaml").write_text(FIVE_MISTAKES)

    done = program("validate", "mail.yaml")

    assert (done.returncode, done.stdout) == (1, "")
    undeclared = 'exchange "mial" is not declared (did you mean "mail"?)'
    assert done.stderr.splitlines() == [
        f"mail.yaml:5:25: work_queues.email.send.bindings[0].source: {undeclared}",
        'mail.yaml:6:15: unknown key "prefech" in work_queues.email.send.consume (did you mean "prefetch"?)',
        "mail.yaml:6:37: work_queues.email.send.consume.timeout: 30 what? write 30s (units: ms, s, m, h, d)",
        "mail.yaml:7:26: work_queues.email.send.retry.delays[1]: delays must not descend: 10s after 1m",
        'mail.yaml:9:5: "max_length" is the same key as "max-length" on line 8',
    ]


def test_problems_can_be_json(folder, capsys):
    (folder / "mail.yaml").write_text("version: 2\n")

    assert cli.main(["validate", "--json", "mail.yaml"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "format_version": "1.0",
        "ok": False,
        "problems": [
            {
                "place": "mail.yaml:1:10",
                "message": "version: the number 2 is not known here; write 1",
                "code": "AK001",
            }
        ],
    }


def test_success_can_be_json(capsys):
    assert cli.main(["validate", "--json", str(FULL)]) == 0
    counts = {"work_queues": 1, "queues": 7, "exchanges": 4, "bindings": 8, "policies": 2}
    assert json.loads(capsys.readouterr().out) == {"format_version": "1.0", "ok": True, **counts, "problems": []}


def test_variables_come_from_the_environment(folder, capsys, monkeypatch):
    (folder / "a.yaml").write_text("version: 1\nqueues: {'${NAME}': {}}\n")
    monkeypatch.setenv("NAME", "jobs")

    assert cli.main(["compile", "--format", "json", "a.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)["queues"][0]["name"] == "jobs"


@pytest.mark.parametrize("how", [["--format", "json"], ["--json"]])
def test_the_compiled_topology_can_be_json(how, capsys):
    assert cli.main(["compile", *how, str(FULL)]) == 0
    assert json.loads(capsys.readouterr().out) == rendered(load_topology(FULL))


def test_the_compiled_topology_is_yaml_that_reads_back(capsys):
    assert cli.main(["compile", str(FULL)]) == 0

    text = capsys.readouterr().out
    root, faults = document.read("out", 0, text, {})
    assert root is not None
    assert (plain(root), faults) == (rendered(load_topology(FULL)), [])
    assert text.startswith("owns:\n")


def test_compile_names_every_problem_too(folder, capsys):
    (folder / "a.yaml").write_text("versio: 1\n")

    assert cli.main(["compile", "a.yaml"]) == 1
    assert capsys.readouterr().err.count("a.yaml:1:1: ") == 2


def test_the_schema_is_json(capsys):
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == file_schema()


def test_without_files_it_is_topology_yaml(folder, capsys):
    (folder / "topology").mkdir()
    (folder / "topology" / "shop.yaml").write_text("version: 1\n")
    assert cli.main(["validate"]) == 0
    assert capsys.readouterr().out.startswith(f"{Path('topology') / 'shop.yaml'}: ok")

    (folder / "topology.yaml").write_text("version: 1\n")
    assert cli.main(["validate"]) == 0
    assert capsys.readouterr().out.startswith("topology.yaml: ok")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([], "There is no topology.yaml, and topology/ has no *.yaml: name the files"),
        (["a.yaml", "b.yaml"], "There is no topology.yaml, and topology/ has 2 files (a.yaml, b.yaml): name the files"),
    ],
)
def test_which_file_is_a_question_of_usage(folder, capsys, files, told):
    (folder / "topology").mkdir()
    for name in files:
        (folder / "topology" / name).write_text("version: 1\n")

    assert cli.main(["validate"]) == 64
    assert capsys.readouterr().err == f"amqpkit: which topology? {told}\n"


@pytest.mark.parametrize("arguments", [["validate", "--nope"], ["compile", "--format", "xml"]])
def test_a_wrong_command_line_is_64(arguments, capsys):
    assert cli.main(arguments) == 64

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err != ""


def test_help_and_version_are_quick_and_load_no_command():
    done = program("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f" {name} " in done.stdout for name, *_ in cli._COMMANDS)
    assert "\x1b" not in done.stdout

    script = "import sys; from amqpkit.cli import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    path = str(Path(cli.__file__).parents[2])
    loaded = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    ).stderr
    assert not any(f"'{module}'" in loaded for module in ("aio_pika", "httpx2", "ruamel.yaml", "amqpkit.cli.validate"))

    assert program("--version").stdout == f"{cli.amqpkit.__version__}\n"


def test_colour_is_for_terminals_that_want_it():
    coloured = program("validate", "--nope", FORCE_COLOR="1")
    plain_ = program("validate", "--nope", NO_COLOR="1")

    assert (coloured.returncode, plain_.returncode) == (64, 64)
    assert "\x1b[3" not in plain_.stderr


def raising(error: BaseException):
    def build(_called):
        def call(_arguments):
            raise error

        return call

    return build


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [(AmqpkitError("no broker"), 1, "amqpkit: no broker\n"), (KeyboardInterrupt(), 130, "")],
)
def test_errors_end_at_the_programs_edge(error, code, told, monkeypatch, capsys):
    monkeypatch.setattr(cli, "build", raising(error))

    assert cli.main([]) == code
    assert capsys.readouterr().err == told


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -W error -m amqpkit.cli compile {FULL} | true; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False, env=environment
    )

    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize("command", ["plan", "apply --yes", "drift", "migrate queue q --yes"])
def test_a_file_with_mistakes_opens_no_connection(tmp_path, capsys, command):
    file = tmp_path / "t.yaml"
    file.write_text(f"version: 1\nqueues: {{{'n' * 256}: {{}}}}\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        where = ["--url", f"amqp://u:p@127.0.0.1:{port}/", "--api", f"http://u:p@127.0.0.1:{port}"]

        assert cli.main([*command.split(), str(file), *where]) == 1

        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    told = capsys.readouterr()
    assert "has 256 bytes; RabbitMQ takes 255" in told.out + told.err


@pytest.mark.parametrize("command", ["compile", "schema", "export definitions", "graph --format html", "route '' a"])
def test_an_output_that_cannot_be_written_is_an_error_in_words(command):
    files = "" if command == "schema" else str(FULL)
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    line = f"{sys.executable} -W error -m amqpkit.cli {command} {files} > /dev/full"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False, env=environment
    )

    assert (done.returncode, done.stderr) == (1, "amqpkit: the output cannot be written: no space left on device\n")


def test_what_each_queue_obeys_is_printed_with_where_it_comes_from(capsys):
    case = Path(__file__).parents[1] / "unit" / "lint" / "cases" / "argument-against-policy.yaml"

    assert cli.main(["compile", "--effective", "--json", str(case)]) == 0

    both = json.loads(capsys.readouterr().out)["both"]
    assert both["message-ttl"] == {"value": 400, "from": 'policy "p"'}
    assert both["dead-letter-exchange"] == {"value": "arg-dlx", "from": "argument"}
    assert both["dead-letter-routing-key"] == {"value": "pol.dead", "from": 'policy "p"'}
