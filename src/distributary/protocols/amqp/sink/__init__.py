"""AMQP 1.0: events to the addresses of a broker, each with its outcome.

Called by ``partitions`` (``make``) and by the AMQP consumer (``connect``). Hides links, credit,
logins, and what of an answer is about one event. The protocol itself is ``engine``'s, which imports
proton when the first connection is opened.
"""

import asyncio

from distributary.core.clock import Clock
from distributary.core.deliver import Transport
from distributary.net import Connector
from distributary.net.link import BrokerTransport
from distributary.protocols.amqp.sink._answers import answer_of_connection, answer_of_link
from distributary.protocols.amqp.sink._connection import AmqpConnection, connect
from distributary.protocols.amqp.sink._opener import AmqpOpener
from distributary.resource import Reach

__all__ = ["AmqpConnection", "answer_of_connection", "answer_of_link", "connect", "make"]


def make(
    connector: Connector,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    _reach: Reach | None = None,
) -> Transport:
    """See ``core.protocol.Protocol``."""
    opener = AmqpOpener(connector, clock)
    return BrokerTransport(opener.open, opener.key_of, clock, loop)
