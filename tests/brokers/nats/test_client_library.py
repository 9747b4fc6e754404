"""What is used of nats-py beyond its documentation: a new version that changes it fails here."""

import inspect

import nats.aio.client
from nats.protocol.parser import Parser

from distributary.deliver.transports import nats as transport
from distributary.deliver.transports.nats import _wire


def test_the_transport_that_is_set_is_the_one_that_is_used(run, nats_server, connector, way):
    """nats-py dials by itself only where it has none: here it never does."""

    async def scenario():
        listener = _Listener()
        async with way() as here:
            destination = here.to(nats_server.port, "x")
            connection = await transport.connect(connector(), destination, listener)
            client = connection._client
            assert isinstance(client._transport, _wire._Wire)
            connection.subscribe("library.>")
            assert await connection.flush(5)
            connection.publish("library.x", b"payload", reply="somewhere")
            assert await connection.flush(5)
            assert listener.messages == [(b"library.x", b"somewhere", b"", b"payload")]
            await connection.close()

    run(scenario())


def test_the_parser_hands_over_each_message_by_the_method_that_is_replaced():
    """Same name, same arguments in the same order, awaited."""
    method = nats.aio.client.Client._process_msg
    assert inspect.iscoroutinefunction(method)
    assert list(inspect.signature(method).parameters) == [
        "self",
        "sid",
        "subject",
        "reply",
        "data",
        "headers",
    ]
    assert "await self.nc._process_msg(sid, subject, reply, payload, hdr)" in inspect.getsource(
        Parser
    )


class _Listener:
    def __init__(self):
        self.messages = []

    def taken(self, _sid, subject, reply, headers, payload):
        self.messages.append((subject, reply, headers, payload))

    def denied(self, text):
        raise AssertionError(text)

    def lost(self, answer):
        pass
