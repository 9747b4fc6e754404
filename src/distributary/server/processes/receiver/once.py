"""The window in which an event is taken once: events with the same id and source are one.

Callers: ``file_log`` and ``shared_log``, where a window is switched on; without it nothing here
runs. Each event goes to the partition of its id, or of its ``partitionkey``. Where nodes share the
log, that is all: who reads a partition decides (``core.log.repeats``).

In a log of files one process decides about an event: the one that appends to its partition. It
keeps the ids of late, and reads them from the log when it starts; so neither several receivers nor
a crash between append and response makes a difference.

An event that is on its way to the disk counts neither as taken nor as new: its repeat waits, and
gets the same response.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import EventError, LogError
from distributary.core.flow import Logged, Received, events_of
from distributary.core.log import Reader
from distributary.core.log.taken import OnceLimits, TakenIds, id_of, ids_of, named
from distributary.server.ingest import AppendPort, Settle, received_once

REPEATED: Final = -1
"""Given in place of an offset for an event that was taken before."""

Done = Callable[[int | LogError], None]


class Committer(Protocol):
    """``core.log.GroupCommitter``, as an append needs it."""

    @property
    def pending_bytes(self) -> int:
        """Bodies that wait, bytes."""

    def submit(self, kind: int, body: bytes, done: Done, by: str = "") -> None:
        """Append a record that *by* published."""


class OnceCommitter:
    """Appends the events of one partition, each id once within the window.

    Args:
        committer: Appends what is new.
        taken: The window of the partition.
        clock: Tells the age of ids.

    Attributes:
        repeated_count: Events that were taken before, and answered as if they were taken now.
    """

    def __init__(self, committer: Committer, taken: TakenIds, clock: Clock) -> None:
        self._committer = committer
        self._taken = taken
        self._clock = clock
        self._waiting: dict[bytes, list[Done]] = {}
        self.repeated_count = 0

    @property
    def pending_bytes(self) -> int:
        """As that of the committer."""
        return self._committer.pending_bytes

    def submit(self, kind: int, body: bytes, done: Done, by: str = "") -> None:
        """Append the one event of *body*, unless it was taken; *done* gets ``REPEATED`` then.

        Raises:
            LogError: As the committer's; *done* is not called.
        """
        (taken,) = ids_of(Logged(0, 0, 0, kind, body))
        if self._taken.has(taken, self._clock.wall_ms()):
            self.repeated_count += 1
            done(REPEATED)
            return
        waiting = self._waiting.get(taken)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[taken] = []

        def told(result: int | LogError) -> None:
            if not isinstance(result, LogError):
                self._taken.add(taken, self._clock.wall_ms())
            repeats = self._waiting.pop(taken)
            done(result)
            for each in repeats:
                if isinstance(result, LogError):
                    each(result)
                else:
                    self.repeated_count += 1
                    each(REPEATED)

        try:
            self._committer.submit(kind, body, told, by)
        except LogError:
            del self._waiting[taken]
            raise


class OnceAppends:
    """``server.ingest.AppendPort``: each event of a request goes to the partition of its id.

    A batch becomes as many records as it has events. Where one of them fails, the request fails,
    and its repeat appends what is missing.

    Args:
        appends: Appends each event to the partition of its key.

    Attributes:
        splits: See ``AppendPort.splits``.
    """

    splits: Final = True

    def __init__(self, appends: AppendPort) -> None:
        self._appends = appends

    @property
    def open(self) -> bool:
        """See ``AppendPort.open``."""
        return self._appends.open

    def submit(self, received: Received, done: Settle) -> None:
        """See ``AppendPort.submit``; *done* is called once for all events."""
        found = events_of(Logged(0, 0, 0, received.kind, received.body))
        assert found is not None, "only events are received"
        whole = received if len(found.events) == 1 else None
        left = len(found.events)
        failed: LogError | None = None

        def told(result: int | LogError | None) -> None:
            nonlocal left, failed
            left -= 1
            if isinstance(result, LogError):
                failed = failed or result
            if not left:
                done(failed)

        for index, event in enumerate(found.events):
            key = event.text("partitionkey") or id_of(found.address, *named(event)).hex()
            one = received_once(found, index, received.by, key, whole)
            self._appends.submit(one, told)


def read_taken(log_dir: Path, partition: int, limits: OnceLimits, now_ms: int) -> TakenIds:
    """The window of a partition, from its log. Takes some seconds for a million events.

    Args:
        log_dir: ``{data}/log``.
        partition: An appender has opened it.
        limits: Bounds of the window.
        now_ms: Wall clock, milliseconds.

    Raises:
        LogUnavailableError: The log cannot be read.
    """
    taken = TakenIds(limits.age_max_s, limits.count_max)
    with closing(Reader(log_dir, partition)) as reader:
        end = reader.durable_end()
        start = max(reader.offset_at(now_ms - int(limits.age_max_s * 1000)), end - limits.count_max)
        for logged in reader.read(start, end):
            try:
                found = ids_of(logged)
            except EventError:
                continue  # of a newer version: its delivery reports it
            for each in found:
                taken.add(each, logged.time_ms)
    return taken
