"""Benchmarks are programs that no other test runs."""

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_every_line_can_be_loaded() -> None:
    """What they import is where they look for it."""
    environ = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
    found = subprocess.run(
        [sys.executable, "-c", "import run, soak, against, large_bodies"],
        env=environ,
        cwd=BENCHMARKS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
