"""`route`: what it prints, and its exit codes."""

import json

import pytest

from amqpkit import cli

FILE = """\
version: 1
exchanges: {shop: {type: topic, alternate-exchange: rest}, rest: {type: fanout}, h: {type: headers}}
queues:
  rest: {bindings: [{source: rest}]}
  csv: {bindings: [{source: h, arguments: {n: 1}}]}
work_queues:
  mail: {bindings: [{source: shop, routing_key: "mail.#"}]}
messages:
  mail: {exchange: shop, routing_key: "mail.{kind}"}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topology.yaml").write_text(FILE)
    return tmp_path


def test_the_way_and_why_not_are_printed(capsys):
    assert cli.main(["route", "shop", "mail.x"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        'a message to exchange "shop" with key "mail.x" reaches 1 queue',
        "  mail  shop -mail.#-> mail",
        "no way from there to csv, rest",
    ]
    assert cli.main(["route", "shop", "post.x", "topology.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        'a message to exchange "shop" with key "post.x" reaches 1 queue',
        "  rest  shop =alternate=> rest --> rest",
        "not",
        '  shop -mail.#-> mail: word 1 is "post", the pattern wants "mail"',
        "no way from there to csv",
    ]


def test_a_payload_type_brings_its_exchange_and_key(capsys):
    assert cli.main(["route", "--type", "mail", "--field", "kind=a.b"]) == 0
    assert 'key "mail.a.b" reaches 1 queue' in capsys.readouterr().out


@pytest.mark.parametrize(("header", "code"), [("n=1", 0), ('n="1"', 1), ("n=x", 1)])
def test_headers_have_types(header, code):
    assert cli.main(["route", "h", "", "--header", header]) == code


def test_a_message_that_reaches_nothing_is_exit_code_1_and_json_says_why(capsys):
    assert cli.main(["route", "--json", "h", "k"]) == 1

    document = json.loads(capsys.readouterr().out)
    assert document["reached"] == []
    assert document["missed"] == [
        {
            "binding": {
                "source": "h",
                "destination": "csv",
                "destination_type": "queue",
                "routing_key": "",
                "arguments": {"n": 1},
            },
            "reason": "it has no header n",
        }
    ]
    assert set(document) == {
        "format_version",
        "exchange",
        "routing_key",
        "headers",
        "reached",
        "missed",
        "others",
        "notes",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop"], "route needs an exchange"),
        (["--type", "mial"], '"mial" is in the files (did you mean "mail"?)'),
        (["h", "k", "--header", "n"], '--header "n": write name=value'),
    ],
)
def test_a_wrong_command_line_is_64(capsys, arguments, message):
    assert cli.main(["route", *arguments]) == 64
    assert message in capsys.readouterr().err
