"""Topologies from public bug reports, each with what lint says of it at warning and above."""

from pathlib import Path

import pytest

from amqpkit.declare.lint.findings import Severity
from amqpkit.declare.lint.run import lint

FOLDER = Path(__file__).parent / "cases"
EXPECTED = {
    "argument-against-policy": "AK407",
    "consumer-timeout-two-behaviours": "",
    "delay-queue-expires-with-its-messages": "AK213",
    "dlx-added-to-live-queue-after": "",
    "dlx-added-to-live-queue-before": "",
    "dlx-names-an-exchange-nobody-declares": "AK201",
    "dlx-names-an-exchange-nobody-declares-unbound-key": "AK202",
    "expiry-cycle-drops-messages": "AK210 AK210",
    "expiry-cycle-drops-messages-fine": "AK211",
    "full-queue-nacks": "AK304",
    "ha-mode-from-3x": "AK403 AK501 AK501 AK501 AK501 AK304 AK504",
    "headers-bindings-differ-by-type-only": "",
    "import-says-ok-and-changes-nothing-1": "",
    "import-says-ok-and-changes-nothing-2": "",
    "name-limit-is-bytes": "AK001",
    "numbers-written-as-strings": "AK001 AK001 AK001",
    "numbers-written-as-strings-in-definitions": "AK001",
    "real-export-with-streams-shovels-and-users": "",
    "replace-loses-bindings-after": "",
    "replace-loses-bindings-before": "",
    "replay-to-the-exchange": "",
    "retry-reaches-every-subscriber-bad": "AK211 AK206",
    "second-apply-is-not-empty": "AK304",
    "slow-head-blocks-fast-tail": "AK212",
    "transient-shared-queue": "AK502",
    "unknown-arguments-are-accepted": "AK101 AK101 AK001 AK001",
}


def linted(name: str):
    return lint([(name, (FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))], {})


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_a_reported_topology_is_judged(name):
    found = linted(name).at_least(Severity.WARNING)

    assert " ".join(finding.rule.code for finding in found) == EXPECTED[name]


def test_a_circle_is_printed():
    first, second = linted("expiry-cycle-drops-messages").at_least(Severity.ERROR)

    assert "a -> b -> a" in first.message
    assert "self -> self" in second.message


def test_names_are_counted_in_bytes_and_the_longest_that_fits_passes():
    (finding,) = linted("name-limit-is-bytes").at_least(Severity.WARNING)

    assert "has 256 bytes; RabbitMQ takes 255" in finding.message


@pytest.mark.parametrize(
    "files",
    [
        ["shop.yaml"],
        ["examples/minimal.yaml"],
        ["examples/full.yaml"],
        ["examples/full.yaml", "examples/production.yaml"],
    ],
    ids="+".join,
)
def test_our_own_topologies_are_clean(files):
    folder = Path(__file__).parents[3] / "topology"

    report = lint([(name, (folder / name).read_text(encoding="utf-8")) for name in files], {})

    assert [finding.text for finding in report.at_least(Severity.WARNING)] == []
