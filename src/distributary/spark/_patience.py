"""How long a driver waits for executors, and for their Python: longer after each wait in vain.

Executors that need longer than the wait (a cluster that makes machines for them, a large image)
would never come: each application ends before, and the next one asks anew. A driver is a process
of its own, so the number of such applications is in a file.

Called by ``shared_side`` and ``cluster``.
"""

import contextlib
from pathlib import Path
from typing import Final

WAIT_S: Final = 30.0
"""As long as a start waits for task slots, after which it gives up."""
WAIT_S_MAX: Final = 480.0
"""Longest wait: a cluster that has started machines by then is found, and a master that has
forgotten its application costs no more than that."""
COUNT_MAX: Final = 16
"""No file doubles a wait more often."""


class Patience:
    """The wait of one application.

    Args:
        path: The file; its folder exists.
        first_s: The shortest wait, seconds.
        longest_s: The longest one.

    Attributes:
        wait_s: How long to wait, seconds.
    """

    def __init__(self, path: Path, first_s: float = WAIT_S, longest_s: float = WAIT_S_MAX) -> None:
        self._path = path
        self._count = _read(path)
        self._spent = False
        self._longest_s = longest_s
        self.wait_s: float = min(first_s * 2**self._count, longest_s)

    def spend(self) -> None:
        """The application has waited in vain: the next one waits twice as long."""
        if not self._spent and self.wait_s < self._longest_s:
            with contextlib.suppress(OSError):  # then the next one waits as long as this one
                self._path.write_text(f"{self._count + 1}\n", encoding="ascii")
        self._spent = True

    def renew(self) -> None:
        """What was waited for has come: the next wait is the shortest again."""
        if self._count or self._spent:
            with contextlib.suppress(OSError):  # tried again at the next look
                self._path.unlink(missing_ok=True)
                self._count, self._spent = 0, False


def _read(path: Path) -> int:
    try:
        return min(max(0, int(path.read_text(encoding="ascii"))), COUNT_MAX)
    except (OSError, ValueError):
        return 0
