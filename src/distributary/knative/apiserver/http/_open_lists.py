"""Lists that clients are reading: what these keep of states that have passed has a bound.

Called by ``KubernetesApi`` and ``Watches``. A client that reads slowly keeps the objects of its
list in memory, while others replace them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakSet

from distributary.access import Identity
from distributary.knative.apiserver.http._view import ListView, end_of_slice
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.objects import ObjectChange, Stored

OPEN_REPLACED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Objects that have changed since and are in lists that clients are reading, bytes; beyond it those
who have most of it lose one list. In memory they need up to eight times as much. As for snapshots:
a list is read in seconds as a rule, and little changes meanwhile."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _OpenList:
    """A list as it was.

    Attributes:
        items: Its objects; none once it is dropped.
        resource: ``Kind.resource``.
        namespace: None: of all namespaces.
        version: Of the list.
        owner: Namespaces of who reads it.
        replaced_bytes: Of its objects that have changed since.
    """

    items: Sequence[Stored]
    resource: str
    namespace: str | None
    version: int
    owner: tuple[str, ...]
    replaced_bytes: int = 0
    dropped: bool = False


class OpenLists:
    """All lists that are being read. For one event loop."""

    def __init__(self) -> None:
        self._open: WeakSet[_OpenList] = WeakSet()  # a client may leave before it reads

    def read(
        self, view: ListView, version: int, items: Sequence[Stored], reader: Identity
    ) -> Iterator[Sequence[Stored]]:
        """*items*, the list *view* in *version*, in runs; keep no other reference to them.

        Raises:
            StatusError: ``Expired``, from the iterator: too much of it has changed meanwhile.
        """
        kind, namespace = view.kind.resource, view.namespace
        held = _OpenList(items, kind, namespace, version, reader.namespaces)
        self._open.add(held)
        return self._runs(held)

    def _runs(self, held: _OpenList) -> Iterator[Sequence[Stored]]:
        begin = 0
        try:
            while begin < len(held.items):
                end = end_of_slice(held.items, begin)
                yield held.items[begin:end]
                begin = end
            if held.dropped:
                raise StatusError("Expired", "the list has changed too much while it was read")
        finally:
            self._open.discard(held)

    def note(self, change: ObjectChange) -> None:
        """Count the state of an object that only lists being read hold after *change*."""
        before, key = change.before, change.stored.key
        if before is None:
            return
        for held in self._open:
            if (
                held.resource == key.resource
                and held.namespace in (None, key.namespace)
                and held.version >= before.version
            ):
                held.replaced_bytes += before.size_bytes
        while self._drop_one():
            pass

    def _drop_one(self) -> bool:
        """Drop one list of those who have most, where all have too much; False: they have not."""
        sizes: Counter[tuple[str, ...]] = Counter()
        for held in self._open:
            sizes[held.owner] += held.replaced_bytes
        if sizes.total() <= OPEN_REPLACED_BYTES_MAX:
            return False
        most = max(sizes, key=sizes.__getitem__)
        mine = (held for held in self._open if held.owner == most)
        largest = max(mine, key=lambda held: held.replaced_bytes)
        largest.items, largest.dropped = (), True
        self._open.discard(largest)
        return True
