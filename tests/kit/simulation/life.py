"""An owner of a simulation, with the state that dies with it."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributary.core.demand import Demand
from distributary.core.errors import DistributaryError
from distributary.core.journal import Journal, JournalState, read_journal
from distributary.core.outcome import (
    Budgets,
    DeadLetter,
    FileOwnership,
    Ownership,
    ReservationStore,
)
from distributary.datadir import MappedStatusPage
from distributary.partitions.consumer import PartitionConsumer
from distributary.testing.memory_ownership import MemoryOwnership
from kit.simulation.history import LEAP
from kit.simulation.ports import (
    LifeTimers,
    SimulatedFiles,
    SimulatedTargets,
    StoreWatch,
    WatchedMemory,
    WatchedStore,
)

__all__ = ["Life", "check_floor", "finish", "own", "runs_are_done", "take_new", "used_up", "watch"]


@dataclass(slots=True)
class Life:
    """An owner with the state that dies with it."""

    consumer: PartitionConsumer
    timers: LifeTimers
    ownership: Ownership
    let_go: Callable[[], None]
    status_page: MappedStatusPage
    read_to: int
    failure: DistributaryError | None = None


def watch(budgets: Budgets | None, *, in_memory: bool) -> WatchedStore | WatchedMemory:
    """Returns a store of rows: plain objects, or a database in memory."""
    return WatchedMemory(budgets) if in_memory else WatchedStore(budgets)


def own(
    store: WatchedStore | WatchedMemory, files: SimulatedFiles, path: Path, state: JournalState
) -> tuple[Ownership, Callable[[], None]]:
    """Returns the durable state, and a function that releases it.

    Args:
        store: Rows, backfills and dead letters.
        files: Injects faults.
        path: Path of the journal, for a store in a database.
        state: Cursors and outcomes, for a store in memory.
    """
    if isinstance(store, WatchedMemory):
        return MemoryOwnership(store, state, touch=files.touch), lambda: None
    leap = read_journal(path)[0].history_end // LEAP + 1  # as by a clock
    with files.calm():
        journal = Journal(path, files, rows_from=leap * LEAP)
        return FileOwnership(store, journal), journal.close


def finish(closing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that must not wait."""
    try:
        closing.send(None)
    except StopIteration:
        return
    raise AssertionError("closing the dispatcher waited for something")


def check_floor(floor: int, cursor: int, store: StoreWatch, archived_to: int | None = None) -> None:
    """Assert that retention keeps what the durable state needs.

    Args:
        floor: The retention floor that the owner published.
        cursor: The durable cursor.
        store: Rows and backfills.
        archived_to: Records below are in an archive, and no others are deleted: rows need nothing
            of them in the log. None: there is no archive.
    """
    if archived_to is not None:
        floor = min(floor, archived_to)
    needed = [cursor]
    needed += [
        backfill.from_offset
        for backfill in store.kept_backfills.values()
        if backfill.from_offset != backfill.to_offset
    ]
    needed += [
        row.key.offset
        for row in store.kept_rows.values()
        if not row.done and row.event is None and row.key.offset >= (archived_to or 0)
    ]
    assert floor <= min(needed), f"retention may delete up to {floor}, needed {min(needed)}"


def take_new(store: StoreWatch) -> list[DeadLetter]:
    """Remove and return the dead letters that *store* has taken since the last call."""
    dead_letters, store.new_dead_letters = store.new_dead_letters, []
    return dead_letters


def runs_are_done(asked: Sequence[Demand], store: WatchedStore | WatchedMemory) -> bool:
    """Returns whether every run that was *asked* for is durably over."""
    seqs = [demand.seq for demand in asked if demand.kind not in {"resume", "cancel"}]
    found = store.runs(seqs)
    return all(seq in found and found[seq].done for seq in seqs)


def used_up(
    reservations: ReservationStore, targets: SimulatedTargets, routes: Iterable[str]
) -> list[str]:
    """Returns those of *routes* that have made all their deliveries."""
    found = []
    for route in reservations.used_up():
        if route in routes:
            events_max = targets.now[route].events_max
            # The count is of the revision that was asked under; this may be another one.
            if events_max is not None and reservations.delivered(route) >= events_max:
                found.append(route)
    return found
