"""Writes docs/lint.md anew from the rules."""

from pathlib import Path

from amqpkit.declare.lint.guide import guide

(Path(__file__).parents[3] / "docs" / "lint.md").write_text(guide(), encoding="utf-8")
