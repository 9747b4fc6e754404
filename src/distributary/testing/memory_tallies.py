"""Tallies of a partition in memory: a ``TallyStore`` and a ``TallyReader`` of it."""

from collections.abc import Iterable, Mapping

from distributary.core.errors import StoreError
from distributary.core.outcome import Tally

__all__ = ["MemoryTallies", "MemoryTallyReader"]


class MemoryTallies:
    """Tallies for the lifetime of this object. Passes ``check_tallies``.

    Attributes:
        failing_puts: ``put`` is refused while this is true.
        kept: The tallies.
        count: Puts so far.
    """

    def __init__(self) -> None:
        self.failing_puts = False
        self.kept: dict[str, Tally] = {}
        self.count = 0
        self.changed: dict[str, int] = {}

    def routes(self) -> list[str]:
        """See ``TallyStore``."""
        return list(self.kept)

    def get(self, route: str) -> Tally | None:
        """See ``TallyStore``."""
        found = self.kept.get(route)
        return None if found is None else found.copy()

    def standing(self) -> Mapping[str, Tally]:
        """See ``TallyStore``."""
        return {r: tally.copy() for r, tally in self.kept.items() if not tally.at_rest}

    def put(self, tallies: Mapping[str, Tally], gone: Iterable[str] = ()) -> None:
        """See ``TallyStore``."""
        if self.failing_puts:
            raise StoreError("tallies cannot be written: told to")
        self.count += 1
        for route in gone:
            self.kept.pop(route, None)
            self.changed[route] = self.count
        for route, tally in tallies.items():
            self.kept[route] = tally.copy()
            self.changed[route] = self.count


class MemoryTallyReader:
    """Follows *store*.

    Args:
        store: Of the same process.
    """

    def __init__(self, store: MemoryTallies) -> None:
        self._store = store
        self._seen = 0
        self._shown: set[str] = set()

    def get(self, route: str) -> Tally | None:
        """See ``TallyReader``."""
        return self._store.get(route) if route in self._shown else None

    def changes(self) -> dict[str, Tally | None]:
        """See ``TallyReader``."""
        changed = [route for route, at in self._store.changed.items() if at > self._seen]
        self._seen = self._store.count
        found = {route: self._store.get(route) for route in changed}
        known = {route: one for route, one in found.items() if one or route in self._shown}
        self._shown |= known.keys()
        self._shown -= {route for route, one in known.items() if one is None}
        return known
