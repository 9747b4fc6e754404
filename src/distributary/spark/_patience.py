"""How long a driver waits for executors: longer after each application that got none.

Executors that need longer than the wait (a cluster that makes machines for them, a large image)
would never come: each application ends before, and the next one asks anew. A driver is a process
of its own, so the number of such applications is in a file.

Called by ``shared_side``.
"""

import contextlib
from pathlib import Path
from typing import Final

WAIT_S: Final = 30.0
"""As long as a start waits for task slots, after which it gives up."""
WAIT_S_MAX: Final = 480.0
"""Longest wait: a cluster that has started machines by then is found, and a master that has
forgotten its application costs no more than that."""


class Patience:
    """The wait of one application.

    Args:
        path: The file; its folder exists.

    Attributes:
        wait_s: How long to wait for executors, seconds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = _read(path)
        self._spent = False
        self.wait_s: float = min(WAIT_S * 2**self._count, WAIT_S_MAX)

    def spend(self) -> None:
        """The application has got none in that time: the next one waits twice as long."""
        if not self._spent and self.wait_s < WAIT_S_MAX:
            with contextlib.suppress(OSError):  # then the next one waits as long as this one
                self._path.write_text(f"{self._count + 1}\n", encoding="ascii")
        self._spent = True

    def renew(self) -> None:
        """Executors have come: the next wait is the shortest again."""
        if self._count or self._spent:
            with contextlib.suppress(OSError):  # tried again at the next look
                self._path.unlink(missing_ok=True)
                self._count, self._spent = 0, False


def _read(path: Path) -> int:
    try:
        return max(0, int(path.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0
