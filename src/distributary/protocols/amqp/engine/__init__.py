"""AMQP 1.0 connections on asyncio, over proton's protocol engine without its sockets.

Called by the AMQP sink, the AMQP source and the AMQP binding of the Subscriptions API. Hides
proton: its engine, events and types. Can be imported without proton (``AVAILABLE``); only an
``AmqpEngine`` needs it.

An ``AmqpEngine`` is an ``asyncio.Protocol`` for one connection, as a client or as a server. It
calls your ``Handler``, and you call it and its ``AmqpLink`` objects::

    class Echo:                                      # a Handler
        def link_opened(self, link): link.accept(); link.grant(10)
        def received(self, link, incoming):
            message = decode_message(incoming.payload)
            incoming.settle(ACCEPTED)
            link.grant(1)
        ...

    await loop.create_server(lambda: AmqpEngine(Echo(), server=True), "127.0.0.1", 0)

For servers: a link that the peer opens arrives in ``link_opened`` with ``sending`` as seen from
*this* end (a client's sender is ``sending=False`` here) and ``address`` as requested (``dynamic``:
pass one to ``accept``). ``link.send`` needs ``link.credit`` above 0; ``credited`` reports changes.
After ``closed`` no method of the handler is called, and methods of links and messages do nothing
(except ``send``, which must not be called).
"""

from distributary.protocols.amqp.engine._engine import AmqpEngine
from distributary.protocols.amqp.engine._handler import Handler
from distributary.protocols.amqp.engine._limits import (
    MESSAGE_BYTES_MAX,
    PEER_LINKS_MAX,
    SESSION_BYTES_MAX,
)
from distributary.protocols.amqp.engine._link import AmqpLink, IncomingMessage
from distributary.protocols.amqp.engine._login import AmqpLogin
from distributary.protocols.amqp.engine._message import (
    AmqpMessage,
    MessageId,
    Value,
    decode_message,
    encode_message,
)
from distributary.protocols.amqp.engine._outcomes import ACCEPTED, DeliveryState, Ended, Outcome
from distributary.protocols.amqp.engine._proton import AVAILABLE
from distributary.protocols.amqp.engine._server_login import ClientLogin
from distributary.protocols.amqp.engine._values import AmqpError
