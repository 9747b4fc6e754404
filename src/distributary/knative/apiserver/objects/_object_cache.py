"""The in-memory cache of all objects: lookup by key, lists ordered by name, index of owners."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects._owners import owners_of
from distributary.knative.apiserver.objects._usage import Usage
from distributary.knative.apiserver.objects._values import ObjectChange, Stored

_NOBODY: Final[frozenset[Key]] = frozenset()

_AFTER_NAME: Final = "\0"
"""In no name: ``namespace + _AFTER_NAME`` sorts after that namespace and before any other."""


_Place = tuple[str, str]
"""Sort key of an object in the list of its kind: namespace and name."""


class ObjectCache:
    """The objects after the newest commit. Changed only on the event loop.

    Attributes:
        version: The newest resource version.
        size_bytes: Size of all objects.
        usage: What each namespace uses.
    """

    def __init__(self, version: int = 0, objects: Iterable[Stored] = ()) -> None:
        self.version = version
        self._by_key = {stored.key: stored for stored in objects}
        self.size_bytes = sum(stored.size_bytes for stored in self._by_key.values())
        self.usage = Usage()
        for stored in self._by_key.values():
            self.usage.add(stored, 1)
        self._owned: dict[str, set[Key]] = {}
        for stored in self._by_key.values():
            self._own(stored)
        self._positions: dict[str, list[_Place]] = {}
        for key in self._by_key:
            self._positions.setdefault(key.resource, []).append((key.namespace, key.name))
        for positions in self._positions.values():
            positions.sort()

    def __len__(self) -> int:
        """Number of objects."""
        return len(self._by_key)

    def get(self, key: Key) -> Stored | None:
        """The object with this key. May be called from the thread of a transaction."""
        return self._by_key.get(key)

    def all_of(self, resource: str, namespace: str | None = None) -> list[Stored]:
        """The objects of a kind, ordered by (namespace, name); None: of all namespaces."""
        positions = self._positions.get(resource, ())
        first, end = 0, len(positions)
        if namespace is not None:
            first, end = self._span(resource, namespace)
        return [self._by_key[Key(resource, *positions[at])] for at in range(first, end)]

    def items(self) -> Iterable[tuple[Key, Stored]]:
        """All objects, in no order."""
        return self._by_key.items()

    def dependents(self, uid: str) -> AbstractSet[Key]:
        """Keys of objects that name *uid* as an owner. Valid until the next ``take``."""
        return self._owned.get(uid, _NOBODY)

    def keys_in(self, namespace: str) -> Iterator[Key]:
        """Keys of all objects in *namespace*."""
        for resource, positions in self._positions.items():
            first, end = self._span(resource, namespace)
            yield from (Key(resource, *positions[at]) for at in range(first, end))

    def take(self, changes: Iterable[ObjectChange]) -> None:
        """Apply committed *changes*."""
        for change in changes:
            self._take(change)

    def differences(self, other: "ObjectCache") -> list[ObjectChange]:
        """Changes that turn this cache into *other*.

        Unordered: the original order is unknown.
        """
        gone = [
            ObjectChange("DELETED", stored, stored)
            for key, stored in self._by_key.items()
            if _uid_of(other.get(key)) != stored.uid
        ]
        new = []
        for key, stored in other.items():
            before = self.get(key)
            if before is None or before.uid != stored.uid:
                new.append(ObjectChange("ADDED", stored, None))
            elif before.version != stored.version:
                new.append(ObjectChange("MODIFIED", stored, before))
        return gone + new

    def _span(self, resource: str, namespace: str) -> tuple[int, int]:
        positions = self._positions.get(resource, [])
        return (
            bisect_left(positions, (namespace, "")),
            bisect_left(positions, (namespace + _AFTER_NAME, "")),
        )

    def _take(self, change: ObjectChange) -> None:
        key = change.stored.key
        self.version = change.stored.version
        before = self._by_key.pop(key, None)
        if before is not None:
            self._disown(before)
            self.usage.add(before, -1)
            self.size_bytes -= before.size_bytes
        if change.type != "DELETED":
            self._by_key[key] = change.stored
            self._own(change.stored)
            self.usage.add(change.stored, 1)
            self.size_bytes += change.stored.size_bytes
        self._move(key, stood=before is not None, stands=change.type != "DELETED")

    def _own(self, stored: Stored) -> None:
        for uid in owners_of(stored.content):
            self._owned.setdefault(uid, set()).add(stored.key)

    def _disown(self, stored: Stored) -> None:
        for uid in owners_of(stored.content):
            keys = self._owned[uid]
            keys.discard(stored.key)
            if not keys:
                del self._owned[uid]

    def _move(self, key: Key, *, stood: bool, stands: bool) -> None:
        positions = self._positions.setdefault(key.resource, [])
        position = (key.namespace, key.name)
        if stands and not stood:
            insort(positions, position)
        elif stood and not stands:
            del positions[bisect_left(positions, position)]


def _uid_of(stored: Stored | None) -> str | None:
    return None if stored is None else stored.uid
