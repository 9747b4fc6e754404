"""The port that every delivery protocol implements."""

from collections.abc import Callable
from typing import Final, Protocol

from distributary.core.deliver.destination import Destination
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.flow import PASSES_LEFT_MIN
from distributary.core.policy import Answer

CREDENTIAL_EXPIRED: Final = "credential-expired"
"""Reason of an attempt that was not made because the token of its sink has expired."""

UNREADABLE: Final = "unreadable-settings"
"""Reason of an attempt that was not made because its subscription cannot be read now."""

SATURATED: Final = "replies-crowded"
"""Reason of an attempt whose reply was not read to its end, for want of memory here."""

NOT_THE_SINKS: Final = frozenset({CREDENTIAL_EXPIRED, UNREADABLE, SATURATED})
"""Reasons that say nothing about the sink: it was not asked, or answered well."""

BLOCKED: Final = "blocked-address"
"""Reason of an attempt that was not made because nothing may be sent there. May be made again: the
operator's settings forbid it, and may change; not again: nothing would allow it."""

HOP_LIMIT: Final = "hop-limit"
"""Reason of an attempt that was not made because the event has no pass left for the way back."""

Done = Callable[[Answer], None]
"""Takes the answer of one attempt."""


class Transport(Protocol):
    """Sends events by one protocol. One event loop, callbacks instead of a task per delivery.

    ``testing.check_transport`` holds every implementation to these words.
    """

    def send(
        self,
        event: Event,
        destination: Destination,
        timeout_s: float,
        done: Done,
        identity: str = "",
        *,
        carried: bytes = b"",
    ) -> None:
        """Start one attempt.

        Args:
            event: What to send; not changed.
            destination: Where, and how. With ``wants_reply`` an event in a 2xx answer (but 202)
                comes back as ``Reply.event``; without it none ever does.
            timeout_s: Seconds for the whole attempt from this call to the answer: name look-up,
                connecting, handshakes, sending and receiving. Kept within +10 % or 100 ms,
                whichever is more, however slowly the sink trickles.
            done: Called exactly once, on the loop, never from inside this call. The transport
                makes no second attempt by itself.
            identity: Names the delivery: equal in each of its attempts, and in those of no other.
                For protocols that know a message which they have had before; empty: it has none.
            carried: Header lines that go along (``event.carried``), for HTTP alone.
        """

    async def close(self) -> None:
        """Close every connection. Attempts under way end as ``TransportError("closed")``."""


def obstacle(destination: Destination, ttl: int) -> TransportError | None:
    """Why no attempt can be made; None: it can.

    Args:
        destination: Of the attempt.
        ttl: The passes that the event would take along.
    """
    if destination.unusable is not None:
        return TransportError(UNREADABLE, destination.unusable)
    if destination.refused is not None:
        return TransportError(BLOCKED, destination.refused)
    if destination.passes and ttl < PASSES_LEFT_MIN:
        text = "The event has come back to this server as often as it may"
        return TransportError(HOP_LIMIT, text, retryable=False)
    return None
