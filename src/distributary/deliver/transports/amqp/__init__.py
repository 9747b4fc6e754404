"""AMQP 1.0: events to the addresses of a broker, each with its outcome.

Called by ``pipeline`` (``make``) and by the AMQP consumer (``connect``). Hides links, credit,
logins, and what of an answer is about one event. The protocol itself is ``distributary.amqp``'s,
which imports proton when the first connection is opened.
"""

import asyncio

from distributary.clock import Clock
from distributary.deliver._broker import BrokerTransport
from distributary.deliver._connector import Connector
from distributary.deliver._transport import Transport
from distributary.deliver.transports.amqp._answers import answer_of_connection, answer_of_link
from distributary.deliver.transports.amqp._connection import Connection, connect
from distributary.deliver.transports.amqp._opener import Opener

__all__ = ["Connection", "answer_of_connection", "answer_of_link", "connect", "make"]


def make(connector: Connector, clock: Clock, loop: asyncio.AbstractEventLoop) -> Transport:
    """The transport of deliveries with the protocol ``AMQP``.

    Args:
        connector: Dials.
        clock: For deadlines.
        loop: Runs everything.
    """
    opener = Opener(connector, clock)
    return BrokerTransport(opener.open, opener.key_of, clock, loop)
