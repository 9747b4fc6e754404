"""Whose routes may have to move before a recreated Broker or Channel opens, some in each pass."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from distributary.knative.apiserver.machinery import Key
from distributary.knative.kinds import BROKER, SUBSCRIPTION, TRIGGER
from distributary.knative.reconcile._dependents import Dependents
from distributary.knative.reconcile._work_queue import in_turn

MOVES_MAX: Final = 256
"""Most objects that one pass plans for a new address of their Broker or Channel: 20 ms, and one
batch of the leader. A Broker with more opens some passes later; each has other objects too."""

_ASKERS: Final = {BROKER.resource: TRIGGER.resource}


class Moves:
    """Triggers and Subscriptions by namespace; nothing new opens in one that has some left.

    Args:
        dependents: Who asked for a Broker or Channel.
    """

    def __init__(self, dependents: Dependents) -> None:
        self._dependents = dependents
        self._left: dict[str, dict[Key, None]] = {}
        self._begun: set[str] = set()

    def add(self, keys: Iterable[Key]) -> None:
        """Let *keys* be looked at before anything opens in their namespaces."""
        for key in keys:
            self._left.setdefault(key.namespace, {})[key] = None

    def begin(self, opening: Mapping[str, Key]) -> None:
        """Add those who have asked for the Brokers and Channels *opening*, once for each uid."""
        for uid, key in opening.items():
            if uid not in self._begun:
                self._begun.add(uid)
                kind = _ASKERS.get(key.resource, SUBSCRIPTION.resource)
                self.add(
                    asker
                    for asker in self._dependents.of(key)
                    if (asker.resource, asker.namespace) == (kind, key.namespace)
                )

    def forget(self, uids: Iterable[str]) -> None:
        """Forget Brokers and Channels that are open, or gone."""
        self._begun.difference_update(uids)

    def next(self, namespaces: Iterable[str]) -> list[Key]:
        """Whom to look at in this pass; *namespaces* take turns."""
        left = {one: self._left[one] for one in namespaces if one in self._left}
        return list(islice(in_turn(left), MOVES_MAX))

    def left(self, namespace: str) -> bool:
        """Whether some of *namespace* are to be looked at."""
        return namespace in self._left

    def done(self, key: Key) -> None:
        """Note that the route of *key*, if it has one, listens where it should."""
        left = self._left.get(key.namespace, {})
        left.pop(key, None)
        if not left:
            self._left.pop(key.namespace, None)
