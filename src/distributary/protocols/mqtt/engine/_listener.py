"""What a connection tells its owner: ends, answers, and to whom."""

from typing import Final, NamedTuple, Protocol, TypeVar

from distributary.core.errors import TransportError
from distributary.protocols.mqtt.engine._packets import Publication

WRITTEN: Final = -1
"""The code of a message at QoS 0 that was handed to the network; no code of MQTT."""

Token_contra = TypeVar("Token_contra", contravariant=True)


class End(NamedTuple):
    """Why a connection has ended by itself.

    Attributes:
        reason: As of a ``TransportError``.
        text: For people.
        code: Reason code of the broker's DISCONNECT; None: it said none.
    """

    reason: str
    text: str
    code: int | None = None

    def error(self) -> TransportError:
        """The same as an error."""
        return TransportError(self.reason, self.text)


class Granted(NamedTuple):
    """The broker's answer to a subscription: section 3.9.3.

    Attributes:
        code: Granted QoS, or a reason code from 0x80 on: refused.
        text: What the broker added.
    """

    code: int
    text: str


class TooLargeError(Exception):
    """A message is larger than the broker takes; nothing of it was sent."""


class MqttListener(Protocol[Token_contra]):
    """Who is told what happens on a connection."""

    def settled(self, token: Token_contra, code: int, text: str) -> None:
        """The message of *token* has its answer: a reason code, or ``WRITTEN``."""

    def received(self, publication: Publication) -> None:
        """A message of a subscription; ``acknowledge`` it."""

    def ended(self, end: End) -> None:
        """The connection has ended by itself, after ``opened`` was awaited."""
