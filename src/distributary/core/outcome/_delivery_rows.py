"""Retry rows, backfill rows and dead letters of one partition, in a database of either kind."""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome._dead_letters import DeadLetters
from distributary.core.outcome._delivery_tables import BACKFILL, PARKED, RETRY
from distributary.core.outcome._letter_choice import choose_letters, count_letters
from distributary.core.outcome._run_rows import forget_runs, put_runs, read_runs
from distributary.core.outcome._slices import slices
from distributary.core.outcome._upsert import upsert
from distributary.core.outcome.dead_letter import (
    EVERY_LETTER,
    NO_NAMES,
    Budgets,
    DeadLetter,
    Failure,
    GivenUp,
    KeptDeadLetter,
    KeptDeadLetters,
    LetterChoice,
)
from distributary.core.outcome.rows import (
    IN_STORE,
    BackfillRow,
    Changes,
    ParkedRow,
    RetryRow,
    RunRow,
)

_Found = TypeVar("_Found")

TURNS_MAX = 20
"""Slices of house-keeping in one call; the next call does the rest."""


class DeliveryRows(ABC):
    """The rows of one partition; blocking, for a separate thread.

    Args:
        partition: Partition number.
        budgets: Limits of the kept dead letters.
    """

    def __init__(self, partition: int, budgets: Budgets | None) -> None:
        self._partition = partition
        self._dead_letters = DeadLetters(partition, budgets or Budgets())
        self._turn = threading.Lock()  # Of flushes and house-keeping: they count dead letters.

    @abstractmethod
    def _read(self, work: Callable[[Connection], _Found]) -> _Found:
        """Run *work* with a connection that reads."""

    @abstractmethod
    def _write(self, work: Callable[[Connection], _Found]) -> _Found:
        """Run *work* in a transaction, which a fence guards; perhaps again."""

    def _give_back(self) -> bool:
        """Return free space to the disk; True if there is more."""
        return False

    def _change(self, work: Callable[[Connection], _Found]) -> _Found:
        """As ``_write``, one at a time."""
        with self._turn:
            try:
                return self._write(work)
            except BaseException:
                self._dead_letters.forget_counts()
                raise

    def keep_within(self, budgets: Budgets) -> None:
        """Change the limits of the kept dead letters, before the next flush."""
        self._dead_letters.budgets = budgets

    def rows(self) -> list[RetryRow]:
        """Return every retry row, done ones included, in the order of the next attempt.

        ``event`` is None or ``IN_STORE``; ``row_event`` has the bytes.
        """
        columns = [column for column in RETRY.c if column is not RETRY.c.event]
        query = (
            sa.select(*columns, RETRY.c.event.is_not(None).label("has_event"))
            .where(RETRY.c.partition == self._partition)
            .order_by(RETRY.c.not_before_ms, RETRY.c.offset, RETRY.c.index)
        )
        return self._read(
            lambda connection: [_row_of(found) for found in connection.execute(query).mappings()]
        )

    def row_event(self, key: DoneKey) -> bytes | None:
        """Return the stored bytes of ``RetryRow.event``; None: there are none."""
        query = sa.select(RETRY.c.event).where(
            RETRY.c.partition == self._partition,
            RETRY.c.offset == key.offset,
            RETRY.c.index == key.index,
            RETRY.c.route == key.route,
        )
        found = self._read(lambda connection: connection.execute(query).scalar())
        return None if found is None else bytes(found)

    def backfills(self) -> list[BackfillRow]:
        """Return every backfill row."""
        query = sa.select(BACKFILL).where(BACKFILL.c.partition == self._partition)
        return self._read(
            lambda connection: [
                BackfillRow(
                    found["route"],
                    found["start"],
                    found["start_index"],
                    found["from_offset"],
                    found["to_offset"],
                    bytes(found["record"]),
                )
                for found in connection.execute(query).mappings()
            ]
        )

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """Return the oldest kept dead letters, at most *limit*."""
        return [kept.dead_letter for kept in self.kept_dead_letters(limit)]

    def kept_dead_letters(
        self, limit: int, after: int = 0, route: str | None = None
    ) -> list[KeptDeadLetter]:
        """Return the oldest dead letters after number *after*, at most *limit*.

        Args:
            limit: Most dead letters; each has its event, of up to 1 MiB.
            after: ``KeptDeadLetter.id`` of the last known one; 0: from the first.
            route: Only of this route, or of ``letters_of`` a namespace; None: of all.
        """
        return self._read(
            lambda connection: choose_letters(
                connection,
                self._partition,
                LetterChoice(route),
                limit=limit,
                after=after,
                bytes_max=math.inf,
                marked=True,
            )
        )

    def apply(self, changes: Changes) -> list[GivenUp]:
        """Make *changes* durable, all or none; idempotent.

        Returns:
            What was given up for the dead letters among them.

        Raises:
            StoreError: Nothing was changed.
        """
        return self._change(lambda connection: self.put(connection, changes))

    def put(self, connection: Connection, changes: Changes) -> list[GivenUp]:
        """As ``apply``, within the transaction of *connection*."""
        # First: a row that is void, and one that another event of its position has got since.
        self._forget(connection, changes.forget)
        self._put_rows(connection, changes)
        self._put_backfills(connection, changes)
        self._put_parked(connection, changes)
        put_runs(connection, self._partition, list(changes.runs.values()))
        self._dead_letters.take(connection, changes.taken)
        given_up: list[GivenUp] = []
        if changes.dead_letters:
            given_up = self._dead_letters.put(connection, changes.dead_letters)
        return given_up

    def _forget(self, connection: Connection, keys: Sequence[DoneKey]) -> None:
        if keys:
            connection.execute(
                RETRY.delete().where(
                    RETRY.c.partition == self._partition,
                    RETRY.c.offset == sa.bindparam("b_offset"),
                    RETRY.c.index == sa.bindparam("b_index"),
                    RETRY.c.route == sa.bindparam("b_route"),
                ),
                [
                    {"b_offset": key.offset, "b_index": key.index, "b_route": key.route}
                    for key in keys
                ],
            )

    def keep_house(
        self, gone: Collection[str], now_ms: int, namespaces: Mapping[str, str] = NO_NAMES
    ) -> KeptDeadLetters:
        """Give up dead letters that are too old, delete those of routes in *gone*, free disk space.

        Does a part of it, in short transactions: flushes run in between. Idempotent. Notes the
        *namespaces* of routes whose dead letters an earlier version kept.

        Raises:
            StoreError: A part of it was not done.
        """
        given_up: list[GivenUp] = []
        left = list(gone)
        more = True
        turns = 0

        def turn(connection: Connection) -> list[GivenUp]:
            self._dead_letters.name(connection, namespaces)
            old = self._dead_letters.expire(connection, now_ms)
            while left and not self._dead_letters.drop_route(connection, left[-1]):
                left.pop()  # Nothing of it is left: only a read, no slice.
            return old

        while more and turns < TURNS_MAX:
            turns += 1
            old = self._change(turn)
            given_up += old
            more = bool(old or left)
        if not more:
            more = self._give_back()
        routes = self._read(self._dead_letters.routes)
        unnamed = [route for route, namespace in routes.items() if namespace is None]
        return KeptDeadLetters(list(routes), given_up, more, unnamed)

    def chosen_letters(
        self, choice: LetterChoice, limit: int, after: int, bytes_max: int
    ) -> list[KeptDeadLetter]:
        """Return the oldest dead letters of *choice* after number *after*, for a run.

        Their events are without error attributes. There are at most *limit*, and the last one
        makes their events *bytes_max* bytes or more.
        """
        return self._read(
            lambda connection: choose_letters(
                connection,
                self._partition,
                choice,
                limit=limit,
                after=after,
                bytes_max=bytes_max,
            )
        )

    def begin_run(self, seq: int, choice: LetterChoice = EVERY_LETTER) -> RunRow:
        """Return the progress of demand *seq*; a new run looks at present letters of *choice*."""

        def begin(connection: Connection) -> RunRow:
            found = read_runs(connection, self._partition, [seq])
            if found:
                return found[seq]
            through = self._dead_letters.newest(connection)
            total = count_letters(connection, self._partition, choice._replace(through=through))
            row = RunRow(seq, 0, through, 0, 0, done=not total, total=total)
            self._begin(connection, row)
            return row

        return self._change(begin)

    def begin_run_as(self, row: RunRow) -> RunRow:
        """Return the progress of a demand; *row* where it has none yet."""

        def begin(connection: Connection) -> RunRow:
            found = read_runs(connection, self._partition, [row.seq])
            if found:
                return found[row.seq]
            self._begin(connection, row)
            return row

        return self._change(begin)

    def runs(self, seqs: Sequence[int]) -> dict[int, RunRow]:
        """Return the progress of these demands, of those that have begun."""
        wanted = list(seqs)
        return self._read(lambda connection: read_runs(connection, self._partition, wanted))

    def _begin(self, connection: Connection, row: RunRow) -> None:
        put_runs(connection, self._partition, [row])
        forget_runs(connection, self._partition, row.seq)

    def parked(self) -> list[ParkedRow]:
        """Return every parked route."""
        columns = [PARKED.c[name] for name in ParkedRow._fields]
        query = sa.select(*columns).where(PARKED.c.partition == self._partition)
        return self._read(
            lambda connection: [ParkedRow._make(found) for found in connection.execute(query)]
        )

    def _put_parked(self, connection: Connection, changes: Changes) -> None:
        put = [row._asdict() for row in changes.parked.values() if row is not None]
        if put:
            upsert(connection, PARKED, [{"partition": self._partition, **row} for row in put])
        gone = [route for route, row in changes.parked.items() if row is None]
        for some in slices(gone):
            mine = sa.and_(PARKED.c.partition == self._partition, PARKED.c.route.in_(some))
            connection.execute(PARKED.delete().where(mine))

    def _put_rows(self, connection: Connection, changes: Changes) -> None:
        rows = [self._values(row) for row in changes.rows.values() if row.event != IN_STORE]
        if rows:
            upsert(connection, RETRY, rows)
        kept = [self._values(row) for row in changes.rows.values() if row.event == IN_STORE]
        if kept:
            for values in kept:
                del values["event"]
            names = tuple(c.name for c in RETRY.c if not c.primary_key and c.name != "event")
            upsert(connection, RETRY, kept, only=names)

    def _values(self, row: RetryRow) -> dict[str, Any]:
        failure = row.failure
        return {
            "partition": self._partition,
            "offset": row.key.offset,
            "index": row.key.index,
            "route": row.key.route,
            "checksum": row.checksum,
            "leg": int(row.stage),
            "attempt": row.attempt,
            "not_before_ms": row.not_before_ms,
            "reason": failure.reason if failure else None,
            "error_dest": failure.dest if failure else None,
            "error_code": failure.code if failure else None,
            "error_data": failure.data if failure else None,
            "done": row.done,
            "event": row.event,
        }

    def _put_backfills(self, connection: Connection, changes: Changes) -> None:
        put = [
            backfill._asdict() for backfill in changes.backfills.values() if backfill is not None
        ]
        if put:
            upsert(
                connection,
                BACKFILL,
                [{"partition": self._partition, **backfill} for backfill in put],
            )
        gone = [name for name, backfill in changes.backfills.items() if backfill is None]
        if gone:
            connection.execute(
                BACKFILL.delete().where(
                    BACKFILL.c.partition == self._partition,
                    BACKFILL.c.route == sa.bindparam("b_route"),
                    BACKFILL.c.start == sa.bindparam("b_start"),
                ),
                [{"b_route": route, "b_start": start} for route, start in gone],
            )


def _row_of(found: sa.RowMapping) -> RetryRow:
    failure = None
    if found["reason"] is not None:
        failure = Failure(
            found["reason"], found["error_dest"] or "", found["error_code"], found["error_data"]
        )
    return RetryRow(
        DoneKey(found["offset"], found["index"], found["route"]),
        found["checksum"],
        Stage(found["leg"]),
        found["attempt"],
        found["not_before_ms"],
        failure,
        found["done"],
        IN_STORE if found["has_event"] else None,
    )
