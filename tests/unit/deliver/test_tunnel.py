"""The tunnel through a WebSocket, without a network: what a hostile server can pile up here."""

import asyncio

from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from distributary.deliver._endpoint import parse
from distributary.deliver._tunnel import UNREAD_BYTES_MAX, _Tunnel
from distributary.testing.amqp_client import join


class Server(asyncio.Protocol):
    """Agrees to the WebSocket, and keeps what comes after it."""

    def __init__(self):
        self.socket = ServerProtocol(subprotocols=["amqp"])
        self.wire = None
        self.frames = []

    def connection_made(self, transport):
        self.wire = transport

    def data_received(self, data):
        self.socket.receive_data(data)
        for event in self.socket.events_received():
            if isinstance(event, Frame):
                self.frames.append(event)
            else:
                self.socket.send_response(self.socket.accept(event))
        self.say()

    def say(self):
        for data in self.socket.data_to_send():
            self.wire.write(data)


async def _turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


def test_answers_to_pings_do_not_pile_up_for_a_server_that_does_not_read():
    """It is not read from either, until it does."""

    async def scene():
        endpoint = parse("ws://127.0.0.1:1/", {"ws": 80})
        tunnel, server = _Tunnel(endpoint, "amqp", asyncio.Protocol), Server()
        wire, _ = join(tunnel, server)
        await _turns()
        assert tunnel.agreed.done()
        wire.held = True
        pings = 2 * UNREAD_BYTES_MAX // 100
        for number in range(pings):
            server.socket.send_ping(number.to_bytes(4) + bytes(96))
            server.say()
        await _turns()
        assert wire.unread
        wire.release()
        await _turns()
        assert not wire.unread
        pongs = [frame for frame in server.frames if frame.opcode is Opcode.PONG]
        assert len(pongs) == pings
        tunnel.abort()
        await _turns()

    asyncio.run(scene())
