"""Callbacks of a connection: answers, received messages, the end."""

from typing import Final, NamedTuple, Protocol, TypeVar

from distributary.core.errors import TransportError
from distributary.protocols.mqtt.engine._packets import Publication

WRITTEN: Final = -1
"""Code of a message at QoS 0 that was written and flushed; not a code of MQTT."""

Token_contra = TypeVar("Token_contra", contravariant=True)


class End(NamedTuple):
    """Why a connection was lost.

    Attributes:
        reason: As of a ``TransportError``.
        text: For people.
        code: Reason code of the broker's DISCONNECT; None without one.
    """

    reason: str
    text: str
    code: int | None = None

    def error(self) -> TransportError:
        """Returns the same as an error."""
        return TransportError(self.reason, self.text)


class Granted(NamedTuple):
    """The broker's SUBACK (section 3.9.3).

    Attributes:
        code: Granted QoS; from 0x80 on the reason code of a refusal.
        text: The broker's reason string.
    """

    code: int
    text: str


class TooLargeError(Exception):
    """A message is larger than the broker accepts; nothing of it was sent."""


class MqttListener(Protocol[Token_contra]):
    """Callbacks of a connection."""

    def settled(self, token: Token_contra, code: int, text: str) -> None:
        """Called with the answer to the message of *token*: a reason code, or ``WRITTEN``."""

    def received(self, publication: Publication) -> None:
        """Called with a message of a subscription; ``acknowledge`` it."""

    def ended(self, end: End) -> None:
        """Called when the connection was lost, after ``opened`` was awaited."""
