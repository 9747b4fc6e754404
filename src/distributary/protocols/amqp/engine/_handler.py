"""Who is told what happens on a connection: the port of ``AmqpEngine``."""

from typing import TYPE_CHECKING, Protocol

from distributary.protocols.amqp.engine._link import AmqpLink, IncomingMessage
from distributary.protocols.amqp.engine._outcomes import Ended, Outcome

if TYPE_CHECKING:
    from distributary.protocols.amqp.engine._engine import AmqpEngine


class Handler(Protocol):
    """What an engine calls. No method may raise; all may use the engine and its links."""

    def opened(self, engine: "AmqpEngine") -> None:
        """The peer has opened the connection; a client is logged in and may open links."""

    def link_opened(self, link: AmqpLink) -> None:
        """The peer has agreed to our link, or asks for one of its own (``not link.ours``).

        One of its own it must be answered: ``link.accept`` or ``link.close``.
        """

    def credited(self, link: AmqpLink) -> None:
        """The credit of a link that we send on has changed."""

    def received(self, link: AmqpLink, incoming: IncomingMessage) -> None:
        """A whole message came."""

    def settled(self, link: AmqpLink, token: object, outcome: Outcome) -> None:
        """The outcome of what was sent with *token*; ``link.unsettled`` no longer has it."""

    def written(self, link: AmqpLink) -> None:
        """All that was sent on *link* is in the socket."""

    def link_closed(self, link: AmqpLink) -> None:
        """A link has ended, see ``link.ended``; not told where this end closed it."""

    def closed(self, ended: Ended) -> None:
        """The connection is over; told once, and nothing after it.

        Its links have ended with it, and are not told one by one.
        """
