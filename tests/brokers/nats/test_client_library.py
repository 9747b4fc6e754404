"""What is used of nats-py beyond its documentation: a new version that changes it fails here."""

import inspect

import nats.aio.client
import pytest
from nats.protocol.parser import Parser

from distributary.protocols.nats import sink as transport
from distributary.protocols.nats.sink import _client, _wire


def test_the_transport_that_is_set_is_the_one_that_is_used(run, nats_server, connector, way):
    """nats-py dials by itself only where it has none: here it never does."""

    async def scenario():
        listener = _Listener()
        async with way() as here:
            destination = here.to(nats_server.port, "x")
            connection = await transport.connect(connector(), destination, listener, 1024)
            client = connection._client
            assert isinstance(client._transport, _wire.Wire)
            assert isinstance(client._ps, _client._Parser)
            connection.subscribe("library.>")
            assert await connection.flush(5)
            connection.publish("library.x", b"payload", reply="somewhere")
            assert await connection.flush(5)
            assert listener.messages == [(b"library.x", b"somewhere", b"", b"payload")]
            await connection.close()

    run(scenario())


def test_the_words_of_an_error_are_there_as_the_server_wrote_them(run, nats_server, connector, way):
    """While it is handled its line still stands in the parser's buffer, behind whatever came."""

    async def scenario():
        listener = _Listener()
        async with way() as here:
            destination = here.to(nats_server.port, "x")
            connection = await transport.connect(connector(), destination, listener, 1024)
            connection.subscribe("Library.>")
            for subject in ("Library.X", "forbidden.Upper", "Library.Y"):
                connection.publish(subject, b"")
            assert await connection.flush(5)
            assert [each[0] for each in listener.messages] == [b"Library.X", b"Library.Y"]
            assert listener.denials == [
                "'Permissions Violation for Publish to \"forbidden.Upper\"'"
            ]
            await connection.close()

    run(scenario())


@pytest.mark.parametrize(
    ("method", "parameters", "call"),
    [
        (
            "_process_msg",
            ["self", "sid", "subject", "reply", "data", "headers"],
            "await self.nc._process_msg(sid, subject, reply, payload, hdr)",
        ),
        ("_process_err", ["self", "err_msg"], "await self.nc._process_err(emsg)"),
        (
            "_process_info",
            ["self", "info", "initial_connection"],
            "await self.nc._process_info(srv_info)",
        ),
    ],
)
def test_the_parser_hands_over_by_the_methods_that_are_replaced(method, parameters, call):
    """Same name, same arguments in the same order, awaited."""
    replaced = getattr(nats.aio.client.Client, method)
    assert inspect.iscoroutinefunction(replaced)
    assert list(inspect.signature(replaced).parameters) == parameters
    assert call in inspect.getsource(Parser)


class _Listener:
    def __init__(self):
        self.messages = []
        self.denials = []

    def taken(self, _sid, subject, reply, headers, payload):
        self.messages.append((subject, reply, headers, payload))

    def denied(self, text):
        self.denials.append(text)

    def lost(self, answer):
        pass
