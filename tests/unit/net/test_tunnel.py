"""The tunnel through a WebSocket, without a network: what a server can pile up here, and say."""

import asyncio

import pytest
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from distributary.core.deliver.endpoint import parse
from distributary.core.errors import TransportError
from distributary.core.protocol import schemes
from distributary.net.tunnel import FRAMES_S, UNREAD_BYTES_MAX, _Tunnel
from kit.amqp_client import join


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


def _joined(inside):
    """A tunnel with *inside* in it, a server, and the wire of the tunnel."""
    endpoint = parse("ws://127.0.0.1:1/", schemes())
    tunnel, server = _Tunnel(endpoint, "amqp", lambda: inside), Server()
    wire, _ = join(tunnel, server)
    return tunnel, server, wire


def _flood(server, count=2 * UNREAD_BYTES_MAX // 100):
    """More pings than are answered while the answers are not taken; how many."""
    for number in range(count):
        server.socket.send_ping(number.to_bytes(4) + bytes(96))
        server.say()
    return count


def test_answers_to_pings_do_not_pile_up_for_a_server_that_does_not_read():
    """It is not read from either, until it does."""

    async def scene():
        tunnel, server, wire = _joined(asyncio.Protocol())
        await _turns()
        assert tunnel.agreed.done()
        wire.held = True
        pings = _flood(server)
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


@pytest.mark.parametrize(
    ("frames", "left"),
    [
        (b"\x89\x00" * 100_000, True),
        (b"\x82\x00" * 100_000, True),
        (b"\x82\x01x" * 100_000, True),
        (b"\x82\x04\x40\x02\x00\x01" * 5_000, False),
        (b"\x89\x00" * 500, False),
    ],
    ids=["pings", "empty", "single bytes", "answers", "some pings"],
)
def test_a_server_that_floods_is_left_before_all_of_it_is_read(frames, left):
    """Frames that hold nothing would take the loop that delivers to all."""

    async def scene():
        inside = Inside()
        inside.lost = []
        inside.connection_lost = inside.lost.append
        tunnel, _, _ = _joined(inside)
        await _turns()
        tunnel.data_received(frames)
        await _turns()
        assert bool(inside.lost) == left
        if left:
            assert len(inside.came) < 2_500
        else:
            assert len(inside.came) in {0, 20_000}
            tunnel.abort()
            await _turns()

    asyncio.run(scene())


FIELDS = b"\x82\x01\x40\x82\x01\x02\x82\x02\x00\x01"
"""PUBACK in three frames, as of brokers that send each field by itself."""


def test_answers_in_many_frames_are_no_flood_as_far_as_something_was_sent():
    """Brokers may cut messages as they like; what was sent may be answered a while later."""

    async def scene():
        inside = Inside()
        inside.lost = []
        inside.connection_lost = inside.lost.append
        tunnel, _, _ = _joined(inside)
        await _turns()
        for _ in range(5):
            inside.stream.write(bytes(64) * 1_000)
            tunnel.data_received(FIELDS * 1_000)
            await _turns()
        inside.stream.write(bytes(64) * 1_000)
        tunnel._frames_since_s -= FRAMES_S
        tunnel.data_received(FIELDS * 1_000)
        await _turns()
        assert len(inside.came) == 24_000
        assert not inside.lost
        inside.stream.write(bytes(1_000_000))
        tunnel.data_received(b"\x82\x00" * 100_000)
        await _turns()
        assert inside.lost

    asyncio.run(scene())


class Inside(asyncio.Protocol):
    """The protocol in a tunnel; keeps what comes."""

    def __init__(self):
        self.stream = None
        self.came = b""

    def connection_made(self, transport):
        self.stream = transport

    def data_received(self, data):
        self.came += data


def test_a_protocol_that_pauses_is_left_alone_when_the_server_reads_again():
    """Either has its reason; what one of them ends is still there for the other."""

    async def scene():
        inside = Inside()
        tunnel, server, wire = _joined(inside)
        await _turns()
        wire.held = True
        _flood(server)
        await _turns()
        inside.stream.pause_reading()
        wire.release()
        server.socket.send_binary(b"later")
        server.say()
        await _turns()
        assert inside.came == b""
        inside.stream.resume_reading()
        await _turns()
        assert inside.came == b"later"
        wire.held = True
        _flood(server)
        await _turns()
        inside.stream.resume_reading()
        assert wire.unread is not None  # the server does not read
        wire.release()
        await _turns()
        assert wire.unread is None
        tunnel.abort()
        await _turns()

    asyncio.run(scene())


def test_the_words_of_a_server_that_does_not_agree_are_cut():
    """They end in logs and in the status of a subscription."""

    async def scene():
        tunnel, server, _ = _joined(asyncio.Protocol())
        server.data_received = lambda _: server.wire.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            b"Upgrade: " + b"x" * 4_000 + b"\r\n\r\n"
        )
        with pytest.raises(TransportError) as caught:
            await tunnel.agreed
        assert caught.value.reason == "protocol"
        assert len(str(caught.value)) < 400
        await _turns()

    asyncio.run(scene())
