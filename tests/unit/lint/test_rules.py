"""Each rule as a file that breaks it and one that does not."""

import pytest

from amqpkit.declare.lint.catalogue import RULES
from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import Report, lint


def linted(text: str, **options) -> Report:
    return lint([("topology.yaml", "version: 1\n" + text)], {}, **options)


def codes(report: Report) -> list[str]:
    return [finding.rule.code for finding in report.findings]


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.bad], ids=lambda rule: rule.code)
def test_a_rule_is_broken_by_its_bad_example_at_a_line_of_it(rule):
    broken = [finding for finding in linted(rule.bad).findings if finding.rule is rule]

    assert broken
    for finding in broken:
        assert 2 <= finding.place.line <= rule.bad.count("\n") + 1
        assert finding.message
        assert "\n" not in finding.text


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.good], ids=lambda rule: rule.code)
def test_a_rules_good_example_is_clean(rule):
    report = linted(rule.good)

    assert [finding.text for finding in report.at_least(Severity.WARNING)] == []
    assert rule.code not in codes(report)


def test_every_rule_has_both_examples_and_a_code_of_its_own():
    assert [rule.code for rule in RULES.values() if not (rule.bad and rule.good)] == []
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
