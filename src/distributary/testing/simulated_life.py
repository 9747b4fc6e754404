"""One owner of a simulation, and what dies with it."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from distributary.core.datadir import Board
from distributary.core.engine import Owner
from distributary.core.errors import DistributaryError
from distributary.core.journal import Journal
from distributary.testing.simulated_ports import LifeTimers

__all__ = ["Life", "finish"]


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
