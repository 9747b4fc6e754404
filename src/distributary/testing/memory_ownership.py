"""An ``Ownership`` of a partition in memory. Passes ``check_ownership``."""

import copy
import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import NO_ROWS, JournalState, fit, unfenced
from distributary.core.outcome import (
    EVERY_LETTER,
    IN_STORE,
    NO_NAMES,
    BackfillRow,
    Batch,
    Budgets,
    Changes,
    DeadLetter,
    Deliveries,
    Failure,
    GivenUp,
    KeptDeadLetter,
    KeptDeadLetters,
    LetterChoice,
    ParkedRow,
    RetryRow,
    RunRow,
    selected,
)
from distributary.core.outcome._dead_letter_tables import DEAD_LETTER_BYTES
from distributary.core.outcome._letter_events import join, split
from distributary.core.outcome._slices import NAMES_MAX
from distributary.core.outcome.dead_letter import CLOCK_MS_MIN, given_up_first

__all__ = ["MemoryOwnership", "MemoryStore"]

_Name = TypeVar("_Name")
_Row = TypeVar("_Row")


class MemoryStore:
    """Retry rows, backfills and dead letters of one partition, for the lifetime of this object.

    Args:
        budgets: Budgets of the kept dead letters.

    Attributes:
        budgets: The budgets.
        fence: As in ``DeliveryStore``.
    """

    def __init__(self, budgets: Budgets | None = None) -> None:
        self.budgets = budgets or Budgets()
        self.fence: Callable[[], None] = unfenced
        self._rows: dict[DoneKey, RetryRow] = {}
        self._by_name: dict[tuple[str, int], BackfillRow] = {}
        self._parked: dict[str, ParkedRow] = {}
        self._runs: dict[int, RunRow] = {}
        self._dead_letters: dict[int, KeptDeadLetter] = {}
        self._marks: dict[int, str] = {}
        self._numbers = itertools.count(1)

    def behind(self, fence: Callable[[], None]) -> "MemoryStore":
        """Returns a view of this store whose writes *fence* guards."""
        mine = copy.copy(self)
        mine.fence = fence
        return mine

    # -- what is there ------------------------------------------------------------------------

    def rows(self) -> list[RetryRow]:
        """See ``Deliveries``."""
        rows = (r if r.event is None else r._replace(event=IN_STORE) for r in self._rows.values())
        return sorted(rows, key=lambda r: (r.not_before_ms, r.key.offset, r.key.index))

    def row_event(self, key: DoneKey) -> bytes | None:
        """See ``Deliveries``."""
        return self._rows[key].event if key in self._rows else None

    def backfills(self) -> list[BackfillRow]:
        """See ``Deliveries``."""
        return list(self._by_name.values())

    def parked(self) -> list[ParkedRow]:
        """See ``Deliveries``."""
        return list(self._parked.values())

    def kept_dead_letters(
        self, limit: int, after: int = 0, route: str | None = None
    ) -> list[KeptDeadLetter]:
        """See ``Deliveries``."""
        wanted = selected(route or "")
        found = (
            kept
            for kept in self._dead_letters.values()
            if kept.id > after
            and wanted[0] in {"", kept.dead_letter.namespace}
            and wanted[1] in {"", kept.dead_letter.key.route}
        )
        return list(itertools.islice(found, limit))

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """The oldest kept dead letters."""
        return [kept.dead_letter for kept in self.kept_dead_letters(limit)]

    # -- what changes -------------------------------------------------------------------------

    def apply(self, changes: Changes) -> list[GivenUp]:
        """See ``DeliveryStore.apply``."""
        self.fence()
        for key, row in changes.rows.items():
            event = self.row_event(key) if row.event == IN_STORE else row.event
            self._rows[key] = row._replace(event=event)
        for key in changes.forget:
            self._rows.pop(key, None)
        _put(self._by_name, changes.backfills)
        _put(self._parked, changes.parked)
        self._runs.update(changes.runs)
        self._take(changes.taken)
        self._take([dead_letter.key for dead_letter in changes.dead_letters])
        for dead_letter in sorted(
            changes.dead_letters, key=lambda dead_letter: dead_letter.kept_ms
        ):
            event, marks = split(dead_letter.event)
            number = next(self._numbers)
            kept = dead_letter._replace(event=join(event, marks))
            self._dead_letters[number] = KeptDeadLetter(number, kept, event)
            self._marks[number] = marks
        return self._keep_to_bytes() if changes.dead_letters else []

    def _take(self, keys: Iterable[DoneKey]) -> None:
        gone = set(keys)
        self._drop(
            kept for kept in list(self._dead_letters.values()) if kept.dead_letter.key in gone
        )

    def _drop(self, dead_letters: Iterable[KeptDeadLetter]) -> None:
        for kept in dead_letters:
            del self._dead_letters[kept.id], self._marks[kept.id]

    def _keep_to_bytes(self) -> list[GivenUp]:
        budgets = self.budgets
        given_up: Counter[str] = Counter()
        for route in {kept.dead_letter.key.route for kept in self._dead_letters.values()}:
            while (over := self._bytes_of(route) - budgets.route_bytes_max) > 0:
                self._give_up(self.kept_dead_letters(NAMES_MAX, route=route), over, given_up)
        while (over := self._bytes() - budgets.bytes_max) > 0 and self._dead_letters:
            largest, step = given_up_first(self._bytes_of_namespaces(), over)
            self._give_up(self._letters_in(largest)[:NAMES_MAX], step, given_up)
        return [GivenUp(route, count, "kept-bytes") for route, count in given_up.items()]

    def _give_up(self, oldest: list[KeptDeadLetter], excess: int, given_up: Counter[str]) -> None:
        freed = 0
        causes: set[tuple[str, Failure, str]] = set()
        for kept in oldest:
            freed += DEAD_LETTER_BYTES + len(kept.event)
            cause = self._cause(kept)
            if cause not in causes:
                causes.add(cause)
                freed += _size(*cause[1:])
            given_up[kept.dead_letter.key.route] += 1
            self._drop([kept])
            if freed >= excess:
                return

    def _bytes_of_namespaces(self) -> dict[str | None, int]:
        kept: dict[str | None, int] = defaultdict(int)
        routes = {
            letter.dead_letter.key.route: letter.dead_letter.namespace
            for letter in self._dead_letters.values()
        }
        for route, namespace in routes.items():
            kept[namespace] += self._bytes_of(route)
        return kept

    def _letters_in(self, namespace: str | None) -> list[KeptDeadLetter]:
        letters = self._dead_letters.values()
        return [letter for letter in letters if letter.dead_letter.namespace == namespace]

    def _bytes_of(self, route: str) -> int:
        mine = [kept for kept in self._dead_letters.values() if kept.dead_letter.key.route == route]
        letters = sum(DEAD_LETTER_BYTES + len(kept.event) for kept in mine)
        return letters + self._bytes_of_causes(mine)

    def _bytes(self) -> int:
        letters = list(self._dead_letters.values())
        events = {kept.event for kept in letters}
        shared = sum(map(len, events)) + self._bytes_of_causes(letters)
        return len(letters) * DEAD_LETTER_BYTES + shared

    def _bytes_of_causes(self, letters: Iterable[KeptDeadLetter]) -> int:
        return sum(_size(*cause[1:]) for cause in {self._cause(kept) for kept in letters})

    def _cause(self, kept: KeptDeadLetter) -> tuple[str, Failure, str]:
        letter = kept.dead_letter
        return letter.key.route, letter.failure, self._marks[kept.id]

    def keep_house(
        self, gone: Collection[str], now_ms: int, namespaces: Mapping[str, str] = NO_NAMES
    ) -> KeptDeadLetters:
        """See ``Deliveries``."""
        self.fence()
        for number, kept in self._dead_letters.items():
            letter = kept.dead_letter
            if letter.namespace is None:
                named = letter._replace(namespace=namespaces.get(letter.key.route))
                self._dead_letters[number] = kept._replace(dead_letter=named)
            if letter.kept_ms < CLOCK_MS_MIN <= now_ms:
                dated = self._dead_letters[number].dead_letter._replace(kept_ms=now_ms)
                self._dead_letters[number] = kept._replace(dead_letter=dated)
        oldest_ms = now_ms - int(self.budgets.age_max_s * 1000)
        given_up: Counter[str] = Counter()
        for kept in self.kept_dead_letters(sys.maxsize):
            if not CLOCK_MS_MIN <= kept.dead_letter.kept_ms < oldest_ms:
                break
            given_up[kept.dead_letter.key.route] += 1
            self._drop([kept])
        self._drop(
            [k for k in list(self._dead_letters.values()) if k.dead_letter.key.route in gone]
        )
        told = [GivenUp(route, count, "kept-age") for route, count in given_up.items()]
        routes = {kept.dead_letter.key.route for kept in self._dead_letters.values()}
        unnamed = {
            kept.dead_letter.key.route
            for kept in self._dead_letters.values()
            if kept.dead_letter.namespace is None
        }
        return KeptDeadLetters(sorted(routes), told, more=False, unnamed=sorted(unnamed))

    def chosen_letters(
        self, choice: LetterChoice, limit: int, after: int, bytes_max: int
    ) -> list[KeptDeadLetter]:
        """See ``Deliveries``."""
        found: list[KeptDeadLetter] = []
        size = 0
        for kept in self._chosen(choice):
            if kept.id > after and len(found) < limit and size < bytes_max:
                plain = kept.dead_letter._replace(event=kept.event)
                found.append(kept._replace(dead_letter=plain))
                size += len(kept.event)
        return found

    def _chosen(self, choice: LetterChoice) -> list[KeptDeadLetter]:
        every = self.kept_dead_letters(len(self._dead_letters), 0, choice.route)
        return [
            kept
            for kept in every
            if (not choice.ids or kept.id in choice.ids)
            and (choice.through is None or kept.id <= choice.through)
            and (choice.since_ms is None or kept.dead_letter.kept_ms >= choice.since_ms)
            and (choice.until_ms is None or kept.dead_letter.kept_ms < choice.until_ms)
        ]

    def begin_run(self, seq: int, choice: LetterChoice = EVERY_LETTER) -> RunRow:
        """See ``Deliveries``."""
        through = max(self._dead_letters, default=0)
        total = len(self._chosen(choice))
        return self.begin_run_as(RunRow(seq, 0, through, 0, 0, done=not total, total=total))

    def begin_run_as(self, row: RunRow) -> RunRow:
        """See ``Deliveries``."""
        self.fence()
        return self._runs.setdefault(row.seq, row)

    def runs(self, seqs: Sequence[int]) -> dict[int, RunRow]:
        """See ``Deliveries``."""
        return {seq: self._runs[seq] for seq in seqs if seq in self._runs}

    def close(self) -> None:
        """Nothing is held."""


def _put(table: dict[_Name, _Row], changes: dict[_Name, _Row | None]) -> None:
    for name, row in changes.items():
        if row is None:
            table.pop(name, None)
        else:
            table[name] = row


class MemoryOwnership:
    """An ``Ownership`` of the state in two objects that outlive it.

    Args:
        store: What waits, backfills and is kept.
        state: Cursors and outcomes.
        fence: Of the lease.
        touch: Told each place that a flush has come to, where the power may go or the medium
            refuse: "history" before anything is changed if rows of the history go first, "rows"
            before any other change, "cursor" when the rows are durable, "end" when all is.
    """

    local: bool = True

    def __init__(
        self,
        store: MemoryStore,
        state: JournalState,
        fence: Callable[[], None] = unfenced,
        touch: Callable[[str], None] = lambda _place: None,
    ) -> None:
        self.store: Deliveries = store.behind(fence)
        self._apply = store.apply
        self._memory = store
        self._state = state
        self._fence = fence
        self._touch = touch
        self._dead = False
        self._learn_kept()

    def _learn_kept(self) -> None:
        """See ``FileOwnership``."""
        store = self._memory
        rows = {row.key for row in store.rows()}
        for kept in store.kept_dead_letters(sys.maxsize):
            key = kept.dead_letter.key
            needed = (row.from_offset for row in store.backfills() if row.route == key.route)
            if key.offset >= min([self.state.mark.offset, *needed]) and key not in rows:
                self._state.done.setdefault(key, kept.dead_letter.checksum)

    @property
    def state(self) -> JournalState:
        """See ``Ownership``."""
        return self._state

    def fit(self, fits: Callable[[Mark], bool]) -> bool:
        """See ``Ownership``."""
        self._fence()
        fitting = fit(self._state, fits)
        if fitting is self._state:
            return False
        self._state.marks[:] = fitting.marks or [Mark(0, 0)]
        self._learn_kept()
        return True

    def flush(self, batch: Batch) -> list[GivenUp]:
        """See ``Ownership``."""
        if self._dead:
            raise StoreError("a flush of this owner failed before")
        try:
            self._fence()
            given_up: list[GivenUp] = []
            history = batch.history
            if batch.changes:
                if history[0]:
                    self._touch("history")
                    self._state.add_history(*history, 0)
                    history = NO_ROWS
                self._touch("rows")
                given_up = self._apply(batch.changes)
            self._touch("cursor")
            self._state.done.update(batch.done)
            self._state.add_history(*history, batch.filed)
            if batch.mark != self._state.mark:
                self._state.marks.append(batch.mark)
            self._touch("end")
        except BaseException:
            self._dead = True
            raise
        return given_up


def _size(failure: Failure, marks: str) -> int:
    return len(failure.reason) + len(failure.dest) + len(failure.data or "") + len(marks)
