"""A low priority, for a process that others need not wait for, and that must not starve."""

import contextlib
import os
from pathlib import Path
from typing import Final

NICENESS: Final = 10
"""A tenth of a core beside processes that never rest. Of 19 it is a sixtieth: less than the index
of a log takes that grows as fast as two cores allow."""
_GROUP: Final = Path("/proc/self/autogroup")


def yield_to_all(group: Path = _GROUP) -> None:
    """Give this process, and what it starts, a low priority.

    Args:
        group: Where the kernel takes the priority of a session's group.
    """
    os.nice(NICENESS)
    # Where Linux groups processes by session (kernel.sched_autogroup_enabled), a niceness ranks a
    # process within its session alone. Each child of ``serve`` has its own, so the session needs
    # one too. It belongs to whoever leads it: one that is shared stays as it is.
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # another system, or groups are off
            group.write_text(str(NICENESS))
