"""Reads records that only the archive has any more, beside those of the log.

Replays, subscriptions that begin in the past, and retries of their events read through
``KeptRecords``. Where the log begins later, ``Recalls`` asks for the stretch of the archive that
has the record (``recall_requests``); the job that recalls brings it as a file of this partition's
folder, and it is read from there like a segment. Nobody waits meanwhile: what reads it looks again.

The files are a bounded cache. What is lost of it is asked for again.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import LogDamagedError, LogUnavailableError
from distributary.core.flow import Logged
from distributary.core.log import iter_frames
from distributary.core.log.recalled import Recalled, list_recalled
from distributary.datadir.archived import ArchivedStretch
from distributary.partitions.ports import Records
from distributary.partitions.recall_requests import Requests

RECALLED_BYTES_MAX: Final = 512 * 1024 * 1024
"""Most bytes of recalled files of a partition, above which the one that was used least lately goes:
eight segments, so that some runs at different places do not take turns."""
ASKED_S: Final = 20.0
"""How long a request stands that nobody repeats: a reader that waits repeats it at each tick."""
REPEATED_S: Final = 5.0
"""How long a request has its turn that nobody repeats: then its reader may have ended."""
UNUSED_S: Final = 120.0
"""How long a file stays that nobody reads."""
AHEAD: Final = 1
"""Stretches that are asked for beside the one that is read: it is there when the first one ends."""
LOOK_S: Final = 0.25
"""Interval of looks for new files, and at what is archived where that is a file."""
ASKS_MAX: Final = 64
"""Most stretches asked for at a time: readers at more places take turns."""


class Kept(Protocol):
    """Reads what there is of one partition: in the log, else in the archive."""

    def readable_to(self, from_offset: int, to_offset: int) -> int:
        """Returns up to where the records from *from_offset* on can be read now.

        Returns *from_offset* itself where they are on their way from the archive. Records that
        nobody has any more count as readable: there is nothing to wait for.
        """

    def archived_to(self) -> int:
        """Returns the offset below which records are in the archive alone; 0: there is none."""

    def before(self, time_ms: int) -> int:
        """Returns an offset below which no record was appended at *time_ms* or later."""

    def after(self, time_ms: int) -> int:
        """Returns an offset from which on no record was appended before *time_ms*."""

    def oldest_ms(self) -> int | None:
        """Returns when the oldest record was appended; None: there is none."""

    def start(self) -> int:
        """Returns the offset of the oldest record."""

    def durable_end(self) -> int:
        """Returns the offset after the last durable record."""

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields the records that can be read now, in order."""

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """See ``Records.read_chunk``; ``(b"", from_offset)`` too while they are on their way."""

    def lost(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """Returns where events are missing of what can be read of ``from_offset`` to ``to_offset``.

        Each as its first record and the one after its last, in order: the archive ought to have
        them, or neither it nor the log has. What is missing before the oldest record is not in it,
        and holes of the log are not: there every offset has a record, so who reads sees them.
        """

    def close(self) -> None:
        """Close the files."""


class _Asked(NamedTuple):
    """When a stretch was asked for.

    Attributes:
        first_s: At first, monotonic clock.
        last_s: Lately.
    """

    first_s: float
    last_s: float


class Recalls:
    """What of a partition is recalled, and what is asked for. Safe from any thread.

    Args:
        folder: Folder of the partition's recalled files.
        requests: Takes what is asked for; closed by ``close``.
        stretches: Returns what the archive has, in order; may block, and is called where records
            are read.
        clock: Monotonic.
        bytes_max: See ``RECALLED_BYTES_MAX``.
        look_s: Interval of looks at what is archived. Whatever it is, what retention has deleted is
            looked for anew.
    """

    def __init__(
        self,
        folder: Path,
        requests: Requests,
        stretches: Callable[[], list[ArchivedStretch]],
        clock: Clock,
        *,
        bytes_max: int = RECALLED_BYTES_MAX,
        look_s: float = LOOK_S,
    ) -> None:
        self._folder = folder
        self._requests = requests
        self._look_up = stretches
        self._clock = clock
        self._bytes_max = bytes_max
        self._look_s = look_s
        self._looking = threading.Lock()  # apart: a tick waits for no look-up
        self._looked_up_s = float("-inf")
        self._log_start = 0
        self._stretches: list[ArchivedStretch] = []
        self._lock = threading.Lock()
        self._files: dict[int, Recalled] = {}
        self._used_s: dict[int, float] = {}
        self._asked: dict[tuple[int, int], _Asked] = {}
        self._told: list[tuple[int, int]] | None = None
        self._looked_s = float("-inf")

    def stretches(self) -> list[ArchivedStretch]:
        """What the archive has, in order.

        Raises:
            StoreError: It cannot be asked now.
        """
        with self._looking:
            now_s = self._clock.monotonic_s()
            if now_s - self._looked_up_s >= self._look_s:
                self._stretches = self._look_up()
                self._looked_up_s = now_s
            return self._stretches

    def begins(self, log_start: int) -> None:
        """Note that the log begins at *log_start*: what is before is archived by now.

        Whoever knows older stretches would take records for lost that were archived, and deleted
        of the log, since.
        """
        if log_start > self._log_start:
            with self._looking:
                self._log_start = log_start
                self._looked_up_s = float("-inf")

    def stretch_at(self, offset: int) -> ArchivedStretch | None:
        """The stretch with the record *offset*, else the next one; None: all end before it."""
        return next((each for each in self.stretches() if offset < each.to_offset), None)

    def find(self, offset: int) -> Recalled | None:
        """Returns the file with the record *offset*; None: it is not there, and is asked for."""
        ahead = [each for each in self.stretches() if offset < each.to_offset][: 1 + AHEAD]
        with self._lock:
            now_s = self._look()
            found = next((each for each in self._files.values() if _has(each, offset)), None)
            if found is not None:
                self._used_s[found.name.from_offset] = now_s
            for each in ahead:
                if each.from_offset not in self._files:
                    span = each.from_offset, each.to_offset
                    first_s = self._asked[span].first_s if span in self._asked else now_s
                    self._asked[span] = _Asked(first_s, now_s)
            self._tell(now_s)
            return found

    def forget(self, file: Recalled) -> None:
        """Delete a damaged *file*: it is recalled again."""
        with self._lock:
            self._drop(file)

    def tick(self) -> None:
        """Delete files that nobody reads, and withdraw requests that nobody repeats."""
        with self._lock:
            if not self._files and not self._asked and self._told == []:
                return  # At first what an owner before has asked for is withdrawn.
            now_s = self._look()
            self._tell(now_s)
            self._evict(now_s)

    def close(self) -> None:
        """Ask for nothing any more."""
        self._requests.close()

    def _look(self) -> float:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < LOOK_S:
            return now_s
        self._looked_s = now_s
        for name in list_recalled(self._folder):
            if name.from_offset not in self._files:
                try:
                    self._files[name.from_offset] = Recalled(self._folder, name)
                    self._used_s[name.from_offset] = now_s
                except (OSError, LogDamagedError):  # cut by a power failure
                    with contextlib.suppress(OSError):
                        name.path(self._folder).unlink(missing_ok=True)
        return now_s

    def _tell(self, now_s: float) -> None:
        self._asked = {
            span: asked
            for span, asked in self._asked.items()
            if now_s - asked.last_s < ASKED_S and span[0] not in self._files
        }

        def turn(span: tuple[int, int]) -> tuple[bool, float, tuple[int, int]]:
            # Who has waited longest: however many ask for others, each gets its turn. Of two that
            # are asked for together the lower one is read first.
            asked = self._asked[span]
            return now_s - asked.last_s >= REPEATED_S, asked.first_s, span

        wanted = sorted(self._asked, key=turn)[:ASKS_MAX]
        if wanted == self._told:
            return
        with contextlib.suppress(OSError):  # the next call tries again
            self._requests.put(wanted)
            self._told = wanted

    def _evict(self, now_s: float) -> None:
        for first, file in list(self._files.items()):
            if now_s - self._used_s[first] > UNUSED_S:
                self._drop(file)
        by_use = sorted(self._files.values(), key=lambda each: self._used_s[each.name.from_offset])
        size = sum(each.bytes for each in by_use)
        for file in by_use[:-1]:
            if size <= self._bytes_max:
                break
            size -= file.bytes
            self._drop(file)

    def _drop(self, file: Recalled) -> None:
        first = file.name.from_offset
        if self._files.pop(first, None) is not None:
            del self._used_s[first]
            with contextlib.suppress(OSError):
                file.name.path(self._folder).unlink(missing_ok=True)


def _begins_at(chunk: bytes, offset: int) -> bool:
    """Whether the first frame of *chunk* is that of the record *offset*."""
    first = next(iter_frames(chunk, verify=False), None)
    return first is not None and first.offset == offset


def _has(file: Recalled, offset: int) -> bool:
    return file.name.from_offset <= offset < file.name.to_offset


class LogAlone:
    """``Kept`` where there is no archive.

    Args:
        log: Reads the partition.
    """

    def __init__(self, log: Records) -> None:
        self._log = log
        self.start = log.start
        self.durable_end = log.durable_end
        self.before = self.after = log.offset_at
        self.read = log.read
        self.read_chunk = log.read_chunk

    def close(self) -> None:
        """See ``Kept``."""
        self._log.close()

    def readable_to(self, _from_offset: int, to_offset: int) -> int:
        """See ``Kept``."""
        return to_offset

    def archived_to(self) -> int:
        """See ``Kept``."""
        return 0

    def lost(self, _from_offset: int, _to_offset: int) -> list[tuple[int, int]]:
        """See ``Kept``: there is no archive."""
        return []

    def oldest_ms(self) -> int | None:
        """See ``Kept``."""
        start = self._log.start()
        oldest = next(iter(self._log.read(start, start + 1)), None)
        return None if oldest is None else oldest.time_ms


class KeptRecords:
    """``Kept`` where the log is archived.

    Args:
        log: Reads the log.
        recalls: What of the archive is there.
    """

    def __init__(self, log: Records, recalls: Recalls) -> None:
        self._log = log
        self._recalls = recalls
        self._alone = LogAlone(log)
        self._begins = 0  # of the log: it only grows, so what is above was there a moment ago
        self._found: Recalled | None = None  # what ``readable_to`` found is there for ``read``
        self.durable_end = log.durable_end
        self.close = log.close

    def start(self) -> int:
        """See ``Kept``."""
        log = self.archived_to()
        first = self._recalls.stretch_at(0)
        return log if first is None else min(first.from_offset, log)

    def archived_to(self) -> int:
        """See ``Kept``: the beginning of the log."""
        self._begins = max(self._begins, self._log.start())
        self._recalls.begins(self._begins)
        return self._begins

    def readable_to(self, from_offset: int, to_offset: int) -> int:
        """See ``Kept``."""
        self._found, end = self._span(from_offset, to_offset)
        return end

    def _span(self, at: int, to_offset: int) -> tuple[Recalled | None, int]:
        """The file with the record *at*, and up to where it, the log, or a gap goes.

        A file counts as long as it is there, whatever the archive has by now. Together, so that
        what is read is what was found: a file may go, and stretches may change, at any time.
        """
        log = self.archived_to()
        if at >= log:
            return None, to_offset
        file = self._recalls.find(at)
        if file is None and self._found is not None and _has(self._found, at):
            file = self._found
        if file is not None:
            # Where the log has a record too it is read there: a row compares its checksum.
            return file, min(file.name.to_offset, log, to_offset)
        stretch = self._recalls.stretch_at(at)
        if stretch is None:
            return None, min(log, to_offset)
        if at < stretch.from_offset:
            return None, min(stretch.from_offset, log, to_offset)
        return None, at

    def before(self, time_ms: int) -> int:
        """See ``Kept``: the beginning of a stretch, where the archive has it.

        Though the log begins earlier, a stretch may have it: a clock may have been behind.
        """
        log, start = self._log.offset_at(time_ms), self.archived_to()
        for each in self._recalls.stretches():
            if each.from_offset < start and each.to_ms >= time_ms:
                return each.from_offset
        return log

    def after(self, time_ms: int) -> int:
        """See ``Kept``: the end of a stretch, likewise."""
        log, start = self._log.offset_at(time_ms), self.archived_to()
        if log > start:
            return log
        there = [each for each in self._recalls.stretches() if each.from_offset < start]
        for each in reversed(there):
            if each.from_ms and each.from_ms < time_ms:
                # Retention may have cut the log inside the stretch: what the log has is as late.
                return min(each.to_offset, start)
        return there[0].from_offset if there else log

    def oldest_ms(self) -> int | None:
        """See ``Kept``."""
        start = self.archived_to()
        for each in self._recalls.stretches():
            if each.from_offset < start and each.from_ms:
                return each.from_ms
        return self._alone.oldest_ms()

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """See ``Kept``.

        Raises:
            LogUnavailableError: Files cannot be read.
        """
        at = from_offset
        while at < to_offset and at < self.archived_to():
            file, end = self._span(at, to_offset)
            if end == at:
                return
            if file is not None:
                yield from self._of(file, at, end)
            at = end
        if at < to_offset:
            yield from self._log.read(at, to_offset)

    def lost(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """See ``Kept``."""
        end = min(to_offset, self.archived_to())
        at = max(from_offset, self.start())
        found: list[tuple[int, int]] = []
        while at < end:
            file, after = self._span(at, end)
            if file is not None:
                found += file.lost(at, after)
            elif after > at:
                found.append((at, after))
            else:  # on its way
                stretch = self._recalls.stretch_at(at)
                after = end if stretch is None else min(stretch.to_offset, end)
            at = after
        return found

    def _of(self, file: Recalled, at: int, end: int) -> Iterator[Logged]:
        try:
            yield from file.read(at, end)
        except (OSError, LogDamagedError) as error:
            self._recalls.forget(file)
            self._found = None
            raise LogUnavailableError(str(error)) from error

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """See ``Kept``.

        Raises:
            LogUnavailableError: Files cannot be read.
        """
        if from_offset >= self._begins:
            chunk, after = self._log.read_chunk(from_offset, bytes_max)
            # What begins later may have been deleted meanwhile, and be archived.
            if _begins_at(chunk, from_offset) or from_offset >= self.archived_to():
                return chunk, after
        stretch = self._recalls.stretch_at(from_offset)
        if stretch is None:
            return self._log.read_chunk(from_offset, bytes_max)
        if from_offset < stretch.from_offset:
            return b"", min(stretch.from_offset, self._begins)
        file = self._recalls.find(from_offset)
        if file is None:
            return b"", from_offset
        try:
            return file.read_chunk(from_offset, bytes_max, self._begins)
        except (OSError, LogDamagedError):
            self._recalls.forget(file)
            return b"", from_offset
