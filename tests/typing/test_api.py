"""The public types are part of the API: examples of it are checked by mypy, in both directions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_public_api_type_checks_and_refuses_what_is_wrong() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--no-pretty", "tests/typing/api.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
