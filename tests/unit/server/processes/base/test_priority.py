"""A low priority: of the process, and of its session where that is its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from pathlib import Path
from distributary.server.processes.base.priority import yield_to_all
yield_to_all(Path(sys.argv[1]))
print(os.nice(0))
"""
OF_KERNEL = Path("/proc/self/autogroup")
LOWERED = min(os.nice(0) + 10, 19)
"""By ten from where the tests run, and no lower than there is."""


def _niceness(group: Path, *, own_session: bool) -> int:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(group)],
        start_new_session=own_session,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return int(told.stdout)


@pytest.mark.parametrize("own_session", [True, False])
def test_a_session_of_its_own_yields_as_a_whole(tmp_path: Path, own_session: bool) -> None:
    """One that is shared does not: that is the shell of a person, or its parent."""
    group = tmp_path / "autogroup"
    assert _niceness(group, own_session=own_session) == LOWERED
    assert group.exists() == own_session
    assert not own_session or group.read_text() == "10"


def test_a_system_without_groups_has_the_niceness_alone(tmp_path: Path) -> None:
    """Nothing fails."""
    assert _niceness(tmp_path / "none" / "autogroup", own_session=True) == LOWERED


@pytest.mark.skipif(not OF_KERNEL.exists(), reason="Linux with groups of sessions")
def test_the_kernel_takes_it() -> None:
    """As ``serve`` starts its children."""
    program = PROGRAM.replace("print(os.nice(0))", f"print(Path('{OF_KERNEL}').read_text())")
    told = subprocess.run(
        [sys.executable, "-c", program, str(OF_KERNEL)],
        start_new_session=True,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert "nice 10" in told.stdout or not told.stdout.strip()  # off: the file says nothing
