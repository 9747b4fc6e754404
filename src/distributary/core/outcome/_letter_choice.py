"""Reads kept dead letters; called by the delivery store and its readers."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.flow import DoneKey
from distributary.core.outcome import _dead_letter_tables as t
from distributary.core.outcome._letter_events import join
from distributary.core.outcome._slices import NAMES_MAX
from distributary.core.outcome.dead_letter import (
    DeadLetter,
    Failure,
    KeptDeadLetter,
    LetterChoice,
    selected,
)

_ROWS = (
    sa.select(
        t.dead_letter.c.id,
        t.dead_letter.c.offset,
        t.dead_letter.c.index,
        t.route.c.route,
        t.route.c.namespace,
        t.dead_letter.c.checksum,
        t.dead_letter.c.kept_ms,
        t.cause.c.reason,
        t.cause.c.error_dest,
        t.cause.c.error_code,
        t.cause.c.error_data,
        t.cause.c.marks,
        t.body.c.event,
    )
    .join(t.route, t.route.c.id == t.dead_letter.c.route)
    .join(t.cause, t.cause.c.id == t.dead_letter.c.cause)
    .join(t.body, t.body.c.id == t.dead_letter.c.body)
)


def choose_letters(
    connection: Connection,
    partition: int,
    choice: LetterChoice,
    *,
    limit: int,
    after: int,
    bytes_max: float,
    marked: bool = False,
) -> list[KeptDeadLetter]:
    """Read the oldest dead letters of *choice*; see ``DeliveryStore.chosen_letters``.

    With *marked*, their events have their error attributes: that takes longer.
    """
    number = t.dead_letter.c.id
    which = sa.and_(_chosen(connection, partition, choice), number > after)
    query = _ROWS.where(number.in_(oldest(connection, partition, which, limit))).order_by(number)
    found: list[KeptDeadLetter] = []
    size = 0
    for row in connection.execute(query):
        # By place: by name takes three times as long.
        id_, offset, index, route, namespace, checksum, kept_ms, *cause, marks, event = row
        reason, dest, code, data = cause
        failure = Failure(reason, dest or "", code, data)
        sent = join(event, marks) if marked else event
        key = DoneKey(offset, index, route)
        letter = DeadLetter(key, checksum, failure, sent, kept_ms, namespace)
        found.append(KeptDeadLetter(id_, letter, event))
        size += len(event)
        if size >= bytes_max:
            break
    return found


def oldest(
    connection: Connection, partition: int, which: sa.ColumnElement[bool], limit: int
) -> sa.Select[tuple[int]]:
    """Select the numbers of the oldest dead letters of *partition* that *which* chooses.

    Numbers alone: where they must be sorted, nothing is read for all that are not selected.
    """
    letter = t.dead_letter.c
    if connection.dialect.name == "postgresql":
        mine = letter.partition == partition  # by ``letter_in_order``: all partitions are here
    else:
        # The sum keeps SQLite from sorting all of the partition: numbers are in order by
        # themselves.
        mine = letter.partition + 0 == partition
    return sa.select(letter.id).where(mine, which).order_by(letter.id).limit(limit)


def count_letters(connection: Connection, partition: int, choice: LetterChoice) -> int:
    """Count the dead letters of *choice*."""
    query = sa.select(sa.func.count()).select_from(t.dead_letter)
    mine = t.dead_letter.c.partition == partition
    query = query.where(mine, _chosen(connection, partition, choice))
    return int(connection.execute(query).scalar_one())


def _chosen(connection: Connection, partition: int, choice: LetterChoice) -> sa.ColumnElement[bool]:
    """The condition on dead letters of *choice*."""
    letter = t.dead_letter.c
    which: sa.ColumnElement[bool] = sa.true()
    if choice.route is not None:
        numbers = _numbers(partition, choice.route)
        few = list(connection.execute(numbers.limit(NAMES_MAX + 1)).scalars())
        # Of a single route they are in order too.
        which &= letter.route.in_(few if len(few) <= NAMES_MAX else numbers)
    if choice.ids:
        which &= letter.id.in_(choice.ids)
    if choice.through is not None:
        which &= letter.id <= choice.through
    if choice.since_ms is not None:
        which &= letter.kept_ms >= choice.since_ms
    if choice.until_ms is not None:
        which &= letter.kept_ms < choice.until_ms
    return which


def _numbers(partition: int, selection: str) -> sa.Select[tuple[int]]:
    """Select the numbers of the routes of *selection*."""
    return sa.select(t.route.c.id).where(t.route.c.partition == partition, selects(selection))


def selects(selection: str) -> sa.ColumnElement[bool]:
    """Condition on routes: *selection* is a uid, or ``letters_of`` a namespace."""
    namespace, route = selected(selection)
    of_namespace = t.route.c.namespace == namespace if namespace else sa.true()
    return sa.and_(of_namespace, t.route.c.route == route if route else sa.true())
