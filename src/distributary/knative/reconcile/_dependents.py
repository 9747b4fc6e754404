"""The dependency index: which objects to reconcile again when another changes."""

from collections.abc import Set as AbstractSet

from distributary.knative.apiserver.machinery import Key

_NOBODY: frozenset[Key] = frozenset()


class Dependents:
    """Maps each object to those whose last plan read it."""

    def __init__(self) -> None:
        self._asked: dict[Key, frozenset[Key]] = {}
        self._askers: dict[Key, set[Key]] = {}

    def of(self, key: Key) -> AbstractSet[Key]:
        """Objects whose last plan read *key*, found or not. Valid until the next ``note``."""
        return self._askers.get(key, _NOBODY)

    def note(self, asker: Key, asked: AbstractSet[Key]) -> None:
        """Record that the last plan of *asker* read *asked*; empty: forget *asker*."""
        before = self._asked.get(asker, _NOBODY)
        if before == asked:
            return
        for key in before - asked:
            askers = self._askers[key]
            askers.discard(asker)
            if not askers:
                del self._askers[key]
        for key in asked - before:
            self._askers.setdefault(key, set()).add(asker)
        if asked:
            self._asked[asker] = frozenset(asked)
        else:
            del self._asked[asker]
