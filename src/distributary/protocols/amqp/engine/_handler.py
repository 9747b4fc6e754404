"""Callbacks of an ``AmqpEngine``."""

from typing import TYPE_CHECKING, Protocol

from distributary.protocols.amqp.engine._link import AmqpLink, IncomingMessage
from distributary.protocols.amqp.engine._outcomes import Ended, Outcome

if TYPE_CHECKING:
    from distributary.protocols.amqp.engine._engine import AmqpEngine


class Handler(Protocol):
    """Callbacks of an engine. None may raise; all may use the engine and its links."""

    def opened(self, engine: "AmqpEngine") -> None:
        """Called when the connection is open; a client is logged in and may open links."""

    def link_opened(self, link: AmqpLink) -> None:
        """Called when the peer has accepted our link, or opens one (``not link.ours``).

        The latter needs an answer: ``link.accept`` or ``link.close``.
        """

    def credited(self, link: AmqpLink) -> None:
        """Called when the credit of a sending link changes; see ``AmqpLink.return_credit``."""

    def received(self, link: AmqpLink, incoming: IncomingMessage) -> None:
        """Called with a complete message."""

    def settled(self, link: AmqpLink, token: object, outcome: Outcome) -> None:
        """Called with the outcome of the message of *token*, now out of ``link.unsettled``."""

    def written(self, link: AmqpLink) -> None:
        """Called when all messages of *link* are written to the socket."""

    def link_closed(self, link: AmqpLink) -> None:
        """Called when the peer has ended a link, see ``link.ended``."""

    def closed(self, ended: Ended) -> None:
        """Called once, last, when the connection has ended.

        Its links end without ``link_closed``.
        """
