"""Checks that tallies are the counts of the outcomes that a simulation saw.

Called by ``partition``.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from distributary.core.engine import Step
from distributary.core.flow import DoneKey, Stage, Task
from distributary.core.outcome import Tally

__all__ = ["TallyChecker"]


class TallyChecker:
    """Counts the outcomes of one owner by route: delivered, dead-lettered, dropped.

    Attributes:
        deleted: Routes that were deleted.
    """

    def __init__(self) -> None:
        self._before: Mapping[str, Tally] = {}
        self._seen: dict[str, Counter[str]] = {}
        self.deleted: set[str] = set()

    def begin(self, stored: Mapping[str, Tally]) -> None:
        """Start a new owner, which begins with the *stored* tallies."""
        self._before = dict(stored)
        self._seen.clear()

    def step(self, step: Step, key: DoneKey, task: Task | None) -> None:
        """Count *step* of the match *key* if it ends it."""
        name = {Step.DROP: "dropped", Step.KEEP: "dead_lettered"}.get(step)
        if step is Step.DELIVER:
            assert task is not None
            name = "delivered" if task.stage is Stage.PRIMARY else "dead_lettered"
        if name is not None:
            self._seen.setdefault(key.route, Counter())[name] += 1

    def check(self, stored: Mapping[str, Tally], routes: Collection[str], *, lives: bool) -> None:
        """Assert that all *stored* tallies of *routes* are what was seen, and no deleted one is.

        Args:
            stored: What the store has, by route.
            routes: Those that exist.
            lives: Whether the owner does; one that failed took what it knew of the last second.
        """
        if not lives:
            return
        for route in routes:
            seen, before = self._seen.get(route, Counter()), self._before.get(route, Tally())
            found = stored.get(route, Tally())
            for name in ("delivered", "dead_lettered", "dropped"):
                total = getattr(before, name) + seen[name]
                assert getattr(found, name) == total, f"{name} of {route}: {found}, not {total}"
            unfinished = found.in_flight, found.waiting, found.backfilling
            assert not any(unfinished), f"{route} is at rest, and not by its tally: {found}"
        left = {route: stored[route] for route in stored if route in self.deleted}
        assert not left, f"deleted routes have tallies: {left}"
