"""Reports for people, programs, GitHub and code scanning; the documentation is in step with the rules."""

from pathlib import Path

import jsonschema

from amqpkit.declare.lint import formats
from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.guide import guide
from amqpkit.declare.lint.run import lint

TEXT = "version: 1\nqueues:\n  'a,b: 100%':\n    arguments: {x-mesage-ttl: 5}\n  c: {arguments: {x-max-length: 3}}\n"
# What GitHub and other readers of SARIF 2.1.0 insist on, from its schema.
TEXT_OBJECT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id"],
                                            "properties": {
                                                "shortDescription": TEXT_OBJECT,
                                                "fullDescription": TEXT_OBJECT,
                                                "help": TEXT_OBJECT,
                                                "defaultConfiguration": {"properties": {"level": LEVEL}},
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "items": {
                            "required": ["message", "ruleId", "locations"],
                            "properties": {
                                "message": TEXT_OBJECT,
                                "level": LEVEL,
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "locations": {
                                    "minItems": 1,
                                    "items": {
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation"],
                                                "properties": {
                                                    "region": {
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                        }
                                                    }
                                                },
                                            }
                                        }
                                    },
                                },
                            },
                        }
                    },
                },
            },
        },
    },
}


def report(name="topology/a b.yaml"):
    return lint([(name, TEXT)], {})


def test_text_is_a_line_each_as_compilers_write_it():
    lines = formats.text_lines(report("t.yaml").at_least(Severity.WARNING))

    assert lines[0].startswith('t.yaml:4:17: error AK101 RabbitMQ knows no argument "x-mesage-ttl"')
    assert lines[1].startswith("t.yaml:5:33: warning AK304 c drops its oldest messages")


def test_github_gets_commands_in_which_nothing_breaks_out():
    (first, _) = formats.github_lines(report().at_least(Severity.WARNING))

    assert first.startswith("::error file=topology/a b.yaml,line=4,col=17,title=AK101 mistyped-argument::")
    nasty = formats.github_lines(lint([("a:b,c\n.yaml", TEXT)], {}).at_least(Severity.ERROR))
    assert nasty[0].startswith("::error file=a%3Ab%2Cc%0A.yaml,line=4,")
    hostile = lint([("t", 'version: 1\nqueues:\n  "a\\n::set-output name=x::y": {}\n')], {})
    assert all("\n" not in line for line in formats.github_lines(hostile.findings))


def test_json_says_everything_and_whether_it_is_fine():
    document = formats.json_document(report(), Severity.ERROR)

    assert document["format_version"] == "1.0"
    assert document["ok"] is False
    assert document["findings"][1] == {
        "code": "AK101",
        "name": "mistyped-argument",
        "severity": "error",
        "file": "topology/a b.yaml",
        "line": 4,
        "column": 17,
        "address": "queue a,b: 100%",
        "message": 'RabbitMQ knows no argument "x-mesage-ttl", and would ignore it',
        "remedy": 'did you mean "x-message-ttl"?',
    }
    assert document["summary"] == {"info": 1, "warning": 1, "error": 1, "suppressed": 0}


def test_sarif_is_what_readers_of_2_1_0_insist_on():
    document = formats.sarif_document(report(), "1.2.3")

    jsonschema.validate(document, SARIF)
    (run,) = document["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "topology/a%20b.yaml"}, "region": {"startLine": 4, "startColumn": 17}}


def test_the_summary_counts_and_says_what_is_hidden():
    assert formats.summary(report(), Severity.WARNING) == "1 error, 1 warning, 1 info (--fail-on info shows all)"
    assert formats.summary(lint([("t", "version: 1\n")], {}), Severity.WARNING) == "clean"


def test_the_documentation_is_what_the_rules_say():
    page = Path(__file__).parents[3] / "docs" / "lint.md"

    assert page.read_text(encoding="utf-8") == guide(), "write it anew: python -m tests.unit.lint.write_guide"
