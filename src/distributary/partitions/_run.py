"""One run of a partition: what was asked, how far it is, and its rate."""

from collections.abc import Callable
from typing import Final, Protocol

from distributary.core.demand import Demand
from distributary.core.engine.replays import Replay
from distributary.core.event import Event
from distributary.core.flow import RouteRecord
from distributary.core.outcome import RunRow
from distributary.core.outcome.dead_letter import selected
from distributary.core.route import WalkMatcher

ROWS_SHARE: Final = 0.5
"""A run pauses while a route, or all together, use this share of their limit of rows."""
SLICE: Final = 256
"""Dead letters or matches taken at once: some 5 ms of the loop's time."""
BURST_S: Final = 0.25
"""Seconds of its rate that a run may catch up after it had to wait."""


NEAR: Final = 1_024
"""Records below the committed offset from which a replay counts as waiting for it: where the cursor
goes on record by record, so does the replay, and a look may find it in between."""


class Run:
    """A run that has begun here.

    Args:
        demand: What was asked.
        row: How far it is.

    Attributes:
        waits_at: The committed offset must pass this record before it goes on.
        held_by: Uid of the route that its next dead letter waits for; empty: it waits for none.
        rests: Nothing came of its last turn: until the next tick others go on.
        replay: What it sends, where it is a replay that sends; ``row`` is how far it has read.
        met_by: The record that the live path must have reached: below it stands what was asked for
            before the run, such as newer filters of its route, or a new route.
    """

    def __init__(self, demand: Demand, row: RunRow, met_by: int = 0) -> None:
        self.demand = demand
        self.row = row
        self.waits_at = -1
        self.held_by = ""
        self.replay: Replay | None = None
        self.met_by = met_by
        self.rests = False
        self._tokens = 0.0
        self._filled_s: float | None = None
        self._filter = chooser(demand)

    @property
    def of_many(self) -> bool:
        """Whether it is for whatever routes there are: what is halted is left as it is.

        One for a route, or for chosen dead letters, waits until they may be sent.
        """
        demand = self.demand
        return not demand.details.ids and not selected(demand.route)[1]

    def waits_for_cursor(self, durable: int) -> bool:
        """Whether the committed offset *durable* is about to hold it up, or does."""
        if self.replay is None:
            return durable <= self.waits_at
        return durable - NEAR <= self.row.at and durable < self.row.through

    def may_take(self, now_s: float) -> int:
        """How many the rate allows now, at most ``SLICE``."""
        rate = self.demand.details.share
        if rate is None:
            return SLICE
        if self._filled_s is None:
            self._tokens = 1.0
        else:
            self._tokens += (now_s - self._filled_s) * rate
        self._filled_s = now_s
        self._tokens = min(self._tokens, max(1.0, rate * BURST_S))
        return min(int(self._tokens), SLICE)

    def wait_s(self) -> float:
        """Seconds from the last ``may_take`` until the rate allows one."""
        rate = self.demand.details.share
        return 0.0 if rate is None else max(0.0, 1.0 - self._tokens) / rate

    def took(self, count: int) -> None:
        """Note that *count* were sent, deleted, or would have been."""
        self._tokens = max(0.0, self._tokens - count)

    def chooses(self, event: Event) -> bool:
        """Whether the filters of the request choose *event*."""
        return self._filter is None or bool(self._filter.match(event))


class RunKind(Protocol):
    """One kind of run. Its methods block or run on the loop, as they say."""

    def begin(self, demand: Demand) -> RunRow:
        """Return the durable progress of a run that may be new. Blocks: call it in a thread."""

    def take(self, run: Run, count: int, then: Callable[[RunRow | None], None]) -> None:
        """Take the next slice of *run*, of at most *count*.

        Calls *then* on the loop, now or later, with its new progress, which is not durable yet;
        None: nothing could be read now.
        """


def chooser(demand: Demand) -> WalkMatcher | None:
    """A matcher of the filters that *demand* itself has; None: it has none."""
    filters = demand.details.filters
    if not filters:
        return None
    matcher = WalkMatcher()
    matcher.put(RouteRecord(seq=1, op="put", uid="run", revision=1, filters=filters))
    return matcher
