"""What others may see of a process of ours."""

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource, subprocess, sys
from distributary.server.processes.supervision.children import keep_memory_private
keep_memory_private()
print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3))
sys.stdout.flush()
child = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
subprocess.run([sys.executable, "-c", child], check=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a matter of Linux")
def test_no_core_is_written_and_nobody_looks_in():
    """Nor by what it starts, the JVM for one; 3 asks whether it may be looked at (prctl)."""
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    assert shown.stdout.splitlines() == ["(0, 0) 0", "(0, 0)"]
