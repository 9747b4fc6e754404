"""The process that recalls archived records while owners ask for them, at a low priority.

``serve``, or the node that leads, starts it at the first request. It ends when nobody has asked for
a minute, so a server whose replays stay within its log never has it. Owners on other machines get
the files by a topic of the cluster that has their log.
"""

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from distributary.core.cluster import SharedPlaces, take_places
from distributary.core.errors import DistributaryError, LogUnavailableError
from distributary.core.files import write_atomically
from distributary.core.log import read_folder
from distributary.core.log.recalled import HIDDEN, RecalledName, list_recalled
from distributary.datadir import DataDir
from distributary.partitions.recall_requests import read_requests
from distributary.server.processes.pipeline.archive_job import alone, is_path
from distributary.server.processes.pipeline.job_process import JobStart, run_job
from distributary.server.processes.pipeline_process import take_spark_conf
from distributary.spark import find_java, java_environment, usable_class_archive

if TYPE_CHECKING:
    from distributary.spark.archive.recall import Brought, Needed

IDLE_S: Final = 60.0
"""How long the process, with its JVM, waits for another request."""
LOOK_S: Final = 0.1
"""Interval of looks at the requests."""
SENT_AGAIN_S: Final = 30.0
"""How long an owner has to put together what was sent to it: a stretch of 64 MiB takes some
seconds where it competes with deliveries."""
MASTER: Final = "local[1]"
"""One core: a second task would compete with the owners. Python takes 8 us of it an event."""
NICENESS: Final = 5
"""Priority below that of owners, by so much that it gets a fourth of a core that one of them keeps
busy. With 10 it got a tenth, less than a replay needs: owners waited for it, and a core idled."""


class Files:
    """Brings to owners on this machine: they read the files where they are written.

    Args:
        paths: Paths of the data directory.
        partitions: How many the log has.
    """

    def __init__(self, paths: DataDir, partitions: int) -> None:
        self._paths = paths
        self._numbers = range(partitions)

    def wanted(self) -> list[tuple[int, int]]:
        """Returns partition and record of each stretch that is asked for and not there yet."""
        return _in_turn([self._of(number) for number in self._numbers])

    def _of(self, number: int) -> list[tuple[int, int]]:
        there = list_recalled(self._paths.recalled(number))
        return [
            (number, offset)
            for offset, _ in read_requests(self._paths.recall_requests(number))
            if not any(each.from_offset <= offset < each.to_offset for each in there)
        ]

    def brought(self) -> None:
        """Some files are there."""


class Sends(Protocol):
    """``RecalledSender.send``."""

    def __call__(self, partition: int, folder: Path, name: RecalledName, /) -> None:
        """Send a file."""


class Sent:
    """Brings to owners on other machines: sends the files, and deletes them here.

    A stretch that is asked for still after ``SENT_AGAIN_S`` has not come, or not as a whole, and is
    sent again; so is one that is asked for anew.

    Args:
        paths: Paths of the data directory of this node.
        partitions: How many the log has.
        send: Sends a file of a partition.
        now_s: Monotonic clock.
    """

    def __init__(
        self, paths: DataDir, partitions: int, send: Sends, now_s: Callable[[], float]
    ) -> None:
        self._paths = paths
        self._numbers = range(partitions)
        self._send = send
        self._now_s = now_s
        self._sent_s: dict[tuple[int, int], float] = {}

    def wanted(self) -> list[tuple[int, int]]:
        """As ``Files.wanted``, for what was not sent a moment ago."""
        asked = [
            [(number, offset) for offset, _ in read_requests(self._paths.recall_requests(number))]
            for number in self._numbers
        ]
        since_s = self._now_s() - SENT_AGAIN_S
        still = set(itertools.chain(*asked))
        self._sent_s = {
            each: at_s for each, at_s in self._sent_s.items() if each in still and at_s > since_s
        }
        return [each for each in _in_turn(asked) if each not in self._sent_s]

    def brought(self) -> None:
        """Send the files that are there.

        Raises:
            LogUnavailableError: The cluster does not take them.
            OSError: One cannot be read.
        """
        for number in self._numbers:
            folder = self._paths.recalled(number)
            for name in list_recalled(folder):
                self._send(number, folder, name)
                name.path(folder).unlink()
                self._sent_s[number, name.from_offset] = self._now_s()


def _in_turn(by_partition: Sequence[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """The most urgent one of each partition, then the next ones."""
    longest = max(map(len, by_partition), default=0)
    return [each[turn] for turn in range(longest) for each in by_partition if turn < len(each)]


def serve(
    wanted: Callable[[], "list[Needed]"],
    recall: "Callable[[list[Needed]], Brought]",
    log: Any,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Recall what is wanted until nobody has wanted anything for ``IDLE_S``."""
    last_s = now_s()
    while now_s() - last_s < IDLE_S:
        asked = wanted()
        if not asked:
            sleep(LOOK_S)
            continue
        brought = recall(asked)
        last_s = now_s()
        if not brought.stretches:
            sleep(LOOK_S)  # Nobody has them: the owners see that too, once they look again.
        else:
            log.info("recalled", segments=brought.stretches, events=brought.events)
        if brought.damaged or brought.missing:
            log.warning(
                "recalled-incomplete", damaged=brought.damaged, missing=list(brought.missing)[:10]
            )


def run(start: JobStart, log: Any) -> None:
    """Recall until nobody asks; a failure is noted for those who wait.

    Raises:
        DistributaryError: Spark does not start, the archive cannot be read, or a folder not be
            written.
    """
    paths = DataDir(Path(start.data_dir))
    places = take_places(os.environ)  # so that neither Java nor Python's workers inherit them
    try:
        _run(paths, start, places, log)
    except DistributaryError as error:
        _note(paths, str(error))
        raise
    except OSError as error:
        _note(paths, str(error))
        raise LogUnavailableError(f"cannot recall: {error}") from error


def _note(paths: DataDir, reason: str) -> None:
    with contextlib.suppress(OSError):  # a disk that is full: the log says it
        write_atomically(paths.recall_failed, reason.encode(), mode=0o600)


def _run(paths: DataDir, start: JobStart, places: SharedPlaces | None, log: Any) -> None:
    java = find_java(os.environ, chosen=Path(start.java_home) if start.java_home else None)
    with contextlib.ExitStack() as opened:
        opened.enter_context(alone(paths.recall_lock, paths.recall_scratch))
        to_owners = opened.enter_context(_to_owners(paths, start, places))
        os.environ.update(java_environment(java, paths.recall_scratch / "java"))
        # Imported here: it imports pyspark, which needs to know its Java.
        from distributary.spark.archive.logs import FolderLog, TopicLog  # noqa: PLC0415 - see above
        from distributary.spark.archive.recall import Needed, Recaller  # noqa: PLC0415 - see above
        from distributary.spark.archive.session import started  # noqa: PLC0415 - see above

        session = started(
            paths.recall_scratch,
            MASTER,
            take_spark_conf(),
            classes=usable_class_archive(java),
            short=is_path(start.to),  # Spark reads nothing of it: see ``Recaller``.
        )
        log_read = FolderLog(paths) if places is None else TopicLog(places.log, 0)
        recaller = Recaller(opened.enter_context(session), start.to, log_read.logs())

        def recall(asked: list[Needed]) -> "Brought":
            brought = recaller.recall(asked)
            to_owners.brought()
            paths.recall_failed.unlink(missing_ok=True)
            return brought

        serve(
            lambda: [
                Needed(number, offset, paths.recalled(number))
                for number, offset in to_owners.wanted()
            ],
            recall,
            log,
        )


@contextlib.contextmanager
def _to_owners(
    paths: DataDir, start: JobStart, places: SharedPlaces | None
) -> Iterator[Files | Sent]:
    """The way to the owners; deletes what a killed process has left half done."""
    if places is None:
        partitions = read_folder(paths.log)
        _sweep(paths, partitions, f"*{HIDDEN}")
        yield Files(paths, partitions)
        return
    # The client of Kafka is loaded where there is one.
    from distributary.core.log.kafka.recalled_topic import (  # noqa: PLC0415 - see above
        RecalledSender,
        prepare_recalled_topic,
    )

    _sweep(paths, start.partitions, "*")
    prepare_recalled_topic(places.log, start.partitions)
    with contextlib.closing(RecalledSender(places.log)) as sender:
        yield Sent(paths, start.partitions, sender.send, time.monotonic)


def _sweep(paths: DataDir, partitions: int, pattern: str) -> None:
    for number in range(partitions):
        for path in paths.recalled(number).glob(pattern):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(run_job("recall", NICENESS, sys.argv[1], run))
