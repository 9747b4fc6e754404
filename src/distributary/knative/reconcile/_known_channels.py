"""Tracks which Brokers and Channels the ingest process knows."""

from collections.abc import Iterable, Mapping

from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Stored


class KnownChannels:
    """Existing Brokers and Channels, and those whose addresses the ingest process has read."""

    def __init__(self) -> None:
        self._standing: set[str] = set()
        self._known: set[str] = set()
        self._untold: dict[Key, set[str]] = {}

    def note(self, stored: Stored, *, known: bool = False) -> None:
        """Add *stored*; *known*: the ingest process knows it already."""
        if stored.uid in self._standing:
            return
        self._standing.add(stored.uid)
        self._untold.setdefault(stored.key, set()).add(stored.uid)
        if known:
            self._known.add(stored.uid)

    def forget(self, gone: Stored) -> None:
        """Remove *gone*, which was deleted."""
        self._standing.discard(gone.uid)
        self._known.discard(gone.uid)
        self._untold.setdefault(gone.key, set()).add(gone.uid)

    def knows(self, uid: str) -> bool:
        """Whether the ingest process accepts events for the Broker or Channel *uid*."""
        return uid in self._known

    def stands(self, uid: str) -> bool:
        """Whether the Broker or Channel *uid* exists."""
        return uid in self._standing

    def take(self, keys: Iterable[Key]) -> dict[str, Key]:
        """Take, by uid, what of *keys* was added or removed since its last announcement."""
        return {uid: key for key in keys for uid in self._untold.pop(key, ())}

    def new(self, taken: Mapping[str, Key]) -> dict[str, Key]:
        """Those of *taken* that exist and are not known yet, by uid."""
        return {
            uid: key
            for uid, key in taken.items()
            if uid in self._standing and uid not in self._known
        }

    def told(self, opened: Mapping[str, Key]) -> list[Key]:
        """Mark *opened* as announced; returns those that still exist."""
        new = [uid for uid in opened if uid in self._standing]
        self._known.update(new)
        return [opened[uid] for uid in new]

    def put_back(self, taken: Mapping[str, Key]) -> None:
        """Put *taken* back after a failed announcement."""
        for uid, key in taken.items():
            self._untold.setdefault(key, set()).add(uid)
