"""NATS: events to subjects, acknowledged by JetStream where a stream holds them.

Called by ``pipeline`` (``make``) and by the NATS consumer (``connect``). Hides nats-py, which is
imported when the first connection is opened: a worker that delivers nothing by NATS does without.
"""

import asyncio
from collections.abc import Hashable

from distributary.clock import Clock
from distributary.deliver import BrokerTransport, Connector, Destination, Lost, Session, Transport
from distributary.policy import Acknowledgement, Answer
from distributary.protocols.nats.sink._answers import JETSTREAM_NOT_ENABLED
from distributary.protocols.nats.sink._connection import Connection, Listener
from distributary.resource import Reach

__all__ = ["JETSTREAM_NOT_ENABLED", "Connection", "Listener", "connect", "make"]


def make(
    connector: Connector,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    _reach: Reach | None = None,
) -> Transport:
    """See ``resource.Protocol.sink``."""

    async def open_session(destination: Destination, lost: Lost) -> Session | Answer:
        from distributary.protocols.nats.sink import _session  # noqa: PLC0415 - see above

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
    from distributary.protocols.nats.sink import _client  # noqa: PLC0415 - see above

    return await _client.connect(connector, destination, listener, message_bytes_max)
