"""Retry backoff and failure reason of a partition that cannot be owned; the others continue.

The state is on the partition's status page, so that the backoff holds for whichever process tries
next, and readiness reports it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from distributary.core.clock import Clock
from distributary.core.files import write_atomically
from distributary.datadir._layout import DataDir
from distributary.datadir._status_page import Phase, StatusField, StatusPage

if TYPE_CHECKING:  # client commands have no structlog
    from structlog.typing import FilteringBoundLogger

WAIT_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Backoff of a partition that cannot be owned; the last wait repeats. A cause may pass in a moment
or need an operator, and each retry costs the other partitions some CPU."""
STEADY_S = 60.0
"""An owner that ran this long resets the backoff."""
REASON_CHARS_MAX = 1_000
"""Longest reason that is stored: the rest is in the log."""


class Sickness:
    """Failures of one partition's owners, with backoff.

    Args:
        paths: Paths of the data directory.
        partition: Partition number.
        status_page: Status page of the partition.
        clock: For the backoff.
        log: Logs each failure.
        tell: Told each reason, last of all; may block.
    """

    def __init__(
        self,
        paths: DataDir,
        partition: int,
        status_page: StatusPage,
        clock: Clock,
        log: "FilteringBoundLogger",
        *,
        tell: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        self._path = paths.sick(partition)
        self._partition = partition
        self._status_page = status_page
        self._clock = clock
        self._log = log
        self._tell = tell
        self._began_s: float | None = None

    def due(self) -> bool:
        """Whether the partition may be retried now."""
        status_page = self._status_page
        if not status_page[StatusField.FAILURES]:
            return True
        wait_ms = status_page[StatusField.RETRY_AT_MS] - self._clock.wall_ms()
        # The wall clock may have been set back.
        return wait_ms <= 0 or wait_ms > WAIT_S[-1] * 1000

    def began(self) -> None:
        """Note that an owner has started."""
        self._began_s = self._clock.monotonic_s()

    def goes_on(self) -> None:
        """Note that the owner still runs; called at least every second."""
        if not self._status_page[StatusField.FAILURES] or self._began_s is None:
            return
        if self._clock.monotonic_s() - self._began_s >= STEADY_S:
            self.over()

    def over(self) -> None:
        """Reset the failures: the owner ran for long, or to an orderly end."""
        self._status_page[StatusField.FAILURES] = 0

    def note(self, error: BaseException) -> None:
        """Record that the owner could not start, or ended, because of *error*."""
        status_page = self._status_page
        self._began_s = None
        failures = status_page[StatusField.FAILURES] + 1
        wait_s = WAIT_S[min(failures, len(WAIT_S)) - 1]
        reason = str(error) or repr(error)
        kept = reason[:REASON_CHARS_MAX]
        try:
            write_atomically(self._path, kept.encode("utf-8", "replace"))
        except OSError:
            self._log.error("reason-not-kept", partition=self._partition)
        status_page[StatusField.RETRY_AT_MS] = self._clock.wall_ms() + int(wait_s * 1000)
        status_page[StatusField.FAILURES] = failures
        status_page[StatusField.PHASE] = Phase.ABSENT
        self._log.error(
            "partition-sick",
            partition=self._partition,
            reason=reason,
            failures=failures,
            wait_s=wait_s,
        )
        self._tell(kept)


def is_sick(status_page: StatusPage) -> bool:
    """Whether the last attempt to own the partition of *status_page* failed."""
    return (
        bool(status_page[StatusField.FAILURES]) and status_page[StatusField.PHASE] != Phase.RUNNING
    )


def sickness_of(paths: DataDir, partition: int) -> str:
    """Returns why the last attempt to own *partition* failed, for people."""
    try:
        return paths.sick(partition).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "the log says why"
