"""The writer of one partition: appends records durably.

Callers: ``GroupCommitter`` in a thread, and through it route records. Hides: segments,
preallocation, recovery, and what an error leaves possible:

- No space for the next segment: nothing was written; a later append tries again.
- No space in the middle of a write: the next append writes the same place again.
- Any other failed write and every failed sync: this object accepts nothing more, for ever. What the
  kernel reports about the file cannot be trusted; a new appender recovers from the medium.
"""

import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from distributary.core.clock import Clock
from distributary.core.errors import LogUnavailableError
from distributary.core.lease import Lease
from distributary.core.log._end import DurableEnd
from distributary.core.log._recovery import TIME_MIN, Tail, recover
from distributary.core.log._segment import (
    SEGMENT_SUFFIX,
    SNAPSHOT_SUFFIX,
    list_offsets,
    offset_name,
)
from distributary.core.log.damage import Damage
from distributary.core.log.disk import (
    SPACE_ERRNOS,
    SYSTEM_DISK,
    Disk,
    lock,
    unavailable,
    write_all,
)
from distributary.core.log.folder import partition_dir
from distributary.core.log.frame import HEADER_BYTES, encode_commit

SEGMENT_BYTES = 64 * 1024 * 1024
"""Default length of a segment: some minutes of a busy partition, the unit of retention, and a scan
of about 50 ms at start. (Kafka takes 1 GiB, NATS JetStream 8 MiB.)"""

SPARE_NAME = "spare.tmp"
"""The preallocated next segment, before it has a number."""

LOCK_NAME = "lock"

SPARE_RETRY_S = 1.0
"""Between attempts to preallocate on a full disk: allocation may be slow, and the current segment
still has room."""


def fresh_stamp() -> int:
    """Return a stamp for a new partition: unguessable, without zero bytes.

    (A search for a stamp with zeros would stop at every byte of the empty part of a segment.)
    """
    return int.from_bytes(bytes(1 + secrets.randbelow(255) for _ in range(4)), "little")


class Appender:
    """The only writer of a partition; holds its lock. One thread at a time; close it.

    Attributes:
        partition: Its number, from 0.
        damages: Acknowledged records that recovery could not read.
        next_offset: Of the next record; equal to the durable end.
        space_error: Why the next segment could not be allocated, or None. The current one still
            accepts records; stop accepting events early, or free space.
        dead: Why this appender accepts nothing more, or None.
    """

    def __init__(
        self,
        folder: Path,
        partition: int,
        *,
        clock: Clock,
        disk: Disk,
        segment_bytes: int,
        make_stamp: Callable[[], int],
    ) -> None:
        """Use ``open``."""
        self.partition = partition
        self.damages: tuple[Damage, ...] = ()
        self.next_offset = 0
        self.space_error: LogUnavailableError | None = None
        self.dead: LogUnavailableError | None = None
        self._folder = folder
        self._clock = clock
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._make_stamp = make_stamp
        self._lease: Lease | None = None
        self._end: DurableEnd | None = None
        self._handle = -1
        self._first = -1
        self._position = 0
        self._capacity = 0
        self._dirty_to = 0
        self._spare = -1
        self._spare_retry_s = 0.0
        self._stamp = 0
        self._time_ms = TIME_MIN

    @classmethod
    def open(
        cls,
        log_dir: Path,
        partition: int,
        *,
        clock: Clock,
        disk: Disk = SYSTEM_DISK,
        segment_bytes: int = SEGMENT_BYTES,
        min_next_offset: int = 0,
        make_stamp: Callable[[], int] = fresh_stamp,
    ) -> "Appender":
        """Lock a partition, recover it, and publish its durable end.

        Whole valid records of a torn write are kept (they were never acknowledged, so they may
        appear or not); they are synced before the durable end covers them.

        Args:
            log_dir: ``{data}/log``, made by ``open_folder``.
            partition: Number of the partition.
            clock: Stamps the records; a record is never older than the one before it.
            disk: The disk.
            segment_bytes: Length of new segments. No commit is longer.
            min_next_offset: Offsets below it are in use, by a cursor for instance. If the medium
                has lost acknowledged records, their offsets are skipped, never used again; readers
                report the gap as damage.
            make_stamp: Draws the stamp of a new partition.

        Raises:
            LogLockedError: Another process appends to the partition.
            LogUnavailableError: The folder is missing, read-only or broken; the message has the
                cure. On a full disk opening works and appending does not.
        """
        folder = partition_dir(log_dir, partition)
        appender = cls(
            folder,
            partition,
            clock=clock,
            disk=disk,
            segment_bytes=segment_bytes,
            make_stamp=make_stamp,
        )
        try:
            appender._lease = lock(folder / LOCK_NAME, disk)
            appender._end = DurableEnd(disk, folder, write=True)
            appender._recover(min_next_offset)
        except OSError as error:
            appender.close()
            raise unavailable(error, folder, "recover") from error
        except BaseException:  # release lock and files; the error propagates unchanged
            appender.close()
            raise
        return appender

    def append(self, entries: Sequence[tuple[int, bytes]]) -> int:
        """Append records durably; blocks for one write and one sync.

        More than a segment holds is split into several commits: an error may then leave a prefix
        appended.

        Args:
            entries: (kind, body) of each; a body is at most ``BODY_BYTES_MAX`` long, and fits a
                segment.

        Returns:
            Offset of the first; the others follow it without gaps.

        Raises:
            LogUnavailableError: Nothing was promised. ``dead`` is None if trying again may help.
        """
        first = self.next_offset
        size = HEADER_BYTES * len(entries) + sum([len(body) for _, body in entries])
        if size <= self._segment_bytes:
            if entries:
                self._commit(entries)
            return first
        start = size = 0
        for index, (_, body) in enumerate(entries):
            size += HEADER_BYTES + len(body)
            if size > self._segment_bytes and index > start:
                self._commit(entries[start:index])
                start, size = index, HEADER_BYTES + len(body)
        self._commit(entries[start:])
        return first

    def prepare(self) -> None:
        """Allocate the next segment if that is due. Call it between commits, if there is time.

        So a full disk shows in ``space_error`` while the current segment still has room, and no
        commit waits for the allocation. Never raises: ``append`` does, once it must.
        """
        if self.dead is not None or self._spare >= 0 or self._position * 2 < self._capacity:
            return
        if self.space_error is not None and self._clock.monotonic_s() < self._spare_retry_s:
            return
        try:
            self._allocate_spare()
        except OSError as error:
            self._note_space(error)

    def close(self) -> None:
        """Release the partition. Closing twice is harmless."""
        if self.dead is None:
            self.dead = LogUnavailableError(f"the log in {self._folder} is closed")
        for handle in (self._handle, self._spare):
            if handle >= 0:
                self._disk.close(handle)
        self._handle = self._spare = -1
        if self._end is not None:
            self._end.close()
            self._end = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _recover(self, min_next_offset: int) -> None:
        disk, folder = self._disk, self._folder
        assert self._end is not None
        hint = self._end.hint()
        names = disk.listdir(folder)
        if SPARE_NAME in names:
            disk.unlink(folder / SPARE_NAME)
        firsts = list_offsets(disk, folder)
        if firsts:
            tail = recover(
                disk,
                folder,
                partition=self.partition,
                firsts=firsts,
                hint=hint,
                segment_bytes=self._segment_bytes,
            )
            self._adopt(tail, firsts[-1])
        disk.fsync_dir(folder)
        cuts = list_offsets(disk, folder, SNAPSHOT_SUFFIX)
        wanted = max(hint, min_next_offset, self.next_offset, *cuts)
        if not firsts or wanted > self.next_offset:
            self._leap(wanted, known=bool(firsts))
        self._stamp = self._stamp or self._make_stamp()
        self._end.publish(self.next_offset)

    def _adopt(self, tail: Tail, first: int) -> None:
        self._handle, self._first = tail.handle, first
        self._position, self._capacity = tail.position, tail.capacity
        self.next_offset, self._time_ms = tail.next_offset, tail.time_ms
        self._stamp, self.damages = tail.stamp, tail.damages

    def _leap(self, wanted: int, *, known: bool) -> None:
        """Begin a segment at *wanted*, so that no lost offset is reused."""
        if known:
            name, position = offset_name(self._first, SEGMENT_SUFFIX), self._position
            lost = Damage(self.partition, self.next_offset, wanted, name, position, None)
            self.damages = (*self.damages, lost)
        self.next_offset = wanted
        self._position = self._capacity = 0
        try:
            self._roll()
        except LogUnavailableError:
            if self.space_error is None:
                raise
            # The disk is full: opening works, and the first append retries this.

    def _commit(self, entries: Sequence[tuple[int, bytes]]) -> None:
        if self.dead is not None:
            raise LogUnavailableError(str(self.dead))
        assert self._end is not None
        time_ms = max(self._clock.wall_ms(), self._time_ms)
        frames = encode_commit(entries, self.next_offset, time_ms, self._stamp)
        size = len(frames)
        assert size <= self._segment_bytes, "a record is longer than a segment"
        if self._position + size > self._capacity:
            self._roll()
        stop = self._position + size
        if self._dirty_to > stop:
            frames += bytes(self._dirty_to - stop)
        self._write(frames)
        self._time_ms = time_ms
        self._position = stop
        self.next_offset += len(entries)
        self._end.publish(self.next_offset)

    def _write(self, frames: bytes) -> None:
        try:
            write_all(self._disk, self._handle, frames, self._position)
        except OSError as error:
            # A part of it may have been written: the next write covers all of it.
            self._dirty_to = self._position + len(frames)
            failed = unavailable(error, self._folder, "write to")
            if error.errno not in SPACE_ERRNOS:
                self._die(failed)
            raise failed from error
        try:
            self._disk.fdatasync(self._handle)
        except OSError as error:
            failed = unavailable(error, self._folder, "sync")
            self._die(failed)
            raise failed from error
        self._dirty_to = 0

    def _roll(self) -> None:
        """Begin the segment of ``next_offset``, so that appends have room."""
        if self._first == self.next_offset:
            self._extend()
            return
        if self._spare < 0:
            try:
                self._allocate_spare()
            except OSError as error:
                raise self._note_space(error) from error
        target = self._folder / offset_name(self.next_offset, SEGMENT_SUFFIX)
        try:
            self._disk.rename(self._folder / SPARE_NAME, target)
            self._disk.fsync_dir(self._folder)
        except OSError as error:
            # The name may or may not be on the medium, so no record may depend on it.
            failed = unavailable(error, target, "begin")
            self._die(failed)
            raise failed from error
        previous, self._handle, self._spare = self._handle, self._spare, -1
        self._first = self.next_offset
        self._position = self._dirty_to = 0
        self._capacity = self._segment_bytes
        if previous >= 0:
            self._disk.close(previous)

    def _extend(self) -> None:
        """Allocate the current, empty segment, where recovery found the disk full."""
        try:
            self._disk.fallocate(self._handle, self._segment_bytes)
        except OSError as error:
            raise self._note_space(error) from error
        self._capacity = self._segment_bytes
        self.space_error = None

    def _allocate_spare(self) -> None:
        path = self._folder / SPARE_NAME
        with contextlib.suppress(FileNotFoundError):
            # Left by a failed attempt: a file whose sync failed is never synced again.
            self._disk.unlink(path)
        handle = self._disk.open(path, write=True, create=True)
        try:
            self._disk.fallocate(handle, self._segment_bytes)
            self._disk.fdatasync(handle)
        except OSError:
            self._disk.close(handle)
            with contextlib.suppress(OSError):  # the first error is more useful; retried above
                self._disk.unlink(path)
            raise
        self._spare = handle
        self.space_error = None

    def _note_space(self, error: OSError) -> LogUnavailableError:
        self._spare_retry_s = self._clock.monotonic_s() + SPARE_RETRY_S
        self.space_error = unavailable(error, self._folder, "begin a segment in")
        return self.space_error

    def _die(self, why: LogUnavailableError) -> None:
        self.dead = why
