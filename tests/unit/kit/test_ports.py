"""The ports that tests give to servers."""

import random
import subprocess
import sys
from pathlib import Path

from kit import ports

DRAWN = "import secrets, random\nsecrets.choice = random.Random(7).choice\n"
"""Two processes that draw the same numbers."""


def test_two_runs_are_given_different_ports(monkeypatch):
    """A server of one may start long after the port was drawn, and another run draws meanwhile."""
    monkeypatch.setattr(ports.secrets, "choice", random.Random(7).choice)
    ours = {ports.free_port() for _ in range(5)}

    run = DRAWN + "from kit.ports import free_port\nprint(*(free_port() for _ in range(5)))"
    kit = Path(ports.__file__).parents[1]
    said = subprocess.run(
        [sys.executable, "-c", run], cwd=kit, check=True, capture_output=True, text=True
    ).stdout

    assert len(ours) == 5
    assert ours.isdisjoint(map(int, said.split()))
