"""Turns of a partition's backfills on the loop, and where a route that begins in the past begins.

Hides who reads the log for them: the loop itself where it is files, a thread where it is on a
cluster.
"""

import contextlib
from collections.abc import Callable, Sequence

from distributary.core.engine.backfills import Name
from distributary.core.engine.machine import Engine
from distributary.core.engine.state import PartitionState
from distributary.core.flow import RouteRecord
from distributary.partitions._flusher import Flusher
from distributary.partitions._log_reads import LogReads
from distributary.partitions._log_thread import LogThread
from distributary.partitions._resources import Resources
from distributary.partitions.context import PartitionContext
from distributary.partitions.ports import Records


class Backfilling:
    """Advances the backfills of a consumer; ``attach`` gives it the engine.

    Args:
        context: Ports of the consumer.
        resources: Asks log and store, beside the loop.
        thread: Runs reads of a log that is on a cluster.
        decide: Gives the engine an input, after it has got the time.
        keep_from: Lowers the retention floor at once.
    """

    _state: PartitionState
    _engine: Engine
    _flusher: Flusher

    def __init__(
        self,
        context: PartitionContext,
        *,
        resources: Resources,
        thread: LogThread,
        decide: Callable[[Callable[[], None]], bool],
        keep_from: Callable[[int], None],
    ) -> None:
        self._context = context
        self._resources = resources
        self._decide = decide
        self._keep_from = keep_from
        self._advancing = False
        self.reads = LogReads(
            context.kept,
            context.limits.readers_max,
            None if context.log_reading is None else thread,
            self._brought,
            context.once,
        )
        """Reads what backfills request."""
        self.begins_from: int | None = None
        """Lowest record of the routes that are about to begin in the past; None: there are none."""

    def attach(self, state: PartitionState, engine: Engine, flusher: Flusher) -> None:
        """Serve *engine*, whose state is *state*, while *flusher* takes what comes of it."""
        self._state = state
        self._flusher = flusher
        self._engine = engine

    def advance(self) -> None:
        """Advance backfills by one slice; go on in the next turn of the loop where there is more.

        Fails the consumer where the log cannot be read.
        """
        state = self._state
        if not len(state.backfills):
            self.reads.close()
        if state.stopped or not len(state.backfills) or self._flusher.unwritten.crowded:
            return  # The next tick looks again.
        more = [False]

        def take() -> None:
            more[0] = self._engine.advance()
            more[0] |= self.reads.bring(self._engine)

        # One chain of turns, however many asked: each of them would take the loop's time.
        if self._decide(take) and more[0] and not self._advancing:
            self._advancing = True
            self._context.timers.call_later(0.0, self._advance_again)

    def _advance_again(self) -> None:
        self._advancing = False
        self.advance()

    def _brought(self) -> None:
        if not self._advancing:
            self._advancing = True
            self._context.timers.call_later(0.0, self._advance_again)

    def find_lost(self, name: Name, after_seq: int, to_offset: int) -> None:
        """Find changes whose records the medium lost in a hole that a backfill has reached."""

        def found(lost: list[RouteRecord]) -> None:
            self._decide(lambda: self._engine.lost_found(name, to_offset, lost))
            self.advance()

        asks = self._context.follower.asks_lost
        self._resources.ask(asks(name[0], after_seq, to_offset), found)

    def begins(
        self, changes: Sequence[RouteRecord], offset: int, then: Callable[[dict[str, int]], object]
    ) -> bool:
        """Find where those of *changes* begin that begin before *offset*, while the intake waits.

        Args:
            changes: New ones, which begin in the past.
            offset: Of the record that brings them.
            then: Called with the first offset of each route, on the loop.

        Returns:
            Whether there is something to look for; else *then* is not called. Never where the log
            is files: ``begin`` looks itself, in microseconds.
        """
        if self._context.log_reading is None:
            return False
        backfills = self._state.backfills
        times = {
            each.uid: each.begin_ms
            for each in changes
            if each.begin_ms is not None and not backfills.began_before(each.uid, offset)
        }

        def look(records: Records) -> list[int]:
            kept = self._context.kept(records)
            start = kept.start()
            firsts = [max(kept.before(time_ms), start) for time_ms in times.values()]
            # Asked last: where retention cuts meanwhile, a first one is the beginning of a stretch.
            archived_to.append(kept.archived_to())
            return firsts

        def found(firsts: list[int]) -> None:
            if min(firsts) >= offset:
                begin(firsts)
                return
            self.begins_from = min(firsts)
            self._keep_from(min(firsts))
            # Retention may have cut before it could know. What it gave up is no history any more;
            # what it gives up from now on lies below.
            self._resources.ask_history(look, lambda again: begin(list(map(max, firsts, again))))

        def begin(firsts: list[int]) -> None:
            rows = self._state.rows
            rows.archived_to = max(rows.archived_to, *archived_to)
            then(dict(zip(times, firsts, strict=True)))
            self.begins_from = None

        archived_to: list[int] = []
        if times:
            self._resources.ask_history(look, found)
        return bool(times)

    def begin(self, change: RouteRecord, firsts: dict[str, int], offset: int) -> bool:
        """Backfill the route of *change* from where it begins in the past.

        Args:
            change: A new one, with a ``begin_ms``.
            firsts: What ``begins`` found.
            offset: Of the record that brings it.

        Returns:
            Whether to yield to the event loop.
        """
        if self._state.backfills.began_before(change.uid, offset):
            return False
        first = firsts.get(change.uid)
        if first is None:
            first = self._first_since(change.begin_ms or 0)
            if first < offset:
                self._keep_from(first)
                again = self._first_since(change.begin_ms or 0)
                first = max(first, again)  # as in ``begins``
        self._engine.begin_in_past(change, first, offset)
        return True

    def _first_since(self, time_ms: int) -> int:
        """A record below which none is of *time_ms* or later, in the log or in the archive."""
        with contextlib.closing(self._context.kept()) as kept:
            first = max(kept.before(time_ms), kept.start())
            self._state.rows.archived_to = kept.archived_to()  # last, as in ``begins``
            return first
