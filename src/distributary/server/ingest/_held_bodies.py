"""The memory for bodies, from their first byte to their answer: one budget, with a share a tenant.

A body counts while it arrives, while the control process answers it, and while its events wait for
the log: queue of a partition, way to another receiver, or cluster. So these need no bound that
tells tenants apart, and none of them is full because of one tenant.

Callers: ``_protocol``, one ``HeldBody`` for each connection; ``_pending_response`` for events;
``_context`` and ``_relay_limits`` before a body is read.
"""

from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

from distributary.access import NOBODY, TENANT_SHARE, Identity, has_its_share, whose
from distributary.core.errors import RequestError
from distributary.net.http1 import Request
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._event_paths import EventPaths, is_search, namespaces_of

_NOBODY: Final = "senders that are not known"


class Share:
    """What one holder, or all senders who are not known, hold of the memory.

    Attributes:
        bytes: Held now.
        whose: For people.
    """

    __slots__ = ("__weakref__", "bytes", "whose")

    def __init__(self, whose: str) -> None:
        self.bytes = 0
        self.whose = whose


class HeldBodies:
    """The memory of one receiver. For one thread.

    Args:
        counters: Their gauge, which has all bytes.
        paths: Where events are published.

    Attributes:
        by_address: Shares by the address of events. Empty where one namespace alone has addresses:
            nobody else's events want room, and nothing is looked up.
    """

    __slots__ = ("_counters", "_paths", "_shares", "_strangers", "by_address")

    def __init__(self, counters: Counters, paths: EventPaths) -> None:
        self._counters = counters
        self._paths = paths
        self._strangers = Share(_NOBODY)
        # Of namespaces with addresses, and of those that hold something.
        self._shares: WeakValueDictionary[str, Share] = WeakValueDictionary()
        self.by_address: dict[str, Share] = {}

    def learn(self, paths: Mapping[str, str]) -> None:
        """Replace the addresses; see ``EventPaths.learn``."""
        found = namespaces_of(paths)
        several = len(set(found.values())) > 1
        self.by_address = {each: self._of(found[each]) for each in found} if several else {}

    def _of(self, holder: str) -> Share:
        share = self._shares.get(holder)
        if share is None:
            share = self._shares[holder] = Share(whose(holder))
        return share

    def share_of(self, request: Request) -> Share | None:
        """The share that the body of *request* takes from; None: it takes from what is left.

        That of the namespace to which its events go, whoever sends them, as with quotas; for other
        requests that of the sender (``Identity.holder``), or of all who are not known.
        """
        sender = request.sender
        if sender is NOBODY:
            return self._strangers
        address = None if is_search(request) else self._paths.by_path.get(request.path)
        if address is not None:
            return self.by_address.get(address)
        holder = sender.holder if isinstance(sender, Identity) else ""
        return self._of(holder) if holder else None

    def add(self, share: Share | None, step: int) -> None:
        """Change the bytes that *share* has here by *step*."""
        self._counters.held_bytes += step
        if share is not None:
            share.bytes += step

    def refuses(self, share: Share | None, bytes_max: int) -> bool:
        """Whether no more of *share* may be held. Not before half of all are taken."""
        taken = self._counters.held_bytes
        return taken >= bytes_max or (
            share is not None and has_its_share(share.bytes, taken, bytes_max)
        )

    def check_head(self, request: Request, bytes_max: int) -> None:
        """Check that the body of *request* may begin to arrive.

        Raises:
            RequestError: ``unavailable``.
        """
        if self._counters.held_bytes >= bytes_max:
            raise RequestError("unavailable", "Too many bytes wait for the log.")
        self._check_share(self.share_of(request), 0, bytes_max)

    def check(self, share: Share | None, body_bytes: int, bytes_max: int) -> None:
        """Check that more of a body of *share* may arrive, of which *body_bytes* are here.

        Raises:
            RequestError: ``unavailable``.
        """
        if self._counters.held_bytes > bytes_max:
            raise RequestError("unavailable", "Too many bytes wait for the log.")
        self._check_share(share, body_bytes, bytes_max)

    def check_whole(self, share: Share | None, body_bytes: int, bytes_max: int) -> None:
        """Check that a body of *share* that arrived in parts may wait for the log.

        It was admitted when less was held. So only what nobody may have refuses it: half of all.

        Raises:
            RequestError: ``unavailable``.
        """
        if self._counters.held_bytes > bytes_max:
            raise RequestError("unavailable", "Too many bytes wait for the log.")
        if share is not None and share.bytes > body_bytes and 2 * share.bytes > bytes_max:
            raise _refused(share, bytes_max)

    def _check_share(self, share: Share | None, body_bytes: int, bytes_max: int) -> None:
        # One body alone may be as large as all: it is never refused for its own bytes.
        if share is None or share.bytes <= body_bytes:
            return
        if has_its_share(share.bytes, self._counters.held_bytes, bytes_max):
            raise _refused(share, bytes_max)


def _refused(share: Share, bytes_max: int) -> RequestError:
    half, quarter = bytes_max // 2, bytes_max // TENANT_SHARE
    return RequestError(
        "unavailable",
        f"Too many bytes of {share.whose} arrive or wait for the log. At most {half} may, and"
        f" {quarter} once half of all {bytes_max} are taken.",
    )


class HeldBody:
    """What one connection holds of a body that is not appended yet.

    Args:
        bodies: Counts it.

    Attributes:
        bytes: So many; 0: nothing is half received, or waits for the control process.
    """

    __slots__ = ("_bodies", "_share", "bytes")

    def __init__(self, bodies: HeldBodies) -> None:
        self._bodies = bodies
        self._share: Share | None = None
        self.bytes = 0

    def hold(self, request: Request, held_bytes: int) -> None:
        """Hold *held_bytes* of the body of *request*, and of no other."""
        share = self._bodies.share_of(request)
        if share is self._share:
            self._bodies.add(share, held_bytes - self.bytes)
        else:
            self._bodies.add(self._share, -self.bytes)
            self._bodies.add(share, held_bytes)
        self._share, self.bytes = share, held_bytes

    def check(self, bytes_max: int) -> None:
        """See ``HeldBodies.check``."""
        self._bodies.check(self._share, self.bytes, bytes_max)

    def pass_on(self, request: Request, bytes_max: int) -> None:
        """Hold nothing: *request* is whole, and counts by its response.

        Raises:
            RequestError: See ``HeldBodies.check_whole``. One that arrived in one read was checked
                by its head.
        """
        if not self.bytes:
            return
        self.hold(request, len(request.body))
        try:
            self._bodies.check_whole(self._share, self.bytes, bytes_max)
        finally:
            self.release()

    def release(self) -> None:
        """Hold nothing."""
        if self.bytes:
            self._bodies.add(self._share, -self.bytes)
            self.bytes = 0
        self._share = None
