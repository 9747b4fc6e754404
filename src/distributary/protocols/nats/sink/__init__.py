"""The NATS sink: publishes events to subjects, acknowledged by JetStream if a stream holds them.

Called by ``partitions`` (``make``) and by the source (``connect``). Hides the client, which is our
own (decision 41, NATS).
"""

import asyncio
from collections.abc import Hashable

from distributary.core.clock import Clock
from distributary.core.deliver import Destination, Transport
from distributary.core.policy import Answer
from distributary.net import Connector
from distributary.net.link import BrokerSession, BrokerTransport, Lost
from distributary.protocols.nats.sink._answers import JETSTREAM_NOT_ENABLED
from distributary.protocols.nats.sink._connection import NatsConnection, connect
from distributary.protocols.nats.sink._session import NatsSession
from distributary.resource import Reach


def make(
    connector: Connector,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    _reach: Reach | None = None,
) -> Transport:
    """See ``core.protocol.Protocol``."""

    async def open_session(destination: Destination, lost: Lost) -> BrokerSession | Answer:
        session = NatsSession(clock, lost)
        connection = await connect(connector, destination, session)
        if isinstance(connection, NatsConnection):
            session.start(connection)
            return session
        return connection

    def key_of(destination: Destination) -> Hashable:
        return connector.endpoint_of(destination), destination.credential

    return BrokerTransport(open_session, key_of, clock, loop)
