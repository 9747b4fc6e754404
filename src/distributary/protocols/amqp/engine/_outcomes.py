"""Outcomes of deliveries, and causes of the end of links and connections. Plain values."""

from enum import Enum
from typing import Final, Literal, NamedTuple

CONDITION_CHARS_MAX: Final = 1_024
"""Characters kept of a peer's error condition and description."""


class DeliveryState(Enum):
    """Terminal delivery states by their descriptor."""

    ACCEPTED = 0x24
    REJECTED = 0x25
    RELEASED = 0x26
    MODIFIED = 0x27
    NONE = 0
    """The receiver settled the delivery without an outcome."""


class Outcome(NamedTuple):
    """The outcome of a delivery.

    Attributes:
        state: The terminal state.
        condition: Error of ``REJECTED``, such as ``amqp:not-allowed``; empty: none.
        text: Description of the error, for people.
        failed: ``delivery-failed`` of ``MODIFIED``.
        undeliverable: ``undeliverable-here`` of ``MODIFIED``.
    """

    state: DeliveryState
    condition: str = ""
    text: str = ""
    failed: bool = False
    undeliverable: bool = False


class Ended(NamedTuple):
    """How a link or a connection ended.

    Attributes:
        cause: ``peer``: the peer closed it, perhaps with a *condition*. ``login``: refused;
            *condition* is ``sasl-auth`` or another of the ``sasl-`` codes. ``lost``: the connection
            broke. ``silent``: idle time-out. ``protocol``: the peer sent invalid AMQP. ``local``:
            this end closed it.
        condition: Error condition, such as ``amqp:connection:forced``; empty: none.
        text: For people; never a secret of ours.
    """

    cause: Literal["peer", "login", "lost", "silent", "protocol", "local"]
    condition: str = ""
    text: str = ""


ACCEPTED: Final = Outcome(DeliveryState.ACCEPTED)
