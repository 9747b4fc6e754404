"""The index process: makes the index of event ids, beside the log and behind it.

Started by ``serve`` unless ``event_index`` is off. A process of its own at the lowest priority:
neither receivers nor owners know of it, and a search works without it, only slower.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec
import structlog

from distributary.core.clock import SystemClock
from distributary.core.errors import LogError
from distributary.core.log.folder import has_end
from distributary.core.log.indexer import Indexer
from distributary.datadir import PARENT, DataDir
from distributary.server.processes.base.logging import configure
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
        partitions: Number of partitions of the log.
        age_max_s: Age of events above which they have no index.
        log_level: Least level that is logged.
    """

    data_dir: str
    partitions: int
    age_max_s: float
    log_level: str


class _Partition:
    """The index of one partition: failures are told once, and tried again."""

    def __init__(self, start: IndexStart, partition: int) -> None:
        paths = DataDir.of(start.data_dir)
        self._log_dir: Path = paths.log
        self._folder: Path = paths.index(partition)
        self._partition = partition
        self._age_max_s = start.age_max_s
        self._indexer: Indexer | None = None
        self._rests = 0
        self._failing = False
        self._lines = structlog.get_logger()

    def turn(self, now_ms: int) -> bool:
        """Do some work; False: there is none now."""
        try:
            if self._indexer is None:
                if not has_end(self._log_dir, self._partition):
                    return False  # a new log: its receiver has not opened it yet
                self._indexer = Indexer(
                    self._log_dir, self._partition, self._folder, age_max_s=self._age_max_s
                )
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


def run(start: IndexStart, stopping: threading.Event) -> None:
    """Index until *stopping* is set."""
    clock = SystemClock()
    partitions = [_Partition(start, number) for number in range(start.partitions)]
    verified_s = clock.monotonic_s()
    while not stopping.is_set():
        worked = [partition.turn(clock.wall_ms()) for partition in partitions]
        if clock.monotonic_s() - verified_s >= VERIFY_S:
            verified_s = clock.monotonic_s()
            for partition in partitions:
                partition.verify()
        if not any(partition.behind for partition in partitions):
            stopping.wait(GATHER_S if any(worked) else LOOK_S)
    for partition in partitions:
        partition.close()


def main(arguments: list[str]) -> int:
    """Entry point of the process: one argument, ``IndexStart`` as JSON."""
    end_with_parent(int(os.environ[PARENT]))
    os.nice(19)
    start = msgspec.json.decode(arguments[0], type=IndexStart)
    configure(start.log_level, role="index")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    signal.signal(signal.SIGINT, lambda _number, _frame: None)  # the parent stops us in its order
    run(start, stopping)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
