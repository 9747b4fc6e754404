"""A peer that sends what it must not: what it can make this end hold is bounded."""

import asyncio
import struct

import pytest

from distributary.protocols.amqp.engine import (
    AVAILABLE,
    PEER_LINKS_MAX,
    SESSION_BYTES_MAX,
    AmqpEngine,
    AmqpMessage,
    _values,
    encode_message,
)
from distributary.protocols.amqp.engine._values import Described, UInt, ULong
from kit.amqp_client import join
from kit.fake_amqp import FakeAmqp

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="NOT RUN: amqp: proton is not installed")

OPEN, BEGIN, ATTACH, FLOW, TRANSFER = 0x10, 0x11, 0x12, 0x13, 0x14
CHUNK = 60_000


def _frame(code, fields, payload=b""):
    body = _values.encode(Described(ULong(code), fields)) + payload
    return struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body


def _attach(handle):
    """A link that the peer sends by."""
    target = Described(ULong(0x29), [f"node{handle}"])
    source = Described(ULong(0x28), ["here"])
    return _frame(ATTACH, [f"link{handle}", UInt(handle), False, None, None, source, target])


def _transfer(number, payload, *, more=False):
    tag = str(number).encode()
    return _frame(TRANSFER, [UInt(0), UInt(number), tag, UInt(0), False, more], payload)


class RawPeer(asyncio.Protocol):
    """Has one session, and says whatever it is told to."""

    def __init__(self, handler):
        self.engine = AmqpEngine(handler, server=True)
        self.wire, _ = join(self, self.engine)
        window = UInt(2**31 - 1)
        self.wire.write(b"AMQP\x00\x01\x00\x00" + _frame(OPEN, ["raw"]))
        self.wire.write(_frame(BEGIN, [None, UInt(0), window, window]))

    async def say(self, *frames):
        for frame in frames:
            self.wire.write(frame)
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)


class Watched(FakeAmqp):
    """Notes links that ended."""

    def __init__(self, **peer):
        super().__init__(**peer)
        self.gone = []

    def link_closed(self, link):
        self.gone.append(link.ended.condition)


def _played(scene, **peer):
    async def run():
        handler = Watched(**peer)
        raw = RawPeer(handler)
        try:
            await scene(raw, handler)
        finally:
            raw.engine.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(run())


def test_messages_beyond_the_credit_end_their_link():
    """Proton takes them; each would be held until its turn comes, without end."""

    def grants_two(link):
        link.accept()
        link.grant(2)

    async def scene(raw, handler):
        message = encode_message(AmqpMessage(b"x"))
        await raw.say(_attach(0), *(_transfer(number, message) for number in range(9)))
        assert len(handler.messages) == 2
        assert handler.gone == ["amqp:link:transfer-limit-exceeded"]
        assert raw.engine.ended is None

    _played(scene, on_link=grants_two, on_message=lambda *_: None)


def test_what_comes_by_a_refused_link_is_not_kept():
    """Proton would keep it until the window is full; here it never is."""

    async def scene(raw, _handler):
        pieces = 3 * SESSION_BYTES_MAX // CHUNK
        transfers = (_transfer(0, bytes(CHUNK), more=True) for _ in range(pieces))
        await raw.say(_attach(0), *transfers, _transfer(0, b"", more=False), _attach(1))
        assert raw.engine.ended is None

    _played(scene, on_link=lambda link: link.close("amqp:not-found", "no"))


def test_a_message_may_come_in_many_pieces():
    """They are one message in the end."""

    async def scene(raw, handler):
        message = encode_message(AmqpMessage(bytes(range(256)) * 4))
        pieces = [message[at : at + 1] for at in range(len(message))]
        transfers = [_transfer(0, piece, more=True) for piece in pieces[:-1]]
        await raw.say(_attach(0), *transfers, _transfer(0, pieces[-1]))
        (arrived,) = handler.messages
        assert arrived.body == bytes(range(256)) * 4

    _played(scene)


def test_links_without_end_cost_the_connection():
    """Refused ones are counted as long as the peer does not end them."""

    async def scene(raw, handler):
        await raw.say(*map(_attach, range(PEER_LINKS_MAX)))
        assert raw.engine.ended is None
        await raw.say(_attach(PEER_LINKS_MAX))
        assert raw.engine.ended is not None
        assert len(handler.links) == PEER_LINKS_MAX

    _played(scene, on_link=lambda link: link.close("amqp:not-found", "no"))


def test_who_opens_the_connection_twice_is_heard_once():
    """A client would open its links again each time."""

    async def scene(raw, handler):
        await raw.say(_frame(OPEN, ["raw"]), _attach(0))
        assert len(handler.engines) == 1

    _played(scene)


def test_a_session_that_is_answered_and_was_never_begun_ends_the_connection():
    """Handed on to proton it would free what is in use, and end the process."""

    async def scene(raw, handler):
        answer = _values.encode_items([b"\x60\x00\x00", b"\x43", b"\x52\x64", b"\x52\x64"])
        body = b"\x00\x53\x11" + answer
        head = struct.pack(">IBBH", 8 + len(body), 2, 0, 3)
        await raw.say(head + body, _attach(0), _frame(0x17, []))
        assert raw.engine.ended.cause == "protocol"
        assert not handler.links

    _played(scene)


class Ended(Watched):
    """Notes how its connection ended, too."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def closed(self, ended):
        self.ends.append(ended.cause)


def test_a_peer_that_floods_with_frames_is_left_and_one_that_keeps_alive_is_not():
    """They would take the loop that delivers to all; the count begins anew with each tick."""

    async def scene():
        handler = Ended()
        peer = RawPeer(handler)
        heartbeat = b"\x00\x00\x00\x08\x02\x00\x00\x00"
        for _ in range(5):
            await peer.say(heartbeat * 900)
            peer.engine._tick.cancel()
            peer.engine._keep_time()
        assert not handler.ends
        await peer.say(heartbeat * 1_001)
        assert handler.ends == ["protocol"]

    asyncio.run(scene())


def test_outcomes_of_many_messages_are_no_flood(monkeypatch):
    """Nor is the credit that comes with each: they answer what was sent."""
    monkeypatch.setattr("distributary.protocols.amqp.engine._frames.FRAMES_MAX", 50)

    async def scene():
        handler, server = Ended(), FakeAmqp()
        client = AmqpEngine(handler, host="localhost")
        join(client, AmqpEngine(server, server=True))
        for _ in range(20):
            await asyncio.sleep(0)
        link = client.open_sender("there", "link")
        while len(handler.outcomes) < 200 and not handler.ends:
            await asyncio.sleep(0)
            if link.credit > 0 and not link.unsettled:
                link.send(encode_message(AmqpMessage(b"x")), len(handler.outcomes))
        assert not handler.ends
        client.abort()
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(scene())


class Drained(Ended):
    """Gives credit back as it is asked to."""

    def credited(self, link):
        link.return_credit()


def test_a_peer_that_polls_by_asking_credit_back_is_no_flood(monkeypatch):
    """It waits for each answer."""
    monkeypatch.setattr("distributary.protocols.amqp.engine._frames.FRAMES_MAX", 50)

    async def scene():
        handler, server = Ended(), Drained()
        client = AmqpEngine(handler, host="localhost")
        join(client, AmqpEngine(server, server=True))
        for _ in range(20):
            await asyncio.sleep(0)
        link = client.open_receiver("there", "link")
        polls = 0
        while polls < 200 and not handler.ends:
            await asyncio.sleep(0)
            if not link._c.pn_link_draining(link._pointer):
                link._c.pn_link_drain(link._pointer, 1)
                client.flush_soon()
                polls += 1
        assert not handler.ends
        client.abort()
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(scene())


def test_who_asks_for_credit_back_that_it_never_gave_floods():
    """It is not answered: nothing paces it."""

    async def scene():
        handler = Drained()
        peer = RawPeer(handler)
        source, target = Described(ULong(0x28), ["here"]), Described(ULong(0x29), ["there"])
        await peer.say(_frame(ATTACH, ["link", UInt(0), True, None, None, source, target]))
        window = UInt(2**31 - 1)
        head = [UInt(0), window, UInt(0), window, UInt(0), UInt(0)]
        asking = _frame(FLOW, [*head, UInt(0), None, True])
        await peer.say(*[asking] * 1_100)
        assert handler.ends == ["protocol"]

    asyncio.run(scene())
