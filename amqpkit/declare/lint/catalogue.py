"""Every rule and every check. Pure."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final

from amqpkit.declare.lint import (
    arguments,
    deadletters,
    deprecated,
    limits,
    live,
    loops,
    policies,
    routes,
    secrets,
    suppression,
)
from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import Subject

REFUSED: Final = Rule(
    "AK001",
    "file-refused",
    Severity.ERROR,
    "A file that cannot be compiled",
    "YAML that cannot be read, unknown keys, names of more than 255 bytes (those of generated queues "
    "too) or that start "
    "with `amq.`, undeclared exchanges, descending delays, a `max-length` below twice `limits.depth`: "
    "`amqpkit compile` "
    "refuses such a file, so nothing can be planned or applied.",
    bad="work_queues:\n  amq.jobs: {}\n",
    good="work_queues:\n  jobs: {}\n",
)
_FAMILIES: Final = (arguments, deadletters, loops, limits, policies, deprecated, routes)
CHECKS: Final[tuple[Callable[[Subject], Iterator[Finding]], ...]] = tuple(family.check for family in _FAMILIES)
_TABLES: Final[tuple[tuple[Rule, ...], ...]] = (
    (REFUSED,),
    *(family.RULES for family in _FAMILIES),
    secrets.RULES,
    suppression.RULES,
)
RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.code: rule for rule in chain.from_iterable(_TABLES)})
LIVE_RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.code: rule for rule in live.RULES})
"""Those that take a look at a broker."""
