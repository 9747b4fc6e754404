"""The tunnel through a WebSocket: what passes, what a server may get wrong."""

import asyncio

import pytest
from websockets.asyncio.server import serve

from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.net.tunnel import MESSAGE_BYTES_MAX, open_tunnel


class Inside(asyncio.Protocol):
    """Keeps what comes."""

    def __init__(self):
        self.got = b""
        self.transport = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data

    def connection_lost(self, exc):
        self.lost.set_result(exc)


async def _opened(connector, port, subprotocol="amqp"):
    endpoint = connector.endpoint_of(Destination(f"ws://127.0.0.1:{port}/a?b=c", protocol="AMQP"))
    inside = Inside()
    await open_tunnel(connector, endpoint, subprotocol, lambda: inside)
    return inside


def test_bytes_pass_both_ways_and_the_goodbye_is_said(run, connector, until):
    """In order, whatever the sizes of messages; the target is the resource."""

    async def echo(socket):
        assert socket.request.path == "/a?b=c"
        async for message in socket:
            await socket.send(message)

    async def scenario():
        async with serve(echo, "127.0.0.1", 0, subprotocols=["amqp"]) as server:
            port = server.sockets[0].getsockname()[1]
            inside = await _opened(connector(), port)
            pieces = [bytes([number]) * (number * 9_000) for number in range(12)]
            for piece in pieces:
                inside.transport.write(piece)
            await until(lambda: inside.got == b"".join(pieces))
            inside.transport.close()
            assert await asyncio.wait_for(inside.lost, 5) is None

    run(scenario())


@pytest.mark.parametrize("wrong", ["subprotocol", "text", "too-large", "status"])
def test_what_a_server_gets_wrong_is_an_error(run, connector, wrong):
    """And leaves no connection behind."""

    async def talk(socket):
        if wrong == "text":
            await socket.send("hello")
        elif wrong == "too-large":
            await socket.send(bytes(MESSAGE_BYTES_MAX + 1))
        await socket.wait_closed()

    async def refuse(socket, request):
        del request
        return socket.respond(503, "later") if wrong == "status" else None

    async def scenario():
        names = None if wrong == "subprotocol" else ["amqp"]
        async with serve(
            talk, "127.0.0.1", 0, subprotocols=names, process_request=refuse
        ) as server:
            port = server.sockets[0].getsockname()[1]
            if wrong in {"subprotocol", "status"}:
                with pytest.raises(TransportError) as caught:
                    await _opened(connector(), port)
                assert caught.value.reason == "protocol"
            else:
                inside = await _opened(connector(), port)
                await asyncio.wait_for(inside.lost, 5)
                assert inside.got == b""

    run(scenario())


@pytest.mark.parametrize(
    "answer", [b"", b"AMQP\x00\x01\x00\x00\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]
)
def test_a_server_that_knows_no_websocket_is_told_apart(run, connector, answer):
    """It answers something else, or nothing."""

    async def scenario():
        async def talk(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(TransportError) as caught:
                await _opened(connector(), port)
            assert caught.value.reason in {"protocol", "reset"}

    run(scenario())
