"""Records outcomes, retry rows and dead letters: the engine's lowest layer.

Only this module turns verdicts into durable records. A match has one final outcome: delivered,
dead-lettered (accepted by the dead letter sink, or kept in the store), or dropped with a reason
(DESIGN promise 3, one final outcome).
"""

import dataclasses
from collections import Counter
from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from distributary.core.engine._life import Step
from distributary.core.engine.cuts import PINNED
from distributary.core.engine.dead_letter import dead_letter_event
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.reservations import key_of
from distributary.core.engine.state import Dropped, PartitionState
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import Attempt, DoneKey, Ending, Origin, Stage, Task
from distributary.core.outcome.dead_letter import DeadLetter, Failure
from distributary.core.outcome.rows import IN_STORE, RetryRow
from distributary.core.policy import DELIVERED, Verdict, longest_wait_s
from distributary.core.shown import shown_uri

BEYOND_BUDGET: Final = "retention"
"""Reason of a match that is dropped because it exceeds the backfill budget."""
ROUTE_DELETED: Final = "route-deleted"
"""Reason of what ends because its route does."""
_USED_UP: Final = "maxevents"
_ENDED: Final = frozenset({ROUTE_DELETED, _USED_UP})
"""Reasons for which matches end as somebody asked for."""
FORGET_S: Final = 1.0
"""Interval of searches for finished rows that can be forgotten. There may be 100,000 of them while
a match below holds the cursor, and a flush comes every 10 ms."""
TELL_S: Final = 1.0
"""Shortest interval of lines about dropped matches: a deleted route may have 100,000 of them."""
# Constants: in Python 3.11 a member read from its enumeration costs as much as several calls.
_PRIMARY: Final = Stage.PRIMARY
_LIVE: Final = Origin.LIVE
_BACKFILL: Final = Origin.BACKFILL
_REPLAY: Final = Origin.REPLAY
_DELIVERED: Final = Ending.DELIVERED
_GIVEN_UP_TOTAL: Final = f'given_up_total{{reason="{BEYOND_BUDGET}"}}'


class Outcomes:
    """The writer of outcomes, rows and dead letters, with their counters.

    Args:
        state: Of the partition.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._effects = state.effects
        self._attempted = state.effects.attempted
        self._succeeded = state.effects.succeeded
        self._ended = state.effects.ended
        self._rows = state.rows
        self._tracker = state.tracker
        self._done = state.effects.done
        self._troubles = state.failing.troubles
        self._tallies = state.tallies
        self._changing = state.tallies.changing
        self._reservations = state.reservations
        self._reserved = state.reservations.by_match
        self._meter = state.meter
        self._counters = state.meter.counters
        for name in ("events_read", "matches", "delivered", "retried"):
            state.meter.add(f"{name}_total", 0)
        for to in ("sink", "store"):
            state.meter.add(f'dead_lettered_total{{to="{to}"}}', 0)
        state.meter.add(_GIVEN_UP_TOTAL, 0)
        self._latency = state.meter.histogram("delivery_latency_seconds")
        self._forgot_s = self._told_s = float("-inf")

    # -- final ---------------------------------------------------------------------------------

    def delivered(self, task: Task, status: int = 0, attempt: Attempt | None = None) -> None:
        """Record that a destination accepted *task*.

        Args:
            task: The match.
            status: Of the answer; 0: it has none.
            attempt: The one that was accepted; None: it has been recorded.
        """
        state = self._state
        position, route, now_ms = task.position, task.route, state.now_ms
        # ``key_of`` inlined, and ``_final`` below: every delivery comes here.
        key = tuple.__new__(DoneKey, (position[1], position[2], route))
        if task.stage is _PRIMARY:
            self._counters["delivered_total"] += 1
            tally = self._changing[route]
            tally.delivered += 1
            if status:
                tally.answer_ms = now_ms
                tally.answer_status = status
            if not task.about_route:
                tally.success_ms = now_ms
                if self._troubles:
                    state.failing.delivered(route)
            self._latency.observe((now_ms - task.logged_ms) / 1000)
            if self._reserved:
                self._reservations.end(key, delivered=True)
            if attempt is None:
                self._ended(key, _DELIVERED, None, now_ms, task)
            else:
                self._succeeded(attempt, key, now_ms)
        else:
            if attempt is not None:
                self._attempted(attempt, DELIVERED, now_ms)
            self._meter.add('dead_lettered_total{to="sink"}')
            self._tallies.of(route).dead_lettered += 1
            self._ended(key, Ending.DEAD_LETTERED, None, now_ms, task)
        if self._effects.watch is not None:
            state.step(Step.DELIVER, key, task)
        if task.origin is _LIVE and self._tracker.finish(task):
            self._done(key, task.checksum)
        else:
            self._final(task, key)

    def _final(self, task: Task, key: DoneKey) -> None:
        """Finish a match: release the stream or the row that waits for it."""
        origin = task.origin
        if origin is _REPLAY and self._state.end_replay(task):
            return
        if origin is _LIVE and self._tracker.finish(task):
            self._effects.done(key, task.checksum)
            return
        if origin is _BACKFILL and self._state.backfills.finish(task):
            self._effects.backfilled(key, task.checksum)
            return
        row = self._rows.finish(key)
        if row is not None:
            self._effects.put_row(row)
        elif task.origin is Origin.BACKFILL:  # Its route and the backfill are deleted.
            self._effects.backfilled(key, task.checksum)

    def failed(
        self, task: Task, target: RouteTarget, failure: Failure, reply: Event | None = None
    ) -> None:
        """End the attempts at this destination: go to the dead letter stage, or to the store.

        Args:
            task: The match.
            target: Of its route.
            failure: Why.
            reply: The sink's reply, which becomes the dead letter instead of the event.
        """
        key = key_of(task)
        self._reservations.end(key, delivered=False)
        event = task.event if reply is None else reply
        if task.stage is Stage.PRIMARY and target.dead_letter is not None:
            dead_letter = dead_letter_event(event, failure)
            row = self._rows.rows.get(key)
            own = reply is not None or (row is not None and row.event is not None)
            stored = event_record.encode([dead_letter]) if own else None
            self._state.step(Step.TURN_TO_DEAD_LETTER, key, task)
            self._wait(task, failure, 0.0, attempt=1, dead_letter=dead_letter, stored=stored)
            return
        # At the dead letter stage the event already names the failure of its own sink; the row
        # names this one's.
        kept = dead_letter_event(event, failure) if task.stage is Stage.PRIMARY else event
        body = event_record.encode([kept])
        self._state.step(Step.KEEP, key, task)
        now_ms = self._state.now_ms
        self._effects.keep(DeadLetter(key, task.checksum, failure, body, now_ms, target.namespace))
        self._ended(key, Ending.DEAD_LETTERED, failure.reason, now_ms, task)
        self._meter.add('dead_lettered_total{to="store"}')
        self._tallies.of(task.route).dead_lettered += 1
        self._final(task, key)

    def set_aside(self, task: Task, failure: Failure | None = None) -> None:
        """Keep *task* as a dead letter: its namespace may not wait for it any longer.

        Args:
            task: The match, whose route has a target.
            failure: Of its last attempt; None: none was made.
        """
        target = self._state.targets.get(task.route)
        assert target is not None
        self._state.given_up[task.route, PINNED] += 1
        failure = failure or Failure("", shown_uri(target.sink.uri))
        failure = dataclasses.replace(failure, reason=PINNED)
        self.failed(task, dataclasses.replace(target, dead_letter=None), failure)

    def why_gone(self, route: str) -> str:
        """Reason for dropping matches of a deleted route."""
        return _USED_UP if route in self._reservations.used_up else ROUTE_DELETED

    def drop(self, task: Task, reason: str | None = None) -> None:
        """End a match without delivery, for *reason*; None: its route is deleted."""
        key = key_of(task)
        self._report_drop(key, reason, task)
        self._final(task, key)

    def drop_row(self, row: RetryRow, reason: str | None = None) -> None:
        """Like ``drop``, for a row, without reading its event from the log."""
        self._report_drop(row.key, reason)
        done = self._rows.finish(row.key)
        if done is not None:
            self._effects.put_row(done)

    def _report_drop(self, key: DoneKey, reason: str | None, task: Task | None = None) -> None:
        self._reservations.end(key, delivered=False)
        self._state.step(Step.DROP, key, task)
        reason = reason or self.why_gone(key.route)
        self._ended(key, Ending.DROPPED, reason, self._state.now_ms, task)
        self._meter.add(f'dropped_total{{reason="{reason}"}}')
        self._tallies.of(key.route).dropped += 1
        kind = key.route, reason
        dropped = self._state.dropped.get(kind)
        if dropped is None:
            dropped = self._state.dropped[kind] = Dropped(key)
        dropped.last = max(dropped.last, key)
        dropped.first = min(dropped.first, key)
        dropped.count += 1

    # -- rows ----------------------------------------------------------------------------------

    def load(self, row: RetryRow) -> None:
        """Load a row of the last owner, or of a redriven dead letter."""
        if row.done:
            self._rows.finished[row.key] = row
            return
        wait_s = (row.not_before_ms - self._state.now_ms) / 1000
        wait_s = min(max(wait_s, 0.0), self._wait_s_max(row))
        self._rows.put(row, self._state.now_s + wait_s, None)
        self.arm()

    def send_again(self, row: RetryRow, task: Task | None = None) -> None:
        """Send a match again, as *row*, that a run has chosen; *task*: its event, in memory."""
        key = row.key
        self._state.step(Step.SEND_AGAIN, key)
        self._effects.put_row(row)
        self._rows.finished.pop(key, None)  # The new row replaces it.
        waits = row if row.event is None else row._replace(event=IN_STORE)
        self._rows.put(waits, self._state.now_s, task)
        self.arm()

    def hurry(self, routes: Collection[str]) -> int:
        """Make the waiting retries of *routes* due now; returns their count."""
        state = self._state
        rows = self._rows.waiting(routes)
        for row in rows:
            due = row._replace(not_before_ms=state.now_ms)
            self._effects.put_row(due)
            self._rows.put(due, state.now_s, None)
        self.arm()
        return len(rows)

    def _wait_s_max(self, row: RetryRow) -> float:
        """Longest wait of its policy: caps the effect of a jump of the wall clock."""
        target = self._state.targets.get(row.key.route)
        if target is None:
            return 0.0  # It will be dropped.
        dest = target.sink if row.stage is Stage.PRIMARY else target.dead_letter or target.sink
        return longest_wait_s(dest.policy)

    def arm(self) -> None:
        """Set the timer for the first due row."""
        due_s = self._rows.next_due_s()
        if due_s is not None and not self._state.stopped and self._state.reads.capacity():
            self._effects.wake_at(due_s)

    def retry(
        self, task: Task, failure: Failure, verdict: Verdict, *, attempt: int | None = None
    ) -> None:
        """Retry the match later, as *attempt*; None: the next number."""
        self._meter.add("retried_total")
        self.wait(task, failure, verdict.wait_s, attempt=attempt or task.attempt + 1)

    def wait(self, task: Task, failure: Failure, wait_s: float, *, attempt: int) -> None:
        """Put the match into a row that is due after *wait_s*."""
        self._state.step(Step.RETRY, key_of(task), task)
        self._wait(task, failure, wait_s, attempt=attempt)

    def _wait(
        self,
        task: Task,
        failure: Failure,
        wait_s: float,
        *,
        attempt: int,
        dead_letter: Event | None = None,
        stored: bytes | None = None,
    ) -> None:
        """Replace the match by its row.

        Args:
            task: The match.
            failure: Result of its last attempt.
            wait_s: Seconds until the next one.
            attempt: Number of the next one.
            dead_letter: The event that goes to the dead letter sink from now on.
            stored: Its event, if that differs from the log's and is not in its row yet.
        """
        key = key_of(task)
        due_ms = self._state.now_ms + int(wait_s * 1000)
        stage, event = (
            (task.stage, task.event) if dead_letter is None else (Stage.DEAD_LETTER, dead_letter)
        )
        next_task = replace(task, stage=stage, event=event, attempt=attempt, origin=Origin.RETRY)
        row = RetryRow(key, task.checksum, stage, attempt, due_ms, failure, False, stored)
        before = self._rows.rows.get(key)
        if stored is None and before is not None and before.event == IN_STORE:
            row = row._replace(event=IN_STORE)
        if stage is Stage.PRIMARY:
            self._reservations.make_idle(key)
        self._state.let_go(task)
        self._effects.put_row(row)
        if row.event is not None:
            row = row._replace(event=IN_STORE)  # Up to 1 MiB each.
        self._rows.put(row, self._state.now_s + wait_s, next_task)
        self.arm()

    def _give_row(self, task: Task) -> bool:
        """Give *task* a row, which replaces it in its stream; False if it already has one."""
        if self._state.is_row(task):
            return False
        key = key_of(task)
        now_ms = self._state.now_ms
        row = RetryRow(key, task.checksum, task.stage, task.attempt, now_ms, None, done=False)
        self._state.let_go(task)
        self._effects.put_row(row)
        self._rows.add(row)
        self._meter.add("spilled_total")
        return True

    def demote(self, task: Task) -> None:
        """Move *task* to a row so that the cursor, or a backfill's mark, can pass; it continues."""
        if self._give_row(task):
            self._state.step(Step.DEMOTE, key_of(task), task)

    def defer(self, task: Task, name: str) -> None:
        """Put a refused or returned *task* into a row that waits until *name* has room."""
        self.defer_row(self.make_row(task), name, task)

    def make_row(self, task: Task) -> DoneKey:
        """Replace *task* by its row. Returns the key."""
        self._give_row(task)
        key = key_of(task)
        self._rows.hold(key, replace(task, origin=Origin.RETRY))
        return key

    def defer_row(self, key: DoneKey, name: str, task: Task | None = None) -> str:
        """Let the row of *key* wait until *name* has room. Returns *name*."""
        self._state.step(Step.DEFER, key, task)
        self._rows.defer(key, name)
        return name

    def await_event(self, row: RetryRow, wait_s: float) -> None:
        """Look again in *wait_s* at *row*, whose event is on its way."""
        self._state.step(Step.AWAIT_EVENT, row.key)
        self._rows.put(row, self._state.now_s + wait_s, None)
        self.arm()

    def void(self, key: DoneKey) -> None:
        """Delete the row of *key*: the log has reused its position for another record."""
        if key in self._rows.rows or key in self._rows.finished:
            self._state.step(Step.VOID, key)
            self._reservations.end(key, delivered=False)
            self._rows.drop(key)
            self._effects.forget_row(key)
            self._meter.add("void_rows_total")
            self._effects.warn("void-row", {"offset": key.offset, "route": key.route})

    def tell_dropped(self, *, now: bool = False) -> None:
        """Report the matches dropped lately, one line for a route and a reason.

        Args:
            now: However short the time since the last report.
        """
        state = self._state
        if not state.dropped or (state.now_s - self._told_s < TELL_S and not now):
            return
        self._told_s = state.now_s
        told, state.dropped = state.dropped, {}
        for (route, reason), found in told.items():
            first, last = found.first, found.last
            fields: dict[str, object] = {"route": route, "reason": reason}
            if found.count == 1:
                fields |= {"offset": first.offset, "index": first.index}
            else:
                fields |= {"count": found.count, "from": first.offset, "to": last.offset + 1}
            if reason in _ENDED:
                self._effects.report("dropped", fields)
            else:
                self._effects.warn("dropped", fields)

    def tell_given_up(self) -> None:
        """Report, for each route, the matches that budgets ended since the last report."""
        counts, self._state.given_up = self._state.given_up, Counter()
        for (route, reason), count in counts.items():
            fields: dict[str, object] = {"route": route, "count": count, "reason": reason}
            if reason == PINNED:
                self._effects.warn("matches-set-aside", fields)
                continue
            self._meter.add(_GIVEN_UP_TOTAL, count)
            self._effects.warn("matches-given-up", fields)

    def forgettable(self, below: int) -> list[DoneKey]:
        """Remove and return finished rows that the cursor has passed and no backfill needs."""
        finished, needed = self._rows.finished, self._state.backfills.needs
        now_s = self._state.now_s
        if not finished or now_s - self._forgot_s < FORGET_S:
            return []
        self._forgot_s = now_s
        keys = [key for key in finished if key.offset < below and not needed(key.route, key.offset)]
        for key in keys:
            del finished[key]
        return keys
