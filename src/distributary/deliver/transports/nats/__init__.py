"""NATS: events to subjects, acknowledged by JetStream where a stream holds them.

Called by ``pipeline`` (``make``) and by the NATS consumer (``connect``). Hides nats-py, which is
imported when the first connection is opened: a worker that delivers nothing by NATS does without.
"""

import asyncio
from collections.abc import Hashable

from distributary.clock import Clock
from distributary.deliver._broker import BrokerTransport
from distributary.deliver._connector import Connector
from distributary.deliver._destination import Destination
from distributary.deliver._session import Lost, Session
from distributary.deliver._transport import Transport
from distributary.deliver.transports.nats._answers import JETSTREAM_NOT_ENABLED
from distributary.deliver.transports.nats._connection import Connection, Listener
from distributary.policy import Acknowledgement, Answer

__all__ = ["JETSTREAM_NOT_ENABLED", "Connection", "Listener", "connect", "make"]


def make(connector: Connector, clock: Clock, loop: asyncio.AbstractEventLoop) -> Transport:
    """The transport of deliveries with the protocol ``NATS``.

    Args:
        connector: Dials.
        clock: For deadlines.
        loop: Runs everything.
    """

    async def open_session(destination: Destination, lost: Lost) -> Session | Answer:
        from distributary.deliver.transports.nats import _session  # noqa: PLC0415 - see above

        return await _session.open_session(connector, destination, lost)

    def key_of(destination: Destination) -> Hashable:
        return connector.endpoint_of(destination), destination.credential

    return BrokerTransport(open_session, key_of, clock, loop)


async def connect(
    connector: Connector, destination: Destination, listener: Listener, message_bytes_max: int
) -> Connection | Acknowledgement:
    """Connect and log in as *destination* says; see ``_client.connect``.

    Args:
        connector: Dials.
        destination: The server, the credential and the certificates.
        listener: Takes what arrives.
        message_bytes_max: Bytes of the largest message that is taken.

    Returns:
        The connection, or what the server answered to the login.

    Raises:
        TransportError: There is no connection.
    """
    from distributary.deliver.transports.nats import _client  # noqa: PLC0415 - see above

    return await _client.connect(connector, destination, listener, message_bytes_max)
