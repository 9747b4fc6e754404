"""The transport port, which every delivery protocol implements."""

from collections.abc import Callable
from typing import Final, Protocol

from distributary.core.deliver.destination import Destination
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.flow import PASSES_LEFT_MIN
from distributary.core.policy import Answer

CREDENTIAL_EXPIRED: Final = "credential-expired"
"""Reason of an attempt that was not made: the sink's access token has expired."""

UNREADABLE: Final = "unreadable-settings"
"""Reason of an attempt that was not made: the subscription cannot be read now."""

SATURATED: Final = "replies-crowded"
"""Reason of an attempt whose reply was not read completely, for lack of memory here."""

NOT_THE_SINKS: Final = frozenset({CREDENTIAL_EXPIRED, UNREADABLE, SATURATED})
"""Reasons unrelated to the sink's health: no request was sent, or the response was good."""

BLOCKED: Final = "blocked-address"
"""Reason of an attempt that was not made: the address is forbidden. Retryable: by the operator's
settings, which may change; not retryable: by any settings."""

HOP_LIMIT: Final = "hop-limit"
"""Reason of an attempt that was not made: the event has no hop left."""

Done = Callable[[Answer], None]
"""Callback with the answer of one attempt."""


class Transport(Protocol):
    """Sends events by one protocol, on one event loop, with callbacks and no task per delivery.

    ``testing.check_transport`` checks every implementation against this contract.
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
            destination: The sink and its settings. With ``wants_reply`` an event in a 2xx response
                (but 202) is returned as ``Reply.event``; without it, never.
            timeout_s: Seconds for the whole attempt from this call to the answer: name look-up,
                connecting, handshakes, sending and receiving. Kept within +10 % or 100 ms,
                whichever is more, however slowly the sink trickles.
            done: Called exactly once, on the loop, never from inside this call. The transport makes
                no second attempt.
            identity: Identity of the delivery: equal for all its attempts, different from any
                other's. For protocols that deduplicate messages, and for signed deliveries; empty:
                none.
            carried: Additional header lines (``event.carried``), for HTTP. A broker's message has
                only the context of a trace of them, as the attribute ``traceparent``.
        """

    async def close(self) -> None:
        """Close every connection. Attempts in flight end as ``TransportError("closed")``."""


def obstacle(destination: Destination, ttl: int) -> TransportError | None:
    """The error that prevents an attempt; None: it can be made.

    Args:
        destination: Of the attempt.
        ttl: Hops that the event would have left.
    """
    if destination.unusable is not None:
        return TransportError(UNREADABLE, destination.unusable)
    if destination.refused is not None:
        return TransportError(BLOCKED, destination.refused)
    if destination.passes and ttl < PASSES_LEFT_MIN:
        text = "The event has come back to this server as often as it may"
        return TransportError(HOP_LIMIT, text, retryable=False)
    return None
