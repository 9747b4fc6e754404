"""What becomes of deliveries, and how links and connections end. Plain values."""

from enum import Enum
from typing import Final, Literal, NamedTuple

CONDITION_CHARS_MAX: Final = 1_024
"""Characters kept of what a peer says about an error."""


class DeliveryState(Enum):
    """What the receiver of a delivery says about it."""

    ACCEPTED = 0x24
    REJECTED = 0x25
    RELEASED = 0x26
    MODIFIED = 0x27
    NONE = 0
    """It settled the delivery and said nothing."""


class Outcome(NamedTuple):
    """What became of a delivery.

    Attributes:
        state: What the receiver says.
        condition: Error of ``REJECTED``, such as ``amqp:not-allowed``; empty: none given.
        text: What it adds for people.
        failed: Of ``MODIFIED``: the delivery counts as a failed one.
        undeliverable: Of ``MODIFIED``: not to be given to this link again.
    """

    state: DeliveryState
    condition: str = ""
    text: str = ""
    failed: bool = False
    undeliverable: bool = False


class Ended(NamedTuple):
    """How a link or a connection ended.

    Attributes:
        cause: ``peer``: it said so, with *condition* where it gave one. ``login``: it did not
            let us in; *condition* is ``sasl-auth`` or another of the ``sasl-`` codes. ``lost``:
            the connection broke. ``silent``: nothing came within the idle time-out.
            ``protocol``: what came was no AMQP. ``local``: this end closed it.
        condition: Error condition, such as ``amqp:connection:forced``; empty: none.
        text: For people; never a secret of ours.
    """

    cause: Literal["peer", "login", "lost", "silent", "protocol", "local"]
    condition: str = ""
    text: str = ""


ACCEPTED: Final = Outcome(DeliveryState.ACCEPTED)
