"""Redrives and purges of kept dead letters, a slice at a time.

A run covers the dead letters kept when this partition began it. A redrive turns each into a row
that is due now, with its event, in the flush that deletes the dead letter. One that fails again
becomes a dead letter with a newer number, outside this run.
"""

from collections.abc import Callable
from typing import Final

from distributary.core.demand import Demand
from distributary.core.engine.machine import Engine
from distributary.core.engine.state import PartitionState
from distributary.core.errors import EventError, StoreError
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import ABOUT_ROUTE_TYPE, DoneKey, Origin, Position, Stage, Task
from distributary.core.outcome import KeptDeadLetter, LetterChoice, RetryRow, RunRow
from distributary.core.route import WalkMatcher
from distributary.partitions._flusher import Flusher
from distributary.partitions._run import ROWS_SHARE, Run
from distributary.partitions.context import PartitionContext

SLICE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of events after which a slice ends: a dead letter may have 1 MiB."""


class LetterRuns:
    """Takes slices of redrives and purges; a ``RunKind``.

    Args:
        context: Ports of the consumer.
        flusher: Makes what it does durable, with the progress of the run.
        state: Holds the waiting rows.
        engine: Attempts rows.
    """

    def __init__(
        self, context: PartitionContext, flusher: Flusher, state: PartitionState, engine: Engine
    ) -> None:
        self._context = context
        self._store = context.ownership.store
        self._flusher = flusher
        self._rows = state.rows
        self._halted = state.halted
        self._replayed = state.replays.open
        self._engine = engine
        self._sent: dict[DoneKey, int] = {}
        """Dead letters that runs sent, which may still be in the store, and when: ``begun_round``.
        At most about ``UNWRITTEN_MAX``."""

    def begin(self, demand: Demand) -> RunRow:
        choice = self._choice(demand)
        if choice is None:
            return self._store.begin_run_as(RunRow(demand.seq, 0, 0, 0, 0, done=True))
        return self._store.begin_run(demand.seq, choice)

    def _choice(self, demand: Demand) -> LetterChoice | None:
        """What *demand* chooses here; None: only dead letters of other partitions."""
        details = demand.details
        mine = f"{self._context.partition}-"
        ids = tuple(int(one.removeprefix(mine)) for one in details.ids if one.startswith(mine))
        if details.ids and not ids:
            return None
        return LetterChoice(demand.route or None, details.since_ms, details.until_ms, ids)

    def take(self, run: Run, count: int, then: Callable[[RunRow | None], None]) -> None:
        choice = self._choice(run.demand)
        assert choice is not None
        choice = choice._replace(through=run.row.through)
        found: list[tuple[KeptDeadLetter, Event | None]] = []
        # Before the look: what is durable by now it does not find.
        durable = self._flusher.durable_round
        self._sent = {key: begun for key, begun in self._sent.items() if begun >= durable}

        def work() -> None:
            letters = self._store.chosen_letters(choice, count, run.row.at, SLICE_BYTES)
            found.extend((kept, _event(kept)) for kept in letters)

        def done(error: StoreError | None) -> None:
            then(None if error is not None else self._take(run, found))

        self._context.aside.run(work, done)

    def _take(self, run: Run, found: list[tuple[KeptDeadLetter, Event | None]]) -> RunRow:
        row, dry = run.row, run.demand.details.dry
        redrives = run.demand.kind == "redrive"
        matchers: dict[str, WalkMatcher | None] = {}
        sent, run.held_by = 0, ""
        for kept, event in found:
            key = kept.dead_letter.key
            if redrives and not dry and key.offset >= self._flusher.durable_mark.offset:
                # A restart would come there again: wait until the cursor has passed.
                run.waits_at = key.offset
                break
            if redrives and not dry and key in self._sent:
                break  # Another run sent it, perhaps to its end: look again once that is durable.
            chosen = not run.demand.details.filters or (event is not None and run.chooses(event))
            if redrives and not dry and chosen and self._holds(run, key.route):
                break
            row = row._replace(at=kept.id, looked=row.looked + 1)
            if not chosen:
                continue
            row = row._replace(selected=row.selected + 1)
            if redrives and self._is_passed(run, key, event, matchers):
                row = row._replace(passed=row.passed + 1)
                continue
            row = row._replace(handled=row.handled + 1)
            sent += 1
            if dry:
                continue
            self._flusher.take_dead_letter(key)
            if redrives:
                self._sent[key] = self._flusher.begun_round
                self._send(kept, event)
        run.took(sent)
        if redrives and not dry:
            self._context.meter.add("redriven_total", sent)
        return row if found else row._replace(done=True)

    def _holds(self, run: Run, route: str) -> bool:
        """Whether *run* must wait for *route*, which may send nothing or has many rows already.

        So one route cannot fill the rows of all, which other runs would wait for.
        """
        waits, full = not run.of_many, self._rows.room(route, ROWS_SHARE) <= 0
        held = waits if route in self._halted else full
        run.held_by = route if held else ""
        return held

    def _is_passed(
        self,
        run: Run,
        key: DoneKey,
        event: Event | None,
        matchers: dict[str, WalkMatcher | None],
    ) -> bool:
        """Whether a redrive leaves it: nothing is sent to its route, or no more to match it."""
        if run.of_many and key.route in self._halted:
            return True
        return not self._is_wanted(key, event, matchers)

    def _is_wanted(
        self, key: DoneKey, event: Event | None, matchers: dict[str, WalkMatcher | None]
    ) -> bool:
        """Whether the newest filters match it, and it has no row already."""
        if event is None or key in self._rows.rows or key in self._replayed:
            return False  # Damaged: nobody can send it, and it must not stop the partition.
        if key.route not in matchers:
            record = self._context.follower.table.record(key.route)
            matchers[key.route] = None
            if record is not None:
                made = matchers[key.route] = WalkMatcher()
                made.put(record)
        matcher = matchers[key.route]
        return matcher is not None and bool(matcher.match(event))

    def _send(self, kept: KeptDeadLetter, event: Event | None) -> None:
        letter = kept.dead_letter
        key = letter.key
        now_ms = self._context.clock.wall_ms()
        row = RetryRow(
            key,
            letter.checksum,
            Stage.PRIMARY,
            1,
            now_ms,
            letter.failure,
            done=False,
            event=kept.event,
        )
        task = None
        target = self._context.targets.get(key.route)
        if (
            event is not None
            and target is not None
            and target.parks
            and not target.sink.own
            and not str(event.attributes["type"]).startswith(ABOUT_ROUTE_TYPE)  # the log knows
        ):
            # Of the Subscriptions API: what the log has beside the event is not sent.
            place = Position(self._context.partition, key.offset, key.index)
            task = Task(
                place, letter.checksum, key.route, event, Stage.PRIMARY, 1, now_ms, Origin.RETRY
            )
        self._engine.send_again(row, task)


def _event(kept: KeptDeadLetter) -> Event | None:
    """The event of a dead letter; None: its bytes are damaged."""
    try:
        (event,) = event_record.decode(kept.event)
    except (EventError, ValueError):
        return None
    return event
