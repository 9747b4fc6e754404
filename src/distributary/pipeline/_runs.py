"""Runs: kept letters that people have sent again, or deleted, part by part.

A run takes the letters that were kept when this owner first saw it. Of a redrive each becomes a row
that is due now, with its event, in the transaction that takes the letter away. What fails again is
a letter again, with a newer number, and so not this run's.
"""

from collections import deque
from typing import Final

from distributary.control import Demand
from distributary.errors import StoreError
from distributary.event import record as event_record
from distributary.flow import Leg
from distributary.outcome import IN_STORE, KeptLetter, RetryRow, RunRow
from distributary.pipeline._ledger import Ledger
from distributary.pipeline._settle import Settle
from distributary.pipeline._surroundings import Surroundings
from distributary.route import WalkMatcher

SLICE: Final = 64
"""Letters taken at once: up to 1 MiB each."""
ROWS_SHARE: Final = 0.5
"""A run waits while a route has this share of the rows that it may have."""


class Runs:
    """Does the runs of a partition, one after the other.

    Args:
        around: Ports of the owner.
        ledger: Makes rows durable, and how far a run is.
        settle: Attempts rows.
    """

    def __init__(self, around: Surroundings, ledger: Ledger, settle: Settle) -> None:
        self._around = around
        self._store = around.store
        self._ledger = ledger
        self._settle = settle
        self._seen_seq = 0
        self._asked: deque[Demand] = deque()
        self._row: RunRow | None = None  # of the first that was asked, once it has begun
        self._busy = False

    def tick(self) -> None:
        """Go on with what was asked."""
        for demand in self._around.targets.demands(self._seen_seq):
            self._seen_seq = demand.seq
            if demand.kind != "resume":
                self._asked.append(demand)
        if self._busy or not self._asked:
            return
        demand = self._asked[0]
        if self._row is None:
            self._begin(demand)
        elif self._row.done:
            self._asked.popleft()
            self._row = None
        elif demand.kind == "purge":
            self._purge(demand, self._row)
        elif not self._settle.crowded(demand.route, ROWS_SHARE):
            self._redrive(demand, self._row)

    def _begin(self, demand: Demand) -> None:
        found: list[RunRow] = []

        def done(error: StoreError | None) -> None:
            self._busy = False
            if error is None:
                (self._row,) = found

        self._busy = True
        self._around.aside.run(lambda: found.append(self._store.begin_run(demand.seq)), done)

    def _purge(self, demand: Demand, row: RunRow) -> None:
        found: list[RunRow] = []

        def done(error: StoreError | None) -> None:
            self._busy = False
            if error is None:
                (self._row,) = found
                self._note(demand, self._row)

        self._busy = True
        route = demand.route or None
        self._around.aside.run(lambda: found.append(self._store.purge(row, route)), done)

    def _redrive(self, demand: Demand, row: RunRow) -> None:
        found: list[KeptLetter] = []
        route = demand.route or None

        def work() -> None:
            found.extend(self._store.kept_letters(SLICE, row.at, route))

        def done(error: StoreError | None) -> None:
            self._busy = False
            if error is None:
                self._take(demand, row, [kept for kept in found if kept.id <= row.through])

        self._busy = True
        self._around.aside.run(work, done)

    def _take(self, demand: Demand, row: RunRow, letters: list[KeptLetter]) -> None:
        count = passed = 0
        at = row.at
        for kept in letters:
            if kept.letter.key.offset >= self._ledger.durable_mark.offset:
                break  # A restart would come there again: wait until the cursor has passed.
            at = kept.id
            if self._is_wanted(kept):
                count += 1
                self._send(kept)
            else:
                passed += 1
        self._row = row._replace(
            at=at, handled=row.handled + count, passed=row.passed + passed, done=not letters
        )
        if self._row != row:
            self._ledger.put_run(self._row)
            self._note(demand, self._row)
        self._around.meter.add("redriven_total", count)

    def _is_wanted(self, kept: KeptLetter) -> bool:
        """True where the newest filters match it, and nothing of it is on its way."""
        key = kept.letter.key
        record = self._around.follower.table.record(key.route)
        if record is None or key in self._settle.waiting.rows:
            return False
        matcher = WalkMatcher()
        matcher.put(record)
        (event,) = event_record.decode(kept.event)
        return bool(matcher.match(event))

    def _send(self, kept: KeptLetter) -> None:
        letter = kept.letter
        now_ms = self._around.clock.wall_ms()
        row = RetryRow(
            letter.key,
            letter.checksum,
            Leg.EVENT,
            1,
            now_ms,
            letter.failure,
            done=False,
            event=kept.event,
        )
        self._ledger.put_row(row)
        self._ledger.take_letter(letter.key)
        self._settle.waiting.finished.pop(letter.key, None)  # The row is a new one's now.
        self._settle.load(row._replace(event=IN_STORE))

    def _note(self, demand: Demand, row: RunRow) -> None:
        if row.done:
            counts: dict[str, object] = {"count": row.handled, "passed": row.passed}
            self._around.report(f"{demand.kind}-done", {"run": demand.run} | counts)
