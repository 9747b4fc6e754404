"""Settings of the interpreter and of memory for the control process, whose clients choose sizes."""

import gc
import sys
from typing import Final

from distributary.server.processes.base.memory import map_large_blocks
from distributary.server.processes.supervision.children import keep_memory_private

SWITCH_S: Final = 0.0005
"""Thread switch interval, seconds. Writing a large object occupies a thread for a second; by
default (5 ms) the event loop would wait that long for each of its turns meanwhile."""

COLLECT_AFTER: Final = (100_000, 20, 50)
"""Thresholds of the cycle collector, above what one request of the largest size allocates. Objects
of the Kubernetes API are trees, and each full collection stops everything for a while."""


def tune() -> None:
    """Set this process up, at its start."""
    sys.setswitchinterval(SWITCH_S)
    keep_memory_private()
    map_large_blocks()
    gc.set_threshold(*COLLECT_AFTER)
