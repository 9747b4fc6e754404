"""Advances backfills: sends their matches, requests records, joins routes to the live reader."""

from collections.abc import Iterator
from typing import Final

from distributary.core.engine._backfill import Backfill
from distributary.core.engine._matching import Matching
from distributary.core.engine.backfills import Name
from distributary.core.engine.sending import Sending
from distributary.core.engine.state import PartitionState
from distributary.core.flow import Logged, RouteRecord

SLICE_RECORDS: Final = 64
"""Records read before yielding to the event loop: some 0.3 ms."""
SLICE_READS: Final = 8
"""Chunks requested before yielding to the event loop: each costs some 0.2 ms with its search."""


class CatchingUp:
    """The round-robin scheduler of a partition's backfills.

    Args:
        state: Of the partition.
        sending: Sends their matches.
        matching: Knows matches that were done before.
    """

    def __init__(self, state: PartitionState, sending: Sending, matching: Matching) -> None:
        self._state = state
        self._effects = state.effects
        self._backfills = state.backfills
        self._sending = sending
        self._is_done = matching.is_done
        self._reads_left = 0

    def advance(self, *, joining: bool) -> bool:
        """Advance backfills by one slice of records; True if at least one has more to do now.

        They share the slice; those that used a part of it come last next time.

        Args:
            joining: Whether routes may join the live reader.
        """
        state, backfills = self._state, self._backfills
        left = SLICE_RECORDS
        self._reads_left = SLICE_READS
        for _ in range(state.limits.slice_backfills):
            backfill = backfills.next_turn() if left > 0 and self._reads_left > 0 else None
            if backfill is None:
                break
            before = backfill.next_offset
            self._go_on(backfill, left)
            left -= max(0, backfill.next_offset - before)
            if backfill.next_offset > before:
                backfills.moved(backfill)
            backfilled = not backfill.joined and backfill.next_offset >= state.live
            if backfilled and joining and self._sending.may_join(backfill.route):
                backfill.join(state.live)
                backfills.moved(backfill)
            if backfill.ended:
                backfills.end(backfill, state.durable)
        return backfills.waits_for_turn

    def _go_on(self, backfill: Backfill, limit: int) -> None:
        """Send matches below the live position, from at most *limit* records."""
        live, first = self._state.live, backfill.next_offset
        end = live if backfill.to_offset is None else min(backfill.to_offset, live)
        while limit > 0:
            if not self._sent_all(backfill):
                return
            if backfill.next_offset >= end:
                self._backfills.rest(backfill, None)
                return
            if backfill.matched_at == backfill.next_offset and self._waits(backfill):
                return
            logged, offset = backfill.peek(end)
            if offset > backfill.next_offset:
                self._effects.find_lost(backfill.name, backfill.route_seq, offset)
                self._backfills.spare(backfill)
                return
            if logged is None:
                if backfill.next_offset > first:
                    break  # It has used its part: others take turns before it reads on.
                self._reads_left -= 1
                backfill.reading = True
                self._effects.read_log(backfill.name, backfill.next_offset)
                return
            tasks = backfill.match(logged, self._state.rows.archived_to)
            tasks = [task for task in tasks if not self._is_done(task)]
            if tasks and self._waits(backfill):
                backfill.matched_at = logged.offset
                return
            backfill.take(logged, tasks)
            limit -= 1
        self._backfills.put_back(backfill)

    def _sent_all(self, backfill: Backfill) -> bool:
        """Send the matches of the last record; False where *backfill* rests with some unsent."""
        while backfill.tasks:
            refused_by = self._sending.offer_backfill(backfill.tasks[-1])
            if refused_by is not None:
                if not self._backfills.may_hold(backfill):
                    backfill.give_back()
                self._backfills.rest(backfill, refused_by)
                return False
            backfill.tasks.pop()
        return True

    def _waits(self, backfill: Backfill) -> bool:
        """Let *backfill* rest before its next record, if none of its matches could be sent.

        Decoded, and once for each route, one record with a megabyte would take a gigabyte for a
        thousand routes that wait for their common sink.
        """
        refused_by = self._sending.refuses(
            backfill.route, backfill.next_offset, full=backfill.gave_back
        )
        if refused_by is not None:
            self._backfills.rest(backfill, refused_by)
        return refused_by is not None

    def log_read(
        self, name: Name, from_offset: int, records: Iterator[Logged], to_offset: int
    ) -> None:
        """Accept the *records* from *from_offset* that a backfill requested, and no others.

        A read that took long may answer one of the same name that has ended meanwhile.
        """
        backfill = self._backfills.get(name)
        if backfill is None or not backfill.reading or backfill.next_offset != from_offset:
            return
        if backfill.bring(records, to_offset):
            self._backfills.feed(backfill)
        else:
            self._backfills.rest(backfill, None)

    def lost_found(self, name: Name, to_offset: int, lost: list[RouteRecord]) -> None:
        """Accept the route changes that were lost in the gap where a backfill waits."""
        backfill = self._backfills.get(name)
        if backfill is None:
            return
        first = backfill.next_offset
        self._state.meter.add("lag_lost_records_total", to_offset - first)
        fields: dict[str, object] = {"route": backfill.route, "from": first, "to": to_offset}
        self._effects.warn("records-lost", fields)
        backfill.pass_hole(to_offset, lost)
        self._backfills.moved(backfill)
        self._backfills.feed(backfill)
