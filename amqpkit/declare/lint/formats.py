"""A report as text, JSON, annotations for GitHub, or SARIF. Pure."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from amqpkit.declare.lint.catalogue import LIVE_RULES, RULES
from amqpkit.declare.lint.findings import Placed, Rule, Severity
from amqpkit.declare.lint.run import Report

FORMAT_VERSION: Final = "1.0"
_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def text_lines(findings: Iterable[Placed]) -> list[str]:
    """Give a line for each finding, as compilers do."""
    return [f"{each.place}: {each.severity.word} {each.rule.code} {each.text}" for each in findings]


def summary(report: Report, shown: Severity) -> str:
    """Count what was found, what is silenced, and what is not shown."""
    counts = [
        f"{number} {severity.word}{'s' if number > 1 and severity is not Severity.INFO else ''}"
        for severity in sorted(Severity, reverse=True)
        if (number := report.count(severity))
    ]
    notes = [f"{report.suppressed} silenced"] if report.suppressed else []
    notes += ["--fail-on info shows all"] if shown > Severity.INFO and report.count(Severity.INFO) else []
    return (", ".join(counts) or "clean") + (f" ({'; '.join(notes)})" if notes else "")


def json_document(report: Report, lowest: Severity) -> dict[str, Any]:
    """Give the report as data; minor versions only add. `ok` is that nothing is at or above `lowest`."""
    return {
        "format_version": FORMAT_VERSION,
        "ok": not report.at_least(lowest),
        "findings": [_json_finding(each) for each in report.findings],
        "summary": {**{each.word: report.count(each) for each in Severity}, "suppressed": report.suppressed},
    }


def _json_finding(finding: Placed) -> dict[str, Any]:
    return {
        "code": finding.rule.code,
        "name": finding.rule.name,
        "severity": finding.severity.word,
        "file": finding.place.file,
        "line": finding.place.line,
        "column": finding.place.column,
        "address": finding.address,
        "message": finding.message,
        "remedy": finding.remedy,
    }


def github_lines(findings: Iterable[Placed]) -> list[str]:
    """Give a workflow command for each finding: GitHub shows it at its line of a pull request."""
    return [
        f"::{_COMMANDS[each.severity]} file={_property(each.place.file)},line={max(1, each.place.line)},"
        f"col={max(1, each.place.column)},title={_property(f'{each.rule.code} {each.rule.name}')}::{_data(each.text)}"
        for each in findings
    ]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif_document(report: Report, version: str) -> dict[str, Any]:
    """Give the report as SARIF 2.1.0, for code scanning; `version` is this program's."""
    rules = {**RULES, **LIVE_RULES}
    used = sorted({finding.rule.code for finding in report.findings})
    driver = {"name": "amqpkit", "semanticVersion": version, "rules": [_sarif_rule(rules[code]) for code in used]}
    return {
        "$schema": _SARIF,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(each, used.index(each.rule.code)) for each in report.findings],
            }
        ],
    }


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.why},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _sarif_result(finding: Placed, index: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.place.file, safe="/")}}
    if finding.place.line:
        place["region"] = {"startLine": finding.place.line, "startColumn": finding.place.column}
    return {
        "ruleId": finding.rule.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.text},
        "locations": [{"physicalLocation": place}],
    }
