"""Which Brokers and Channels the receiver of events knows."""

from collections.abc import Collection, Mapping

from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Stored


class KnownChannels:
    """Brokers and Channels that stand, and which of them the receiver of events knows."""

    def __init__(self) -> None:
        self._standing: set[str] = set()
        self._known: set[str] = set()
        self._untold: dict[str, Key] = {}

    def note(self, stored: Stored, *, known: bool = False) -> None:
        """*stored* stands; *known*: the receiver has known it before, and knows it still."""
        if stored.uid in self._standing:
            return
        self._standing.add(stored.uid)
        self._untold[stored.uid] = stored.key
        if known:
            self._known.add(stored.uid)

    def forget(self, gone: Stored) -> None:
        """*gone* does not stand any more."""
        self._standing.discard(gone.uid)
        self._known.discard(gone.uid)
        self._untold[gone.uid] = gone.key

    def knows(self, uid: str) -> bool:
        """The receiver takes events for the Broker or Channel with this uid."""
        return uid in self._known

    @property
    def untold(self) -> Collection[Key]:
        """Those that ``take`` would give."""
        return self._untold.values()

    def take(self) -> dict[str, Key]:
        """Those that came or went since the receiver was told last, by uid: to be told now."""
        taken, self._untold = self._untold, {}
        return taken

    def told(self, taken: Mapping[str, Key]) -> list[Key]:
        """The receiver was told of *taken*; those that it knows now, and did not before."""
        new = [uid for uid in taken if uid in self._standing and uid not in self._known]
        self._known.update(new)
        return [taken[uid] for uid in new]

    def put_back(self, taken: Mapping[str, Key]) -> None:
        """The receiver could not be told of *taken*."""
        self._untold = {**taken, **self._untold}
