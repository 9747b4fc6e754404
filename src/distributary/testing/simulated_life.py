"""One owner of a simulation, and what dies with it."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from distributary.core.errors import DistributaryError
from distributary.core.journal import Journal
from distributary.datadir import Board
from distributary.partitions.owner import Owner
from distributary.testing.simulated_ports import LifeTimers, MirroredStore

__all__ = ["Life", "check_floor", "finish"]


@dataclass(slots=True)
class Life:
    """One owner and what dies with it."""

    owner: Owner
    timers: LifeTimers
    journal: Journal
    board: Board
    read_to: int
    failure: DistributaryError | None = None


def finish(closing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        closing.send(None)
    except StopIteration:
        return
    raise AssertionError("closing the dispatcher waited for something")


def check_floor(floor: int, cursor: int, store: MirroredStore) -> None:
    """Retention must keep what the durable state needs.

    Args:
        floor: Where retention may begin, by what the owner says.
        cursor: The durable cursor.
        store: Rows and lags.
    """
    needed = [cursor]
    needed += [
        lag.from_offset for lag in store.kept_lags.values() if lag.from_offset != lag.to_offset
    ]
    needed += [
        row.key.offset for row in store.kept_rows.values() if not row.done and row.event is None
    ]
    assert floor <= min(needed), f"retention may delete up to {floor}, needed {min(needed)}"
