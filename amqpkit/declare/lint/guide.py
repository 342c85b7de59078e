"""The rules for people: one for `--explain`, all for the documentation. Pure."""

from itertools import groupby
from typing import Final

from amqpkit.declare.lint.catalogue import LIVE_RULES, RULES
from amqpkit.declare.lint.findings import Rule

_FAMILIES: Final = {
    "0": "The file itself",
    "1": "Arguments, policy keys, bindings",
    "2": "Dead letters, delays, alternate exchanges",
    "3": "Limits and times",
    "4": "Policies",
    "5": "Removed and deprecated",
    "6": "Messages and bindings",
    "7": "On the broker (`--live`)",
    "8": "Secrets",
    "9": "Suppressions",
}
_START: Final = """\
# Lint rules

`amqpkit lint` reads topology files and says what RabbitMQ would refuse, ignore or lose. `amqpkit validate` gives only
the errors, and needs no options.

```console
$ amqpkit lint topology/shop.yaml               # errors and warnings; exit code 1 if there is an error
$ amqpkit lint --fail-on warning                # 1 at a warning too; --fail-on info also shows what is only advice
$ amqpkit lint --format github                  # at the lines of a pull request; also text, json, sarif
$ amqpkit lint --live --url amqp://...          # with a look at a broker: foreign policies, denied features
$ amqpkit lint --target 4.0                     # what that RabbitMQ takes (default: 4.3; with --live, the broker's)
$ amqpkit lint --allow x-my-plugin              # an argument that a plugin of yours reads
$ amqpkit lint --explain AK101                  # this page, for one rule
```

A rule is silenced for one place by a comment that says why. It speaks for its line; on the line of a name, for all
that stands below that name; alone on a line, for the next one. One without a reason, or that silences nothing, is
itself a finding.

```yaml
queues:
  replies:
    arguments: {x-expires: 1h}  # amqpkit: ignore[AK214] a cache: nobody misses it
```
"""


def explained(rule: Rule) -> str:
    """Explain one rule: what, why, an example of each kind."""
    parts = [f"{rule.code} {rule.name} ({rule.severity.word})", rule.title + ".", rule.why]
    if rule.bad:
        parts += [f"Breaks it:\n\n{_indented(rule.bad)}", f"Does not:\n\n{_indented(rule.good)}"]
    return "\n\n".join(parts) + "\n"


def guide() -> str:
    """Give the whole documentation page, in Markdown."""
    sections = [_START]
    for family, rules in groupby(sorted({**RULES, **LIVE_RULES}.items()), key=lambda item: item[0][2]):
        sections.append(f"## {_FAMILIES[family]}\n")
        sections += [_section(rule) for _, rule in rules]
    return "\n".join(sections)


def _section(rule: Rule) -> str:
    text = f"### {rule.code} {rule.name}\n\n*{rule.severity.word}.* {rule.title}.\n\n{rule.why}\n"
    if rule.bad:
        text += f"\n```yaml\n# breaks it\n{rule.bad}```\n\n```yaml\n# does not\n{rule.good}```\n"
    return text


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip("\n").split("\n"))
