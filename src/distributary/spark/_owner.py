"""The owner of a partition in a Python worker: its session, and what that needs beside a task.

A session outlasts the task that opened it: between two tasks, and when the JVM has ended, it
delivers alone. ``_delivery_task`` looks after it while there is a task, ``_custody`` otherwise.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from distributary.core.errors import DistributaryError
from distributary.datadir import LiveSettings, Sickness, StatusField, StatusPage
from distributary.partitions import Guardians, Holding, LiveSource, PartitionSession

LOOK_S = 0.2
"""Interval of looks for a quiet moment, when newer settings wait for it or the epoch is to end."""
REST_S = 1.0
"""Interval of looks at the settings file and at the JVM otherwise. Requests on the status page end
the wait: the session's loop looks at them five times a second or more."""
ALONE_S: Final = 30.0
"""Longest time without a task while the JVM lives: less than the minute after which Spark kills a
worker that idles."""
OUTLIVED_DRAIN_S = 0.5
"""Time for attempts under way when a session that has outlived its JVM ends: its successor waits,
and the events of the partition with it."""
QUIET_MS = 150
"""Age of the oldest attempt in flight below which a session may end without delaying deliveries."""
DRAIN_S_MIN = 0.5
"""Shortest drain: by then most attempts in flight have their response."""
DRAIN_S_MAX = 120.0
"""Longest drain; then the session ends all the same: the longest attempt lasts ten minutes, and one
hanging sink would keep settings in force that the operator revoked. Attempts without a response
are then repeated, as at a stop."""


@dataclass(slots=True)
class Owner:
    """Owner of one partition.

    Attributes:
        partition: Partition number.
        session: Its session.
        status_page: Status page of the partition.
        guardians: The processes that the session depends on.
        sickness: Failures of the partition.
        live: The settings that change, as the session has read it.
        newer: Settings that came since; another session takes over with them at a quiet moment.
        now_s: The monotonic clock.
    """

    partition: int
    session: PartitionSession
    status_page: StatusPage
    guardians: Guardians
    sickness: Sickness
    live: LiveSource
    newer: LiveSettings | None = None
    now_s: Callable[[], float] = time.monotonic
    _quiet_since_s: float | None = field(default=None, init=False)
    _counted: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._counted = self.session.counts()

    def serve(self, epoch: int) -> None:
        """Serve *epoch* from now on, for a task."""
        self.session.enter(epoch)
        self.status_page[StatusField.SUCCESSOR] = 0

    def watch(self) -> None:
        """Wait for ``REST_S``, or until somebody asks for something.

        Raises:
            DistributaryError: The session has failed, and is closed.
        """
        try:
            self.session.wait(REST_S if self._quiet_since_s is None else LOOK_S)
        except DistributaryError as error:
            self.sickness.note(error)
            self.close(orderly=False)
            raise
        self.sickness.goes_on()

    def counts(self) -> tuple[int, int, int]:
        """Returns the records taken, the attempts and the outcomes of matches since last asked."""
        before, self._counted = self._counted, self.session.counts()
        records, attempts, outcomes = (
            now - then for now, then in zip(self._counted, before, strict=True)
        )
        return records, attempts, outcomes

    def outdated(self) -> bool:
        """Whether there are newer settings, and this is a moment to end for them."""
        self.newer = self.live.look() or self.newer
        return self.newer is not None and self.quiet(DRAIN_S_MAX)

    def renew(self, make: Callable[[LiveSettings, Holding], PartitionSession]) -> bool:
        """Go on with ``newer`` settings, in another session with the lock and files of this one.

        Args:
            make: Makes the session; closes the holding where it fails.

        Returns:
            False: The session has failed, or the next one cannot be made. That is noted, the
            partition is released, and all of this is closed.
        """
        assert self.newer is not None
        try:
            self.session = make(self.newer, self.session.hand_over())
        except Exception as error:  # noqa: BLE001 - must not fail the other partitions
            self.sickness.note(error)
            self.status_page.close()
            self.guardians.close()
            return False
        self.status_page[StatusField.SETTINGS] = self.newer.number
        self.newer = self._quiet_since_s = None
        self._counted = self.session.counts()
        return True

    def quiet(self, wait_s: float) -> bool:
        """Whether a session that is to end may do so: few attempts are under way, or it is late.

        From the first call on, slow sinks get no new attempts.
        """
        now_s = self.now_s()
        if self._quiet_since_s is None:
            self._quiet_since_s = now_s
            self.session.quieten()
        waited_s = now_s - self._quiet_since_s
        if waited_s > wait_s or not self.status_page[StatusField.IN_FLIGHT]:
            return True
        oldest_ms = self.status_page[StatusField.OLDEST_IN_FLIGHT_MS]
        return waited_s >= DRAIN_S_MIN and oldest_ms <= QUIET_MS

    @property
    def given_away(self) -> bool:
        """Whether the driver counts on this owner no more, and another one asks for the partition.

        Its executor, or its driver, is cut off from the driver that leads now.
        """
        page = self.status_page
        return not page[StatusField.EPOCH] and bool(page[StatusField.SUCCESSOR])

    def nudge(self) -> None:
        """End a wait of ``watch``, which may be in another thread."""
        self.session.nudge()

    def alone(self, wanted: Callable[[], bool]) -> bool:
        """Deliver without a task, until one wants the session, or nobody is to have it any more.

        Returns:
            True: *wanted* held. False: the session is closed.

        Raises:
            DistributaryError: The session has failed, and is closed.
        """
        status_page = self.status_page
        status_page[StatusField.SUCCESSOR] = 0  # who waits asks again
        since_s = self.now_s()
        while not wanted():
            if (
                status_page[StatusField.SUCCESSOR]
                or status_page[StatusField.STOP]
                or self._late(since_s)
            ):
                self.close(orderly=True)
                return False
            self.watch()
        return True

    def _late(self, since_s: float) -> bool:
        """Whether nobody is to be waited for any more. The server's end ends the process itself."""
        if self.guardians.orphaned:
            return not self.guardians.patient
        return self.now_s() - since_s > ALONE_S

    def close(self, *, orderly: bool) -> None:
        """End the session, as ``PartitionSession.close``."""
        drain_s = OUTLIVED_DRAIN_S if self.guardians.orphaned else None
        try:
            self.session.close(orderly=orderly, drain_s=drain_s)
        finally:
            self.status_page.close()
            self.guardians.close()
