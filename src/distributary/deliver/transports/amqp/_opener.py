"""Opens sessions: which destinations share one, and how carefully it begins.

Called by ``deliver._broker``, through ``BrokerTransport``.
"""

from collections.abc import Hashable
from typing import Final

from distributary.clock import Clock
from distributary.deliver._connector import Connector
from distributary.deliver._destination import Destination
from distributary.deliver._session import Lost, Session
from distributary.deliver.transports.amqp._answers import answer_of_connection
from distributary.deliver.transports.amqp._connection import connect
from distributary.deliver.transports.amqp._session import AmqpSession
from distributary.policy import Answer

CAREFUL_MAX: Final = 1_024
"""Connections of which is remembered that the next one is to be careful; the oldest goes."""


class Opener:
    """Makes sessions; see ``deliver.Opener``.

    Args:
        connector: Dials.
        clock: Says when a flight was sent.
    """

    def __init__(self, connector: Connector, clock: Clock) -> None:
        self._connector = connector
        self._clock = clock
        self._careful: dict[Hashable, None] = {}

    def key_of(self, destination: Destination) -> Hashable:
        """What of *destination* belongs to the connection: where it goes, and who we are."""
        endpoint = self._connector.endpoint_of(destination)
        if endpoint.scheme in {"amqp", "amqps"}:
            endpoint = endpoint._replace(target=b"")  # the path names an address, not a connection
        return endpoint, destination.credential

    async def open(self, destination: Destination, lost: Lost) -> Session | Answer:
        """Connect and log in."""
        key = self.key_of(destination)
        endpoint = self._connector.endpoint_of(destination)
        session = AmqpSession(
            self._clock,
            lost,
            lambda careful: self._note(key, careful),
            careful=key in self._careful,
        )
        ended = await connect(self._connector, endpoint, destination.credential, session)
        return session if ended is None else answer_of_connection(ended)

    def _note(self, key: Hashable, careful: bool) -> None:
        """Remember how the next connection of *key* is to begin."""
        self._careful.pop(key, None)
        if careful:
            if len(self._careful) >= CAREFUL_MAX:
                del self._careful[next(iter(self._careful))]
            self._careful[key] = None
