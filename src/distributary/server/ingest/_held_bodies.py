"""Bodies in memory before they are whole, or answered: bounded together, and by whose they are.

Callers: ``_protocol``, one ``HeldBody`` for each connection; ``_context`` and ``_relay_limits``,
before a body is read.
"""

from typing import Final

from distributary.access import NOBODY, Identity, has_its_share
from distributary.core.errors import RequestError
from distributary.net.http1 import Request
from distributary.server.ingest._counters import Counters

_NOBODY: Final = "senders that are not known"


def holder_of(request: Request) -> str:
    """Whose share the body of *request* takes, for people.

    That of the only namespace of its sender, or of all who are not known; empty: nobody's.
    """
    sender = request.sender
    if sender is NOBODY:
        return _NOBODY
    tenant = sender.tenant if isinstance(sender, Identity) else None
    return f"the namespace {tenant}" if tenant else ""


class HeldBodies:
    """Counts the bytes of one receiver. For one thread.

    Args:
        counters: Their gauge, which has the bytes that wait for the log too.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._of_holders: dict[str, int] = {}

    def add(self, holder: str, step: int) -> None:
        """Change the bytes that *holder* has here by *step*."""
        self._counters.held_bytes += step
        if holder and step:
            held = self._of_holders.get(holder, 0) + step
            if held:
                self._of_holders[holder] = held
            else:
                del self._of_holders[holder]

    def check_head(self, request: Request, bytes_max: int) -> None:
        """Check that the body of *request* may begin to arrive.

        Raises:
            RequestError: ``unavailable``.
        """
        if self._counters.held_bytes >= bytes_max:
            raise RequestError("unavailable", "Too many bytes wait for the log.")
        self._check_share(holder_of(request), 0, bytes_max)

    def check(self, holder: str, body_bytes: int, bytes_max: int) -> None:
        """Check that more of a body of *holder* may arrive, of which *body_bytes* are here.

        Raises:
            RequestError: ``unavailable``.
        """
        if self._counters.held_bytes > bytes_max:
            raise RequestError("unavailable", "Too many bytes wait for the log.")
        self._check_share(holder, body_bytes, bytes_max)

    def _check_share(self, holder: str, body_bytes: int, bytes_max: int) -> None:
        own = self._of_holders.get(holder, 0)
        # One body alone may be as large as all: it is never refused for its own bytes.
        others_are_own = own > body_bytes
        if others_are_own and has_its_share(own, self._counters.held_bytes, bytes_max):
            raise RequestError("unavailable", f"Too many bytes of {holder} are arriving.")


class HeldBody:
    """What one connection holds of a body.

    Args:
        bodies: Counts it.

    Attributes:
        bytes: So many; 0: nothing is half received, or waits for its answer.
    """

    __slots__ = ("_bodies", "_holder", "bytes")

    def __init__(self, bodies: HeldBodies) -> None:
        self._bodies = bodies
        self._holder = ""
        self.bytes = 0

    def hold(self, request: Request, held_bytes: int) -> None:
        """Hold *held_bytes* of the body of *request*, and of no other."""
        holder = holder_of(request)
        if holder == self._holder:
            self._bodies.add(holder, held_bytes - self.bytes)
        else:
            self._bodies.add(self._holder, -self.bytes)
            self._bodies.add(holder, held_bytes)
        self._holder, self.bytes = holder, held_bytes

    def check(self, bytes_max: int) -> None:
        """See ``HeldBodies.check``."""
        self._bodies.check(self._holder, self.bytes, bytes_max)

    def release(self) -> None:
        """Hold nothing."""
        if self.bytes:
            self._bodies.add(self._holder, -self.bytes)
            self.bytes = 0
