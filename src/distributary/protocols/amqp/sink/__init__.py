"""The AMQP sink: sends events to addresses of an AMQP 1.0 broker.

Called by ``partitions`` (``make``) and by the source (``connect``). Hides links, credit, logins,
and which answers are about one event. ``engine`` implements the protocol, and imports proton when
the first connection is opened.
"""

import asyncio
import functools
from collections.abc import Hashable

from distributary.core.clock import Clock
from distributary.core.deliver import Destination, Transport
from distributary.core.policy import Answer
from distributary.net import Connector
from distributary.net.link import BrokerSession, BrokerTransport, Lost, SlowStart
from distributary.protocols.amqp.sink._answers import answer_of_connection, answer_of_link
from distributary.protocols.amqp.sink._connection import AmqpConnection, connect
from distributary.protocols.amqp.sink._session import AmqpSession
from distributary.resource import Reach


def make(
    connector: Connector,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    _reach: Reach | None = None,
) -> Transport:
    """See ``core.protocol.Protocol``."""
    slow_start = SlowStart()

    def key_of(destination: Destination) -> Hashable:
        endpoint = connector.endpoint_of(destination)
        if endpoint.scheme in {"amqp", "amqps"}:
            endpoint = endpoint._replace(target=b"")  # the path names an address, not a connection
        return endpoint, destination.credential

    async def open_session(destination: Destination, lost: Lost) -> BrokerSession | Answer:
        key = key_of(destination)
        note = functools.partial(slow_start.note, key)
        session = AmqpSession(clock, lost, note, slow_start=key in slow_start)
        endpoint = connector.endpoint_of(destination)
        ended = await connect(connector, endpoint, destination.credential, session)
        return session if ended is None else answer_of_connection(ended)

    return BrokerTransport(open_session, key_of, clock, loop)
