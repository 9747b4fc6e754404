"""Stores the tallies of routes that have changed, once a second, in a thread."""

from typing import Final

from distributary.core.deliver import Dispatcher
from distributary.core.engine.state import PartitionState
from distributary.core.errors import StoreError
from distributary.core.outcome import FailingRoute, Tally
from distributary.partitions.context import PartitionContext

STORED_EVERY_S: Final = 1.0
"""Interval of writes: what a kill loses, and half of what a reader is behind."""


class Tallying:
    """Keeps the store of tallies up to date.

    Args:
        context: Ports of the consumer.
        state: Of the engine; its tallies begin with the stored ones.
        dispatcher: Knows the attempts under way.
    """

    def __init__(
        self, context: PartitionContext, state: PartitionState, dispatcher: Dispatcher
    ) -> None:
        self._context = context
        self._store = context.tallies
        self._state = state
        self._tallies = state.tallies
        self._dispatcher = dispatcher
        self._due_s = float("-inf")
        self._storing = False
        self._refused = False
        self._load()

    def _load(self) -> None:
        table, targets = self._context.follower.table, self._context.targets

        def stands(route: str) -> bool:
            """Whether it exists: its record may still be ahead of the committed offset."""
            return route in table or targets.get(route) is not None

        for route in self._store.routes():  # deleted while nobody held the partition
            if not stands(route):
                self._tallies.forget(route)
        standing = {
            route: tally for route, tally in self._store.standing().items() if stands(route)
        }
        self._tallies.load(standing)
        failing = self._state.failing
        for route in list(failing.troubles):  # by the file, which may be a second behind
            stored = self._store.get(route)
            last = failing.reported(route)
            if stored is not None and last is not None and stored.success_ms > last.last_ms:
                failing.delivered(route)
        failing.load(
            FailingRoute(
                route=route,
                since_ms=tally.failing_since_ms,
                last_ms=tally.failing_last_ms,
                count=tally.failing_count,
                reason=tally.failing_reason,
                dest="",
            )
            for route, tally in standing.items()
            if tally.failing_since_ms and route not in failing.troubles
        )

    def tick(self) -> None:
        """Store what has changed if that is due."""
        now_s = self._context.clock.monotonic_s()
        if not self._storing and now_s >= self._due_s:
            self._due_s = now_s + STORED_EVERY_S
            self._put()

    def finish(self) -> None:
        """Store what has changed, for the next owner."""
        self._put()

    def _put(self) -> None:
        taken, gone = self._look()
        if not taken and not gone:
            return
        self._storing = True
        copies = {route: tally.copy() for route, tally in taken.items()}
        self._context.aside.run(
            lambda: self._store.put(copies, gone), lambda error: self._stored(error, taken, gone)
        )

    def _look(self) -> tuple[dict[str, Tally], list[str]]:
        state, tallies = self._state, self._tallies
        tallies.note_flying(self._dispatcher.flying())
        tallies.note_waiting(*state.rows.take_touched())
        tallies.note_backfilling(state.backfills.by_route)
        tallies.note_parked(state.parked)
        tallies.note_failing(state.failing)
        return tallies.take()

    def _stored(self, error: StoreError | None, taken: dict[str, Tally], gone: list[str]) -> None:
        self._storing = False
        if error is None:
            self._refused = False
            return
        self._tallies.put_back(taken, gone)  # A full disk must not stop deliveries.
        if not self._refused:
            self._refused = True
            self._context.warn("tallies-not-stored", {"error": str(error)})
