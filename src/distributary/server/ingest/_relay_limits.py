"""Limits of proxied requests: each kind has its own, so that none takes the place of another."""

import enum

from distributary.access import NOBODY, Identity, has_its_share, whose
from distributary.core.errors import RequestError
from distributary.datadir import NamedCount, NodeCount, NodeCounts
from distributary.net.http1 import Request
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._held_bodies import HeldBodies
from distributary.server.ingest._limits import (
    HEALTH_PATHS,
    PROBES_MAX,
    RELAYS_MAX,
    STRANGERS_MAX,
    IngestSettings,
)
from distributary.server.ingest._relayed import decoded, is_watch


class RelayKind(enum.Enum):
    """Kinds of proxied requests."""

    WATCH = enum.auto()
    PROBE = enum.auto()
    """To the paths of health."""
    STRANGER = enum.auto()
    """Of nobody, to a path that is open to all."""
    OTHER = enum.auto()


def kind_of(request: Request) -> RelayKind:
    """The kind of *request*, whose sender was asked for."""
    if is_watch(request):
        return RelayKind.WATCH
    if decoded(request.path) in HEALTH_PATHS:
        return RelayKind.PROBE
    return RelayKind.STRANGER if request.sender is NOBODY else RelayKind.OTHER


def _holder_of(request: Request) -> str:
    """Whose share *request* takes; empty: nobody's, or nobody was asked."""
    return request.sender.holder if isinstance(request.sender, Identity) else ""


_MAX = {RelayKind.PROBE: PROBES_MAX, RelayKind.STRANGER: STRANGERS_MAX}
_SHARED = {RelayKind.WATCH: NamedCount.WATCHES, RelayKind.OTHER: NamedCount.RELAYS}
"""Kinds of which each holder has its share."""


class RelayLimits:
    """Counts proxied requests under way. For one thread.

    Args:
        counters: Gauges of this receiver.
        node: Counts of all receivers.
        bodies: Bounds the bodies of this receiver.
    """

    def __init__(self, counters: Counters, node: NodeCounts, bodies: HeldBodies) -> None:
        self._counters = counters
        self._bodies = bodies
        self._node = node
        self._few = dict.fromkeys(_MAX, 0)
        self._of_holders: dict[tuple[NamedCount, str], int] = {}

    def check(self, request: Request, settings: IngestSettings) -> None:
        """Check that one more may be under way.

        Raises:
            RequestError: ``unavailable``.
        """
        kind, counters, node = kind_of(request), self._counters, self._node
        if kind is RelayKind.WATCH:
            watches = counters.watches_in_flight + node.elsewhere(NodeCount.WATCHES)
            if watches >= settings.watches_max:
                raise RequestError("unavailable", "Too many watches are open.")
            self._check_share("watches", request, watches, settings.watches_max)
        elif kind is RelayKind.OTHER:
            relays = counters.relays_in_flight + node.elsewhere(NodeCount.RELAYS)
            if relays >= RELAYS_MAX:
                raise RequestError("unavailable", "Too many requests are under way.")
            self._check_share("requests", request, relays, RELAYS_MAX)
        elif self._few[kind] >= _MAX[kind]:
            raise RequestError("unavailable", "Too many such requests are under way.")
        has_body = request.content_length or request.chunked
        if has_body:
            share = self._bodies.share_of(request)
            self._bodies.check(share, len(request.body), settings.held_bytes_max)

    def _check_share(self, what: str, request: Request, taken: int, places: int) -> None:
        """Check that *places* are left for others than the holder of *request*."""
        holder, shared = _holder_of(request), _SHARED[kind_of(request)]
        if not holder:
            return
        elsewhere = self._node.named_elsewhere(shared, holder)
        if has_its_share(self._of_holders.get((shared, holder), 0) + elsewhere, taken, places):
            raise RequestError("unavailable", f"Too many {what} of {whose(holder)} are open.")

    def count(self, request: Request, step: int) -> None:
        """Change the number of those under way by *step*."""
        kind = kind_of(request)
        shared, holder = _SHARED.get(kind), _holder_of(request)
        if holder and shared is not None:
            self._node.add_named(shared, holder, step)
            own = self._of_holders[shared, holder] = (
                self._of_holders.get((shared, holder), 0) + step
            )
            if not own:
                del self._of_holders[shared, holder]
        if kind is RelayKind.WATCH:
            self._counters.watches_in_flight += step
            self._node.add(NodeCount.WATCHES, step)
            return
        self._counters.relays_in_flight += step
        if kind is RelayKind.OTHER:
            self._node.add(NodeCount.RELAYS, step)
        else:
            self._few[kind] += step
