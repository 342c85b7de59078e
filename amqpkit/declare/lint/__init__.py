"""From a topology file to findings: `run.lint`, and the rules in `catalogue.RULES`."""
