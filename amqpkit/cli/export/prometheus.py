"""`amqpkit export prometheus`."""

import os
from pathlib import Path

from amqpkit.cli.files import topology_files
from amqpkit.cli.usage import UsageError
from amqpkit.declare.load import load_topology
from amqpkit.declare.spec.document import to_yaml
from amqpkit.operate.metrics.rules import Thresholds, rules_document
from amqpkit.units import parse_duration, parse_percent


def prometheus(*files: Path, oldest: str = "10m", failure_rate: str = "20%", patience: str = "2m") -> int:
    """Write alert rules for Prometheus: a file for `rule_files`.

    From the topology file come dead letters (`dead_letter.alert`), depth (`limits.depth`) and handling time close to
    `timeout` or `consumer-timeout`; owner and runbook become the label `owner` and the annotation `runbook_url`. For
    every work queue there is also: no consumer, an old message, a high failure rate. The metrics are those of
    `amqpkit run --metrics-port`.

    Exit codes: 0 written; 1 failed.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    oldest
        From which age on the next message of a work queue is too old.
    failure_rate
        From which part of the deliveries of five minutes on too many fail.
    patience
        For how long no consumer, an old message, failures or slow handling must last to be an alert.
    """
    try:
        part = parse_percent(failure_rate) / 100
        thresholds = Thresholds(parse_duration(oldest) / 1000, part, parse_duration(patience) / 1000)
    except ValueError as error:
        raise UsageError(str(error)) from error
    topology = load_topology(*topology_files(files), environ=os.environ)
    print(to_yaml(rules_document(topology, thresholds)), end="")
    return 0
