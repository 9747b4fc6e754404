"""The lowest priority, for a process that nothing waits for."""

import contextlib
import os
from pathlib import Path
from typing import Final

LOWEST: Final = 19
_GROUP: Final = Path("/proc/self/autogroup")


def yield_to_all(group: Path = _GROUP) -> None:
    """Give this process, and what it starts, the lowest priority.

    Args:
        group: Where the kernel takes the priority of a session's group.
    """
    os.nice(LOWEST)
    # Where Linux groups processes by session (kernel.sched_autogroup_enabled), a niceness ranks a
    # process within its session alone. Each child of ``serve`` has its own, so the session needs
    # one too. It belongs to whoever leads it: one that is shared stays as it is.
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # another system, or groups are off
            group.write_text(str(LOWEST))
