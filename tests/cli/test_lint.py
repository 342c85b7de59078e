"""`lint` and what `validate` takes from it: what they print where, and their exit codes."""

import json
import socket

import pytest

from amqpkit import cli

MISTAKES = """\
version: 1
queues:
  jobs: {arguments: {x-mesage-ttl: 5}}
  logs: {arguments: {x-max-length: 5}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topology.yaml").write_text(MISTAKES)
    return tmp_path


def test_findings_are_on_stdout_and_the_count_on_stderr(capsys):
    assert cli.main(["lint"]) == 1

    captured = capsys.readouterr()
    assert [line.split()[0:3] for line in captured.out.splitlines()] == [
        ["topology.yaml:3:22:", "error", "AK101"],
        ["topology.yaml:4:36:", "warning", "AK304"],
    ]
    assert captured.err == "topology.yaml: 1 error, 1 warning, 1 info (--fail-on info shows all)\n"


@pytest.mark.parametrize(
    ("text", "level", "code", "shown"),
    [
        ("x-max-length: 5", "error", 0, ["AK304"]),
        ("x-max-length: 5", "warning", 1, ["AK304"]),
        ("x-message-ttl: 5", "warning", 0, []),
        ("x-message-ttl: 5", "info", 1, ["AK215"]),
        ("x-max-length: 5, x-overflow: reject-publish", "info", 0, []),
    ],
)
def test_it_fails_at_the_level_that_is_asked_for(folder, capsys, text, level, code, shown):
    (folder / "topology.yaml").write_text(f"version: 1\nqueues: {{jobs: {{arguments: {{{text}}}}}}}\n")

    assert cli.main(["lint", "--fail-on", level]) == code
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == shown


def test_the_formats_for_programs_are_documents(capsys):
    assert cli.main(["lint", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["summary"]["error"] == 1
    assert cli.main(["lint", "--format", "sarif"]) == 1
    assert json.loads(capsys.readouterr().out)["version"] == "2.1.0"
    assert cli.main(["lint", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=topology.yaml,line=3,col=22,")


def test_a_file_that_cannot_be_read_is_a_finding_too(capsys):
    assert cli.main(["lint", "nowhere.yaml", "--json"]) == 1

    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["file"], finding["line"]) == ("AK001", "nowhere.yaml", 0)


NOBODY = ["--live", "--url", "amqp://guest:se%2Fcret@127.0.0.1:1/"]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], "topology.yaml:3:22: error AK101 "),
        (["--json"], '"code": "AK101"'),
        (["--format", "github"], "title=AK101 "),
        (["--format", "sarif"], '"ruleId": "AK101"'),
    ],
)
def test_a_broker_that_does_not_answer_keeps_no_finding_of_the_files_back(capsys, words, shown):
    assert cli.main(["lint", *words, *NOBODY]) == 1

    out, err = capsys.readouterr()
    assert shown in out
    assert "AK304" in out
    assert err.splitlines()[-1].startswith("amqpkit: ")
    assert "127.0.0.1:1" in err
    assert "cret" not in err


def test_a_broker_that_cannot_be_asked_is_no_success(folder, capsys):
    (folder / "topology.yaml").write_text("version: 1\nqueues: {jobs: {type: stream}}\n")
    assert cli.main(["lint"]) == 0

    assert cli.main(["lint", *NOBODY]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_a_file_that_is_refused_opens_no_connection(folder, capsys):
    (folder / "topology.yaml").write_text("version: 1\nqueues: 5\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        assert cli.main(["lint", "--live", "--url", f"amqp://guest:guest@127.0.0.1:{port}/"]) == 1
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert "AK001" in capsys.readouterr().out


def test_a_rule_is_explained_by_code_or_name(capsys):
    assert cli.main(["lint", "--explain", "ak101"]) == 0
    by_code = capsys.readouterr().out
    assert cli.main(["lint", "--explain", "mistyped-argument"]) == 0
    assert capsys.readouterr().out == by_code
    assert by_code.startswith("AK101 mistyped-argument (error)\n")
    assert "x-mesage-ttl" in by_code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--explain", "AK10"], 'no rule is called "AK10" (did you mean "AK'),
        (["--target", "four"], '--target "four" is no version; write 4.0 or 4.3'),
    ],
)
def test_a_wrong_command_line_is_64(capsys, arguments, message):
    assert cli.main(["lint", *arguments]) == 64
    assert message in capsys.readouterr().err


def test_a_plugins_argument_is_allowed_and_the_target_counts(folder, capsys):
    (folder / "topology.yaml").write_text(
        "version: 1\nqueues: {q: {type: classic, arguments: {x-colour: red, x-consumer-timeout: 5}}}\n"
    )

    assert cli.main(["lint", "--fail-on", "warning", "--allow", "x-colour", "--target", "4.0"]) == 0
    assert cli.main(["lint", "--fail-on", "warning", "--allow", "x-colour"]) == 1
    assert "AK104" in capsys.readouterr().out


def test_validate_gives_the_errors_alone(capsys):
    assert cli.main(["validate"]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        (
            'topology.yaml:3:22: RabbitMQ knows no argument "x-mesage-ttl", and would ignore it; '
            'did you mean "x-message-ttl"? (AK101)'
        )
    ]
    assert cli.main(["validate", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"][0]["code"] == "AK101"
