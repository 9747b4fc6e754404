"""What is known of the agreement of each route's targets to deliveries.

``ConsentKeeper`` notes it. Whatever tells how a route stands reads it here, so that all tell the
same: the status of one subscription and of many, counts, and conditions of Triggers.
"""

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class AwaitedConsent(NamedTuple):
    """What a route waits for.

    Attributes:
        sink: The first of its targets that has not consented, without its query.
        since_ms: Since when, wall clock, milliseconds.
    """

    sink: str
    since_ms: int


_NONE: Final[Mapping[str, AwaitedConsent]] = MappingProxyType({})


class Agreements:
    """Which routes wait for the consent of a target. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._awaited: dict[str, AwaitedConsent] = {}
        self._agreed: set[str] = set()
        self._shown: Mapping[str, AwaitedConsent] | None = _NONE

    def note(self, route: str, awaited: AwaitedConsent | None, *, agreed: bool) -> None:
        """Note how *route* stands.

        Args:
            route: Its uid.
            awaited: What it waits for; None: none of its targets is known to withhold consent.
            agreed: All of its targets are known to agree.
        """
        with self._lock:
            if awaited != self._awaited.get(route):
                self._shown = None
            self._awaited.pop(route, None)
            self._agreed.discard(route)
            if awaited is not None:
                self._awaited[route] = awaited
            elif agreed:
                self._agreed.add(route)

    def clear(self) -> None:
        """Forget all routes."""
        with self._lock:
            self._awaited.clear()
            self._agreed.clear()
            self._shown = _NONE

    def awaited(self) -> Mapping[str, AwaitedConsent]:
        """Routes that wait for a consent, by uid; the same object until it changes."""
        with self._lock:
            if self._shown is None:
                self._shown = MappingProxyType(dict(self._awaited))
            return self._shown

    def agreed(self, route: str) -> bool:
        """Whether all targets of *route* are known to agree."""
        with self._lock:
            return route in self._agreed
