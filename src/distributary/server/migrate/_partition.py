"""Moves what the owner of a partition keeps, by the ports that owners use: whole by their rules.

Everything that is put is put once more without harm, so a move that was interrupted is begun anew.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from distributary.core.demand import Demand
from distributary.core.engine.replays import name_of
from distributary.core.flow import DoneKey, Mark
from distributary.core.outcome import (
    IN_STORE,
    Batch,
    Budgets,
    Changes,
    Deliveries,
    KeptDeadLetter,
    Ownership,
    RetryRow,
    RunRow,
    TallyStore,
)
from distributary.partitions.renumbering import renumbered
from distributary.server.migrate import _moving
from distributary.server.migrate._errors import MigrationError
from distributary.server.migrate._source import PartitionSource

ROWS: Final = 500
"""Rows of one flush: their events have up to 1 MiB each, and few have one."""
LETTERS: Final = 64
"""Kept dead letters that are read at a time, with their events."""
DONE: Final = 20_000
"""Outcomes of one flush: 2 MB."""

NO_BUDGET: Final = Budgets(bytes_max=2**62, route_bytes_max=2**62, age_max_s=2**40)
"""What the source keeps is within its budgets; the next owner applies its own."""

_OVER_LETTERS: Final = frozenset({"redrive", "purge"})

_Item = TypeVar("_Item")


class Counts(NamedTuple):
    """What was moved of one partition, or what its store holds.

    Attributes:
        committed: Its committed offset.
        done: Outcomes above it.
        rows: Retry rows.
        backfills: Backfills.
        dead_letters: Kept ones.
        parked: Routes whose sinks responded 410.
        runs: Runs that have begun here.
        tallies: Routes with a tally.
    """

    committed: int
    done: int
    rows: int
    backfills: int
    dead_letters: int
    parked: int
    runs: int
    tallies: int


def move(
    source: PartitionSource, target: Ownership, tallies: TallyStore, demands: Collection[Demand]
) -> _moving.Numbers:
    """Move the state of one partition into *target* and *tallies*.

    Returns the new numbers of kept dead letters; empty where no run looks at any.

    Args:
        source: The partition.
        target: Empty, or what an earlier try has left.
        tallies: Likewise.
        demands: What people have asked of the partitions.

    Raises:
        StoreError: The database failed; begin anew.
    """
    rows, stored = source.store.rows(), source.store.backfills()
    done, needed = outcomes(source, demands), _needed(source.store, demands)
    moving = source.moving(
        itertools.chain(
            [source.state.mark.offset - 1],
            (key.offset for key in done),
            (row.key.offset for row in rows),
        )
    )
    nothing_done = Mark(0, 0)
    for some in _slices(rows, ROWS):
        changed = {row.key: row for row in map(moving.row, _whole(source.store, some))}
        target.flush(Batch(nothing_done, changes=Changes(rows=changed)))
    backfills = {row.name: row for row in map(moving.backfill, stored)}
    parked = {row.route: row for row in source.store.parked()}
    target.flush(
        Batch(nothing_done, changes=Changes(backfills=dict(backfills), parked=dict(parked)))
    )
    letters = _move_letters(source, target, demands)
    runs = _moved_runs(source, demands, moving, letters)
    target.flush(Batch(nothing_done, changes=Changes(runs=runs)))
    # Last: what is done, and then the committed offset, which speaks of all before.
    needed = {name: max(moving.offset(first), 0) for name, first in needed.items()}
    for finished in _slices(moving.done(done), DONE):
        target.flush(Batch(nothing_done, done=finished, backfilling=needed))
    mark = moving.mark(source.state.mark)
    # Those that an earlier try has put are there still: only owners file them.
    for block in source.state.blocks[len(target.state.blocks) :]:
        history = block.length, renumbered(block.rows, source.start)
        target.flush(Batch(mark, backfilling=needed, history=history))
    target.flush(Batch(mark, backfilling=needed))
    _move_tallies(source, tallies)
    return letters


def outcomes(source: PartitionSource, demands: Collection[Demand]) -> dict[DoneKey, int]:
    """The outcomes that the next owner may look up, with the checksums of their records."""
    mark, needed = source.state.mark, _needed(source.store, demands)
    return {
        key: checksum
        for key, checksum in source.state.done.items()
        if key.offset >= min(mark.offset, needed.get(key.route, mark.offset))
    }


def _needed(store: Deliveries, demands: Collection[Demand]) -> dict[str, int]:
    """The lowest record that the backfills of each route, and each replay, still need."""
    needed: dict[str, int] = {}
    for row in store.backfills():
        needed[row.route] = min(needed.get(row.route, row.from_offset), row.from_offset)
    replays = [demand.seq for demand in demands if demand.kind == "replay"]
    runs = store.runs(replays).values()
    return needed | {name_of(run.seq): run.at for run in runs if not run.done}


def _whole(store: Deliveries, rows: Iterable[RetryRow]) -> Iterator[RetryRow]:
    """*rows* with the bytes of their events."""
    for row in rows:
        yield row._replace(event=store.row_event(row.key)) if row.event == IN_STORE else row


def _letters(store: Deliveries) -> Iterator[list[KeptDeadLetter]]:
    after = 0
    while some := store.kept_dead_letters(LETTERS, after):
        yield some
        after = some[-1].id


def _move_letters(
    source: PartitionSource, target: Ownership, demands: Collection[Demand]
) -> _moving.Numbers:
    """Move the kept dead letters, oldest first; returns their new numbers, as ``move``."""
    before: list[int] = []
    for some in _letters(source.store):
        moving = source.moving(kept.dead_letter.key.offset for kept in some)
        letters = [moving.dead_letter(kept.dead_letter) for kept in some]
        given_up = target.flush(Batch(Mark(0, 0), changes=Changes(dead_letters=letters)))
        if given_up:
            raise MigrationError(f"the database gave up kept dead letters: {given_up}")
        before += [kept.id for kept in some]
    if not any(demand.kind in _OVER_LETTERS for demand in demands):
        return {}
    after = [kept.id for some in _letters(target.store) for kept in some]
    return dict(zip(before, after, strict=True))


def _moved_runs(
    source: PartitionSource,
    demands: Collection[Demand],
    moving: _moving.Moving,
    letters: _moving.Numbers,
) -> dict[int, RunRow]:
    found = source.store.runs([demand.seq for demand in demands])
    runs: dict[int, RunRow] = {}
    for demand in demands:
        row = found.get(demand.seq)
        if row is not None and demand.kind == "replay":
            row = moving.replay(row)
        elif row is not None and demand.kind in _OVER_LETTERS:
            row = _moving.redrive(row, letters)
        if row is not None:
            runs[demand.seq] = row
    return runs


def _move_tallies(source: PartitionSource, target: TallyStore) -> None:
    tallies = source.tallies()
    try:
        for routes in _slices(tallies.routes(), ROWS):
            found = {route: tallies.get(route) for route in routes}
            target.put({route: tally for route, tally in found.items() if tally is not None})
    finally:
        tallies.close()


def expected(source: PartitionSource, demands: Collection[Demand]) -> Counts:
    """What the database must hold of *source*."""
    tallies = source.tallies()
    try:
        routes = len(tallies.routes())
    finally:
        tallies.close()
    done = outcomes(source, demands)
    store, moving = source.store, source.moving(key.offset for key in done)
    return Counts(
        moving.mark(source.state.mark).offset,
        len(moving.done(done)),
        len(store.rows()),
        len(store.backfills()),
        sum(len(some) for some in _letters(store)),
        len(store.parked()),
        len(store.runs([demand.seq for demand in demands])),
        routes,
    )


def found(target: Ownership, tallies: TallyStore, demands: Collection[Demand]) -> Counts:
    """What the database holds of one partition."""
    store = target.store
    return Counts(
        target.state.mark.offset,
        len(target.state.done),
        len(store.rows()),
        len(store.backfills()),
        sum(len(some) for some in _letters(store)),
        len(store.parked()),
        len(store.runs([demand.seq for demand in demands])),
        len(tallies.routes()),
    )


def _slices(items: Iterable[_Item], count: int) -> Iterator[list[_Item]]:
    left = iter(items)
    while some := list(itertools.islice(left, count)):
        yield some
