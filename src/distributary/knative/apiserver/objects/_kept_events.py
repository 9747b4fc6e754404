"""Which Events are kept: a budget for all namespaces, of which each has its share."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import takewhile
from typing import Final

from distributary.knative.apiserver.machinery import Key

EVENTS_MAX: Final = 10_000
"""Events that are kept, so that they do not fill the store; beyond it the namespace that has most
gives up its oldest. One that has no more than an equal share loses none to others."""


class KeptEvents:
    """Events and their last writes.

    Args:
        written: Last write of each, wall clock, milliseconds; oldest first.
    """

    def __init__(self, written: Mapping[Key, int]) -> None:
        self._written: OrderedDict[Key, int] = OrderedDict()
        self._by_namespace: dict[str, OrderedDict[Key, None]] = {}
        for key, at_ms in written.items():
            self.note(key, at_ms)

    @property
    def too_many(self) -> int:
        """Events beyond the budget."""
        return max(0, len(self._written) - EVENTS_MAX)

    def note(self, key: Key, at_ms: int) -> None:
        """An Event was written, after all others."""
        self.forget(key)
        self._written[key] = at_ms
        self._by_namespace.setdefault(key.namespace, OrderedDict())[key] = None

    def forget(self, key: Key) -> None:
        """An Event was deleted; or is being deleted, and nothing is left to do."""
        if self._written.pop(key, None) is None:
            return
        events = self._by_namespace[key.namespace]
        del events[key]
        if not events:
            del self._by_namespace[key.namespace]

    def due(self, before_ms: int) -> Iterator[Key]:
        """Events to delete: written before *before_ms*; where there is none, beyond the budget.

        Valid until the next change.
        """
        none_old = True
        for key, _ in takewhile(lambda event: event[1] < before_ms, self._written.items()):
            none_old = False
            yield key
        if none_old and self.too_many:
            yield from self._beyond_budget()

    def _beyond_budget(self) -> Iterator[Key]:
        share = EVENTS_MAX // len(self._by_namespace)
        having_more = (each for each in self._by_namespace.values() if len(each) > share)
        heads = [self._head(len(events), iter(events)) for events in having_more]
        heapify(heads)
        for _ in range(self.too_many):
            count, _, key, rest = heads[0]
            yield key
            if count == -1:
                heappop(heads)
            else:
                heapreplace(heads, self._head(-count - 1, rest))

    def _head(self, count: int, rest: Iterator[Key]) -> tuple[int, int, Key, Iterator[Key]]:
        """Sorts a namespace with *count* Events, *rest*: by their number, then their oldest."""
        key = next(rest)
        return -count, self._written[key], key, rest
