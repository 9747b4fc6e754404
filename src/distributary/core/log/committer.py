"""Group commit: all records that arrive during one sync share the next one.

Callers: ``server`` passes ``submit`` to ingest and to the resource store. Hides: who waits for the
disk. A request costs no future and no task, only a callback, and a whole group one wake-up of the
event loop. An idle committer adds no delay: a lone record is written at once.

While the disk is fast (a sync takes 0.1 to 0.3 ms) the loop itself commits, once an iteration: to
hand a group to a thread and back costs more, since each of its system calls has to win the GIL from
a busy loop (measured: 8,000 requests a second with the thread, 20,000 without). When the disk
becomes slow, a thread waits for it instead of the loop.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import LogError, LogUnavailableError, RecordTooLargeError
from distributary.core.log.frame import BODY_BYTES_MAX

QUEUE_BYTES_MAX = 256 * 1024 * 1024
"""Bodies that may wait, bytes: twice what all receivers of a server admit, who refuse a tenant that
has its share. So no queue is full of the events of one; this bounds what nobody counts any more,
as the events that a lost receiver had passed on."""

QUEUE_COUNT_MAX = 262_144
"""Bodies that may wait, of any size: receivers count a kilobyte more for each."""

COMMIT_BYTES_MAX = 4 * 1024 * 1024
"""Bodies in one commit, bytes: some 20 ms of disk. More would not save enough syncs."""

COMMIT_COUNT_MAX = 4096
"""Records in one commit: some 4 ms of encoding, which holds up the event loop."""

INLINE_S_MAX = 0.01
"""A commit by the loop that took longer is slow: a usual one takes a tenth of it."""

INLINE_SLOW_MAX = 3
"""After this many slow commits in a row the thread takes over; one hiccup is no trend."""

INLINE_HOPELESS_S = 0.1
"""After one commit this long the thread takes over at once: others would notice the next."""

INLINE_AGAIN_COUNT = 32
"""After this many fast commits of the thread in a row the loop commits again."""

Done = Callable[[int | LogError], None]
"""Called once, in the event loop, with the durable record's offset, or why it was not appended."""

Published = Callable[[int, Sequence[str]], None]
"""Called in the event loop with the offset of the first record of a commit, and who published it
and those that follow it; empty: nobody is known."""

_Entry = tuple[int, bytes, Done, str]


class Appends(Protocol):
    """What a committer needs of an appender."""

    def append(self, entries: Sequence[tuple[int, bytes]]) -> int:
        """Append durably; return the offset of the first record."""

    def prepare(self) -> None:
        """Do ahead of time what a later append would have to wait for."""


class CommitStats(NamedTuple):
    """Totals of a committer since it was made.

    Attributes:
        record_count: Records appended.
        body_bytes: Their bodies, bytes.
        commit_count: Syncs that they shared.
        failure_count: Records that the log rejected.
        last_commit_s: How long the newest commit took, encoding and sync, seconds.
    """

    record_count: int
    body_bytes: int
    commit_count: int
    failure_count: int
    last_commit_s: float


class GroupCommitter:
    """Appends from an event loop without blocking it. Use it in the loop's thread; close it."""

    def __init__(
        self,
        appender: Appends,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        queue_count_max: int = QUEUE_COUNT_MAX,
        inline: bool = False,
        on_inline: Callable[[bool], None] = lambda _under_way: None,
        on_durable: Callable[[], None] = lambda: None,
        on_published: Published | None = None,
    ) -> None:
        """Start the thread.

        Args:
            appender: From now on used by that thread alone.
            loop: Where ``submit`` is called, and called back.
            clock: Measures the commits.
            queue_bytes_max: Bodies that may wait, bytes.
            queue_count_max: Bodies that may wait.
            inline: Let the loop commit while the disk is fast.
            on_inline: Called with True before the loop commits, and with False after: between the
                two the loop waits for the disk.
            on_durable: Called after each commit, by whoever commits: readers may read on.
            on_published: Notes who published what.
        """
        self._appender = appender
        self._loop = loop
        self._clock = clock
        self._queue_bytes_max = queue_bytes_max
        self._queue_count_max = queue_count_max
        self._waiting: deque[_Entry] = deque()
        self._pending_bytes = 0
        self._pending_count = 0
        self._sleeping = False
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._inline: list[_Entry] = []
        self._in_turn = False
        self._quick = inline
        self._adaptive = inline
        self._on_inline = on_inline
        self._on_durable = on_durable
        self._on_published = on_published
        self._streak = 0
        self._closing = False
        self._broken: LogUnavailableError | None = None
        self._drained = asyncio.Event()
        self._record_count = self._body_bytes = self._commit_count = self._failure_count = 0
        self._last_commit_s = 0.0
        self._thread = threading.Thread(target=self._run, name="log-commit", daemon=True)
        self._thread.start()

    def submit(self, kind: int, body: bytes, done: Done, by: str = "") -> None:
        """Append a record, published by *by*.

        Calls *done* later, in the loop, when it is durable or rejected.

        Raises:
            LogUnavailableError: The queue is full or the committer closed; *done* is not called.
            RecordTooLargeError: No record holds *body*; *done* is not called.
        """
        if self._closing:
            raise LogUnavailableError("the log is closing")
        if len(body) > BODY_BYTES_MAX:
            # Rejected here, so that it does not fail the others of its commit.
            raise RecordTooLargeError(
                f"a record of {len(body)} bytes: the log takes {BODY_BYTES_MAX} at most"
            )
        if (
            self._pending_bytes >= self._queue_bytes_max
            or self._pending_count >= self._queue_count_max
        ):
            raise LogUnavailableError("too many events wait for the disk; try again later")
        self._pending_bytes += len(body)
        self._pending_count += 1
        if self._in_turn or self._inline or (self._quick and self._thread_rests()):
            if not self._inline:
                self._loop.call_soon(self._commit_inline)
            self._inline.append((kind, body, done, by))
            return
        self._waiting.append((kind, body, done, by))
        # The thread sets ``_sleeping`` before its last look at the queue: either it sees this
        # entry, or we see it sleeping. A surplus token costs it one empty round.
        if self._sleeping:
            self._sleeping = False
            self._wake.put(None)

    def _thread_rests(self) -> bool:
        """True if the thread holds nothing and stays asleep unless it is woken.

        Called with the new entry counted. The thread uses the appender only between taking a group
        and sleeping again, and a group is pending until the loop has finished it.
        """
        return self._sleeping and not self._waiting and self._pending_count == 1

    def _commit_inline(self) -> None:
        """Append in the loop what this iteration brought, and call everybody back.

        A callback may submit again at once. That waits for the next iteration: the thread must not
        wake, since the appender is in use here until the end.
        """
        entries, self._inline = self._inline, []
        self._in_turn = True
        self._on_inline(True)
        start = size = 0
        for stop, entry in enumerate(entries, 1):
            size += len(entry[1])
            if stop < len(entries) and size < COMMIT_BYTES_MAX and stop - start < COMMIT_COUNT_MAX:
                continue
            group = entries[start:stop]
            result, duration_s = self._commit(group)
            self._finish(group, result, duration_s)
            start, size = stop, 0
        self._prepare()
        self._on_inline(False)
        self._in_turn = False

    def _judge(self, duration_s: float) -> None:
        """Choose who commits next: the loop while the disk is fast, else the thread."""
        quick = duration_s <= INLINE_S_MAX
        if quick == self._quick:
            self._streak = 0
            return
        self._streak += 1
        enough = INLINE_SLOW_MAX if self._quick else INLINE_AGAIN_COUNT
        if self._streak >= enough or (self._quick and duration_s > INLINE_HOPELESS_S):
            self._quick = not self._quick
            self._streak = 0

    @property
    def broken(self) -> LogUnavailableError | None:
        """The bug after which nothing is accepted until a new process starts; None: all is well."""
        return self._broken

    @property
    def pending(self) -> int:
        """Records submitted and not called back yet."""
        return self._pending_count

    @property
    def pending_bytes(self) -> int:
        """Their bodies, bytes: submit to the partition with the least."""
        return self._pending_bytes

    def stats(self) -> CommitStats:
        """Totals so far."""
        return CommitStats(
            self._record_count,
            self._body_bytes,
            self._commit_count,
            self._failure_count,
            self._last_commit_s,
        )

    async def close(self) -> None:
        """Accept nothing more, append what waits, call everybody back, and end the thread.

        The appender stays open: its owner closes it.
        """
        self._closing = True
        if self._inline:
            self._commit_inline()
        self._wake.put(None)
        await self._drained.wait()
        self._thread.join()

    def _run(self) -> None:
        """Run the thread: append each group and notify the loop, until closed and empty."""
        while True:
            group = self._next_group()
            if not group:
                break
            result, duration_s = self._commit(group)
            if not self._tell(self._finish, group, result, duration_s):
                return
            self._prepare()
        self._tell(self._drained.set)

    def _next_group(self) -> list[_Entry]:
        """Wait for records, within the limits of one commit; empty: closed, and nothing is left."""
        waiting = self._waiting
        while not waiting:
            self._sleeping = True
            if waiting:
                break
            if self._closing:
                return []
            self._wake.get()
        self._sleeping = False
        group: list[_Entry] = []
        size = 0
        while waiting and size < COMMIT_BYTES_MAX and len(group) < COMMIT_COUNT_MAX:
            entry = waiting.popleft()
            size += len(entry[1])
            group.append(entry)
        return group

    def _commit(self, group: list[_Entry]) -> tuple[int | LogError, float]:
        started_s = self._clock.monotonic_s()
        result: int | LogError
        if self._broken is not None:
            return self._broken, 0.0
        try:
            result = self._appender.append([(kind, body) for kind, body, _, _ in group])
        except LogError as error:
            result = error
        except Exception as error:  # noqa: BLE001 - a bug there must not leave callers waiting
            result = self._break(error)
        else:
            self._on_durable()
        return result, self._clock.monotonic_s() - started_s

    def _prepare(self) -> None:
        try:
            self._appender.prepare()
        except Exception as error:  # noqa: BLE001 - as above; the next group gets it
            self._break(error)

    def _break(self, error: Exception) -> LogUnavailableError:
        """Accept nothing more: after a bug the state of the appender is unknown."""
        self._broken = LogUnavailableError(f"appending failed: {error!r}")
        return self._broken

    def _tell(self, callback: Callable[..., object], *arguments: object) -> bool:
        """Call back in the loop; False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return False
        return True

    def _finish(self, group: list[_Entry], result: int | LogError, duration_s: float) -> None:
        """In the loop: count the group, and call its members back."""
        size = sum([len(body) for _, body, _, _ in group])
        self._pending_bytes -= size
        self._pending_count -= len(group)
        self._last_commit_s = duration_s
        if self._adaptive:
            self._judge(duration_s)
        if isinstance(result, LogError):
            self._failure_count += len(group)
            for _, _, done, _ in group:
                self._call(done, result)
            return
        self._record_count += len(group)
        self._body_bytes += size
        self._commit_count += 1
        if self._on_published is not None:
            self._call(self._on_published, result, [by for _, _, _, by in group])
        for offset, (_, _, done, _) in enumerate(group, result):
            self._call(done, offset)

    def _call(self, callback: Callable[..., None], *told: object) -> None:
        try:
            callback(*told)
        except Exception as error:  # noqa: BLE001 - one caller's bug must not cost the others
            self._loop.call_exception_handler(
                {"message": "a callback of the group commit failed", "exception": error}
            )
