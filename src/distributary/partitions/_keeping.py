"""Housekeeping of kept dead letters: budgets, age, and deletion with their route."""

from collections.abc import Callable, Sequence
from typing import Final

from distributary.core.clock import AgeClock
from distributary.core.errors import StoreError
from distributary.core.outcome import GivenUp, KeptDeadLetters
from distributary.partitions.context import PartitionContext

HOUSE_EVERY_S: Final = 10.0
"""How often kept dead letters are checked for their age."""
GONE_S: Final = 10.0
"""How long the dead letters of a deleted route are searched for: a flush may be under way."""


class Keeping:
    """Deletes kept dead letters of a partition that exceed a limit, or whose route is deleted.

    Args:
        context: Ports of the consumer.
        stands: Whether a route is in force at the live path.
    """

    def __init__(self, context: PartitionContext, stands: Callable[[str], bool]) -> None:
        self._context = context
        self._clock = context.clock
        self._stands = stands
        self._gone: dict[str, float] = {}  # until when
        self._looked_through = False
        self._namespaces: dict[str, str] = {}  # of routes, to be noted once
        self._due_s = float("-inf")
        self._working = False
        self._ages = AgeClock(context.clock, from_start=False)
        for reason in ("kept-bytes", "kept-age"):
            context.meter.add(f'given_up_total{{reason="{reason}"}}', 0)

    def route_deleted(self, route: str) -> None:
        """Schedule the deletion of the dead letters of *route*."""
        self._gone[route] = self._clock.monotonic_s() + GONE_S
        self._due_s = float("-inf")

    def tick(self) -> None:
        """Run housekeeping if it is due, in a thread."""
        now_s = self._clock.monotonic_s()
        if self._working or now_s < self._due_s:
            return
        self._due_s = now_s + (GONE_S / 10 if self._gone else HOUSE_EVERY_S)
        self._working = True
        gone, (namespaces, self._namespaces) = tuple(self._gone), (self._namespaces, {})
        found: list[KeptDeadLetters] = []
        age_ms = self._ages.now_ms()

        def work() -> None:
            store = self._context.ownership.store
            found.append(store.keep_house(gone, age_ms, namespaces))

        self._context.aside.run(work, lambda error: self._done(found, error))

    def _done(self, found: list[KeptDeadLetters], error: StoreError | None) -> None:
        self._working = False
        if error is not None:
            self._context.warn("letters-not-looked-after", {"error": str(error)})
            return
        (kept,) = found
        self.tell(kept.given_up)
        now_s = self._clock.monotonic_s()
        if not kept.more:  # Else some of them may not have been looked at.
            over = [route for route, until_s in self._gone.items() if until_s <= now_s]
            for route in over:
                del self._gone[route]
        if not self._looked_through:
            # Those that were deleted while nobody held the partition.
            self._looked_through = True
            for route in kept.routes:
                if not self._stands(route) and self._context.targets.get(route) is None:
                    self.route_deleted(route)
        for route in kept.unnamed:  # of an earlier version
            target = self._context.targets.get(route)
            if target is not None and target.namespace is not None:
                self._namespaces[route] = target.namespace
                self._due_s = now_s
        if kept.more:
            self._due_s = now_s

    def tell(self, given_up: Sequence[GivenUp]) -> None:
        """Log and count the dead letters that a budget ended."""
        for told in given_up:
            self._context.meter.add(f'given_up_total{{reason="{told.reason}"}}', told.count)
            fields = {"route": told.route, "count": told.count, "reason": told.reason}
            self._context.warn("dead-letters-given-up", fields)
