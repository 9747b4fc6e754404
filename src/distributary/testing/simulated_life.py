"""An owner of a simulation, with the state that dies with it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributary.core.errors import DistributaryError
from distributary.core.journal import Journal, JournalState
from distributary.core.outcome import FileOwnership, Ownership
from distributary.datadir import MappedStatusPage
from distributary.partitions.consumer import PartitionConsumer
from distributary.testing.memory_ownership import MemoryOwnership
from distributary.testing.simulated_ports import (
    LifeTimers,
    SimulatedFiles,
    StoreWatch,
    WatchedMemory,
    WatchedStore,
)

__all__ = ["Life", "check_floor", "finish", "own"]


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
    journal = Journal(path, files)
    return FileOwnership(store, journal), journal.close


def finish(closing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that must not wait."""
    try:
        closing.send(None)
    except StopIteration:
        return
    raise AssertionError("closing the dispatcher waited for something")


def check_floor(floor: int, cursor: int, store: StoreWatch) -> None:
    """Assert that retention keeps what the durable state needs.

    Args:
        floor: The retention floor that the owner published.
        cursor: The durable cursor.
        store: Rows and backfills.
    """
    needed = [cursor]
    needed += [
        backfill.from_offset
        for backfill in store.kept_backfills.values()
        if backfill.from_offset != backfill.to_offset
    ]
    needed += [
        row.key.offset for row in store.kept_rows.values() if not row.done and row.event is None
    ]
    assert floor <= min(needed), f"retention may delete up to {floor}, needed {min(needed)}"
