"""Comments that silence a rule, and those that do not."""

import pytest

from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import lint

PLAIN = 'version: 1\nqueues:\n  jobs:{on_name}\n    arguments:{on_part}\n      x-colour: "red #1"{on_line}\n'


def codes(text: str) -> list[str]:
    return [finding.rule.code for finding in lint([("topology.yaml", text)], {}).at_least(Severity.WARNING)]


@pytest.mark.parametrize("where", ["on_name", "on_part", "on_line"])
def test_a_comment_speaks_for_its_line_and_for_what_stands_below_a_name(where):
    words = {"on_name": "", "on_part": "", "on_line": "", where: "  # amqpkit: ignore[AK102] our plugin reads it"}

    assert codes(PLAIN.format(**words)) == []


def test_a_comment_alone_on_its_line_speaks_for_the_next_one():
    text = (
        "version: 1\nqueues:\n  # amqpkit: ignore[AK102] our plugin\n  # it\n\n  jobs: {arguments: {x-colour: red}}\n"
    )

    assert codes(text) == []


def test_a_comment_on_a_section_silences_nothing():
    text = "version: 1\nqueues: # amqpkit: ignore[AK102] all of them\n  jobs: {arguments: {x-colour: red}}\n"

    assert codes(text) == ["AK902", "AK102"]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("ignore[AK102]", ["AK102", "AK901"]),
        ("ignore[] our plugin", ["AK102", "AK901"]),
        ("ignore our plugin", ["AK102", "AK901"]),
        ("ignore[AK101] our plugin", ["AK102", "AK902"]),
        ("ignore[AK102, AK304] our plugin", ["AK902"]),
        ("ignore[ak102] our plugin", []),
        ("ignored[AK102] our plugin", ["AK102"]),
    ],
)
def test_a_comment_needs_codes_that_are_found_and_a_reason(comment, expected):
    text = f"version: 1\nqueues:\n  jobs: {{arguments: {{x-colour: red}}}}  # amqpkit: {comment}\n"

    assert codes(text) == expected


def test_what_looks_like_a_comment_inside_a_text_is_none():
    text = 'version: 1\nqueues:\n  jobs: {arguments: {x-colour: "red # amqpkit: ignore[AK102] our plugin"}}\n'

    assert codes(text) == ["AK102"]


BASE = "version: 1\nqueues:\n  jobs: {name}\n    arguments: {{x-colour: red}} {line}\n"
OVERLAY = "version: 1\nqueues:\n  jobs: {name}\n    type: classic {line}\n"
COMMENT = "# amqpkit: ignore[AK102] our plugin"


@pytest.mark.parametrize(
    ("base", "overlay", "expected"),
    [
        ({"name": COMMENT, "line": ""}, {"name": "", "line": ""}, []),
        ({"name": "", "line": COMMENT}, {"name": "", "line": ""}, []),
        ({"name": "", "line": ""}, {"name": COMMENT, "line": ""}, []),
        ({"name": "", "line": ""}, {"name": "", "line": COMMENT}, ["AK102", "AK902"]),
    ],
)
def test_of_files_laid_over_each_other_each_may_silence_a_rule_for_the_name_that_it_writes(base, overlay, expected):
    report = lint([("base.yaml", BASE.format(**base)), ("overlay.yaml", OVERLAY.format(**overlay))], {})

    assert [finding.rule.code for finding in report.at_least(Severity.WARNING)] == expected
