"""How many partitions and receivers a server has by default: by the processor's cores."""

import contextlib
import os
from pathlib import Path

from distributary.server.settings import Settings

PARTITIONS_DEFAULT = (2, 8)
"""Least and most partitions of a new log by default: an owner each, which occupies up to a core.
More cost memory and serve few; the setting has them."""
CORES_OF_A_RECEIVER = 4
"""Cores for each receiver by default. An event costs a receiver half of what it costs an owner, and
publishers, sinks and the JVM need the rest: on two cores a second receiver gains nothing."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def cores(quota: Path = _QUOTA) -> int:
    """Returns the cores that this process may use, at least 1.

    Args:
        quota: File of the control group's quota (cgroup version 2), which may be missing.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # no such group, or no quota ("max")
        allowed, period = quota.read_text(encoding="ascii").split()
        count = min(count, -(-int(allowed) // int(period)))
    return max(1, count)


def partitions_wanted(settings: Settings, count: int) -> int:
    """Returns the partitions of a new log on *count* cores."""
    if settings.partitions is not None:
        return settings.partitions
    least, most = PARTITIONS_DEFAULT
    return min(max(count, least), most)


def receivers_wanted(settings: Settings, count: int, partitions: int) -> int:
    """Returns the number of receivers on *count* cores, at most *partitions*."""
    wanted = settings.receivers or max(1, count // CORES_OF_A_RECEIVER)
    return min(wanted, partitions)
