"""Opens sessions: which destinations share one, and how carefully it begins.

Called by ``net.link._broker``, through ``BrokerTransport``.
"""

import functools
from collections.abc import Hashable

from distributary.core.clock import Clock
from distributary.core.deliver import Destination
from distributary.core.policy import Answer
from distributary.net import Connector
from distributary.net.link import BrokerSession, Lost, SlowStart
from distributary.protocols.amqp.sink._answers import answer_of_connection
from distributary.protocols.amqp.sink._connection import connect
from distributary.protocols.amqp.sink._session import AmqpSession


class AmqpOpener:
    """Makes sessions; see ``net.link.AmqpOpener``.

    Args:
        connector: Dials.
        clock: Says when a flight was sent.
    """

    def __init__(self, connector: Connector, clock: Clock) -> None:
        self._connector = connector
        self._clock = clock
        self._slow_start = SlowStart()

    def key_of(self, destination: Destination) -> Hashable:
        """What of *destination* belongs to the connection: where it goes, and who we are."""
        endpoint = self._connector.endpoint_of(destination)
        if endpoint.scheme in {"amqp", "amqps"}:
            endpoint = endpoint._replace(target=b"")  # the path names an address, not a connection
        return endpoint, destination.credential

    async def open(self, destination: Destination, lost: Lost) -> BrokerSession | Answer:
        """Connect and log in."""
        key = self.key_of(destination)
        endpoint = self._connector.endpoint_of(destination)
        session = AmqpSession(
            self._clock,
            lost,
            functools.partial(self._slow_start.note, key),
            slow_start=key in self._slow_start,
        )
        ended = await connect(self._connector, endpoint, destination.credential, session)
        return session if ended is None else answer_of_connection(ended)
