"""Who has to be looked at again when an object changes."""

from collections.abc import Set as AbstractSet

from distributary.knative.apiserver.machinery import Key

_NOBODY: frozenset[Key] = frozenset()


class Dependents:
    """For each object those whose last look asked for it."""

    def __init__(self) -> None:
        self._asked: dict[Key, frozenset[Key]] = {}
        self._askers: dict[Key, set[Key]] = {}

    def of(self, key: Key) -> AbstractSet[Key]:
        """Those whose last look asked for *key*, found or not. Do not keep it over a change."""
        return self._askers.get(key, _NOBODY)

    def note(self, asker: Key, asked: AbstractSet[Key]) -> None:
        """The last look at *asker* asked for *asked*; empty: nobody looks at it any more."""
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
