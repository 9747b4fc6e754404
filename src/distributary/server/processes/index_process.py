"""The index process: makes the index of event ids, beside the log and behind it.

Started by ``serve`` unless ``event_index`` is off, on each node that shares a log too. A process of
its own at the lowest priority: neither receivers nor owners know of it, and a search works without
it, only slower.
"""

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec
import structlog

from distributary.core.clock import SystemClock
from distributary.core.cluster import KafkaPlace, take_places
from distributary.core.errors import LogError
from distributary.core.log.folder import has_end
from distributary.core.log.indexer import Indexer
from distributary.core.log.kafka import KafkaEnds, KafkaRecords, MemorySnapshots
from distributary.core.log.offset_indexer import OffsetIndexer
from distributary.datadir import PARENT, DataDir
from distributary.server.processes.base.logging import configure
from distributary.server.processes.base.priority import yield_to_all
from distributary.server.processes.supervision.children import end_with_parent

LOOK_S: Final = 1.0
"""How often the process looks for new records where there is nothing else to do."""
GATHER_S: Final = 0.2
"""How long records gather while events flow: a turn for each few of them costs as much as the rest
of the index. Whoever looks for an event reads through what has no entry yet."""
REST_LOOKS: Final = 60
"""Looks that ask for new records alone, once there was nothing to do: a minute. Then the files are
looked at, since retention may have deleted what they are for."""
VERIFY_S: Final = 3600.0
"""Interval in which all files are verified again: a file that the medium has damaged is made again.
Reading them costs a tenth of a second for ten million events."""


class IndexStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the process: its argument, as JSON.

    Attributes:
        data_dir: Data directory.
        partitions: Number of partitions of the log; of one that nodes share, the log tells it.
        age_max_s: Age of events above which they have no index.
        log_level: Least level that is logged.
    """

    data_dir: str
    partitions: int
    age_max_s: float
    log_level: str


class _Makes(Protocol):
    """Makes the index of one partition; ``Indexer`` and ``OffsetIndexer`` do."""

    @property
    def behind(self) -> bool:
        """Whether there is more to do at once."""

    @property
    def has_news(self) -> bool:
        """Whether the log has grown since the last turn."""

    def turn(self, now_ms: int) -> bool:
        """Do some work; False: there is none now."""

    def forget(self) -> None:
        """Verify all files once more."""

    def close(self) -> None:
        """Close what is open."""


class _Partition:
    """The index of one partition: failures are told once, and tried again.

    Args:
        partition: Its number.
        open_: Opens what makes the index; None: there is nothing to index yet.
    """

    def __init__(self, partition: int, open_: Callable[[], _Makes | None]) -> None:
        self._partition = partition
        self._open = open_
        self._indexer: _Makes | None = None
        self._rests = 0
        self._failing = False
        self._lines = structlog.get_logger()

    def turn(self, now_ms: int) -> bool:
        """Do some work; False: there is none now."""
        try:
            if self._indexer is None:
                self._indexer = self._open()
                if self._indexer is None:
                    return False
            elif self._rests and not self._indexer.has_news:
                self._rests -= 1
                return False
            worked = self._indexer.turn(now_ms)
            self._rests = 0 if worked else REST_LOOKS
        except LogError as error:
            if not self._failing:
                self._failing = True
                self._lines.warning(
                    "index-not-written", partition=self._partition, reason=str(error)
                )
            self.close()
            return False
        if self._failing:
            self._failing = False
            self._lines.info("index-written-again", partition=self._partition)
        return worked

    @property
    def behind(self) -> bool:
        """Whether there is more to do at once."""
        return self._indexer is not None and self._indexer.behind

    def verify(self) -> None:
        """Read all files once more, as they are met."""
        if self._indexer is not None:
            self._indexer.forget()
            self._rests = 0

    def close(self) -> None:
        """Close the files; the next turn opens them again."""
        if self._indexer is not None:
            self._indexer.close()
            self._indexer = None


class _Folder:
    """The log of a data directory."""

    def __init__(self, start: IndexStart) -> None:
        paths = DataDir.of(start.data_dir)

        def opened(number: int) -> Callable[[], Indexer | None]:
            def open_() -> Indexer | None:
                if not has_end(paths.log, number):
                    return None  # a new log: its receiver has not opened it yet
                return Indexer(paths.log, number, paths.index(number), age_max_s=start.age_max_s)

            return open_

        self.partitions = [_Partition(number, opened(number)) for number in range(start.partitions)]

    def look(self) -> None:
        """Each partition sees by itself whether it has grown."""


class _KnownEnd(KafkaRecords):
    """A reader that takes the end from one question for all partitions."""

    def __init__(self, place: KafkaPlace, partition: int, ends: Callable[[int], int]) -> None:
        super().__init__(place, partition, MemorySnapshots())
        self._ends = ends

    def durable_end(self) -> int:
        """See ``KafkaRecords``."""
        return self._ends(self.partition)


class _Topic:
    """The log that nodes share. Files of another topic, which had its name, are deleted."""

    def __init__(self, start: IndexStart, place: KafkaPlace) -> None:
        self._start = start
        self._place = place
        self._paths = DataDir.of(start.data_dir)
        self._cluster = KafkaEnds(place)
        self._ends: list[int] = []
        self._rests = 0
        self._identity = ""
        self._failing = False
        self.partitions: list[_Partition] = []

    def look(self) -> None:
        """Ask where partitions end, and now and then how many there are.

        Without an answer what is known stays: nothing beyond it is indexed.
        """
        with self._told():
            if not self._identity:
                self._identity = self._cluster.identity()
                self._sweep()
            if not self._rests:
                known = len(self.partitions)
                more = range(known, self._cluster.count())
                self.partitions += [_Partition(each, self._opened(each)) for each in more]
                self._rests = REST_LOOKS
            self._rests -= 1
            self._ends = self._cluster.read(len(self.partitions))

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        lines = structlog.get_logger()
        try:
            yield
        except LogError as error:
            if not self._failing:
                lines.warning("index-not-written", reason=str(error))
            self._failing = True
        else:
            if self._failing:
                lines.info("index-written-again")
            self._failing = False

    def _sweep(self) -> None:
        """Delete what is not of this topic."""
        with contextlib.suppress(FileNotFoundError):
            for other in self._paths.index_folder.iterdir():
                if other.name != self._identity:
                    shutil.rmtree(other, ignore_errors=True)

    def _opened(self, number: int) -> Callable[[], OffsetIndexer | None]:
        def open_() -> OffsetIndexer | None:
            if len(self._ends) <= number:
                return None
            return OffsetIndexer(
                _KnownEnd(self._place, number, lambda each: self._ends[each]),
                self._paths.topic_index(self._identity, number),
                age_max_s=self._start.age_max_s,
            )

        return open_


def run(start: IndexStart, stopping: threading.Event, place: KafkaPlace | None = None) -> None:
    """Index until *stopping* is set.

    Args:
        start: What to index.
        stopping: Ends it.
        place: Where the log lies that nodes share; None: in the data directory.
    """
    clock = SystemClock()
    log = _Folder(start) if place is None else _Topic(start, place)
    verified_s = clock.monotonic_s()
    while not stopping.is_set():
        log.look()
        worked = [partition.turn(clock.wall_ms()) for partition in log.partitions]
        if clock.monotonic_s() - verified_s >= VERIFY_S:
            verified_s = clock.monotonic_s()
            for partition in log.partitions:
                partition.verify()
        if not any(partition.behind for partition in log.partitions):
            stopping.wait(GATHER_S if any(worked) else LOOK_S)
    for partition in log.partitions:
        partition.close()


def main(arguments: list[str]) -> int:
    """Entry point of the process: one argument, ``IndexStart`` as JSON."""
    end_with_parent(int(os.environ[PARENT]))
    yield_to_all()
    places = take_places(os.environ)
    start = msgspec.json.decode(arguments[0], type=IndexStart)
    configure(start.log_level, role="index")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    signal.signal(signal.SIGINT, lambda _number, _frame: None)  # the parent stops us in its order
    run(start, stopping, None if places is None else places.log)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
