"""Two engines joined by memory: links, credit, outcomes, ends, and hostile bytes."""

import asyncio
from unittest.mock import Mock

import pytest

from distributary.protocols.amqp.engine import (
    ACCEPTED,
    AVAILABLE,
    AmqpEngine,
    AmqpMessage,
    DeliveryState,
    Ended,
    Outcome,
    encode_message,
)
from kit.amqp_client import join
from kit.fake_amqp import FakeAmqp, drain, hangs, is_draining

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="NOT RUN: amqp: proton is not installed")

PAYLOAD = encode_message(AmqpMessage(b"x" * 100))


class OutcomeChecker(FakeAmqp):
    """A client's handler that notes what it is told."""

    def __init__(self):
        super().__init__()
        self.ended = []
        self.closed_links = []
        self.written_links = []

    def link_opened(self, link):
        self.links.append(link)

    def link_closed(self, link):
        self.closed_links.append(link)

    def written(self, link):
        self.written_links.append(link)

    def closed(self, ended):
        self.ended.append(ended)


class Joined:
    """A client and a server, and turns of the loop."""

    def __init__(self, **peer):
        self.peer = FakeAmqp(**peer)
        self.ends = []
        self.peer.closed = self.ends.append
        self.here = OutcomeChecker()
        self.client = AmqpEngine(self.here, host="localhost")
        self.server = AmqpEngine(self.peer, server=True, message_bytes_max=100_000)
        self.wire, self.far_wire = join(self.client, self.server)

    async def turns(self, count=20):
        for _ in range(count):
            await asyncio.sleep(0)


def played(scene, **peer):
    """Play *scene* with a joined pair."""

    async def run():
        pair = Joined(**peer)
        await pair.turns()
        try:
            await scene(pair)
        finally:
            pair.client.abort()
            pair.server.abort()
            await pair.turns()

    asyncio.run(run())


def test_messages_arrive_once_in_order_with_their_outcomes():
    """Each token comes back once."""

    async def scene(pair):
        link = pair.client.open_sender("there", "link")
        await pair.turns()
        for number in range(200):
            link.send(PAYLOAD, number)
        await pair.turns(60)
        assert len(pair.peer.messages) == 200
        assert pair.here.outcomes == [(number, ACCEPTED) for number in range(200)]
        assert not link.unsettled

    played(scene)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(DeliveryState.REJECTED, "amqp:not-allowed", "é"),
        Outcome(DeliveryState.REJECTED),
        Outcome(DeliveryState.RELEASED),
        Outcome(DeliveryState.MODIFIED, failed=True),
        Outcome(DeliveryState.MODIFIED, undeliverable=True),
        Outcome(DeliveryState.NONE),
    ],
    ids=str,
)
def test_every_outcome_is_told_as_it_was_said(outcome):
    """With its condition and flags."""

    async def scene(pair):
        pair.client.open_sender("there", "link")
        await pair.turns()
        pair.here.links[0].send(PAYLOAD, "token")
        await pair.turns()
        assert pair.here.outcomes == [("token", outcome)]

    played(scene, on_message=lambda _, incoming: incoming.settle(outcome))


def test_a_receiver_gets_what_its_credit_allows():
    """Also by an address that the server makes."""

    async def scene(pair):
        link = pair.client.open_receiver(None, "answers")
        await pair.turns()
        assert link.address == "made-here"
        (far,) = pair.peer.links
        assert far.dynamic
        assert far.sending
        assert far.settlement == "unsettled"  # what is not taken must come again
        assert far.credit == 0
        link.grant(2)
        await pair.turns()
        assert far.credit == 2
        far.send(PAYLOAD, 1)
        far.send(PAYLOAD, 2, settled=True)
        await pair.turns()
        assert len(pair.here.messages) == 2
        assert pair.peer.outcomes == [(1, ACCEPTED)]

    played(scene)


def test_a_refused_link_ends_with_its_reason_and_no_other_does():
    """``link_opened`` is not told of it by a server that refuses as the standard says."""

    async def scene(pair):
        pair.peer.on_link = lambda link: link.accept() if link.address == "good" else None
        bad = pair.client.open_sender("bad", "a")
        good = pair.client.open_sender("good", "b")
        await pair.turns()
        pair.peer.links[0].close("amqp:not-found", "no such node")
        await pair.turns()
        assert bad.ended == Ended("peer", "amqp:not-found", "no such node")
        assert pair.here.closed_links == [bad]
        assert good.ended is None
        assert bad.credit == 0
        bad.grant(1)
        bad.close()

    played(scene)


def test_written_is_told_when_the_socket_has_it():
    """Not before, whatever the peer says or does not say."""

    async def scene(pair):
        link = pair.client.open_sender("there", "link", settled=True)
        await pair.turns()
        pair.here.written_links.clear()
        pair.wire.held = True
        link.send(PAYLOAD, None, settled=True)
        await pair.turns()
        assert not pair.here.written_links
        pair.wire.release()
        await pair.turns()
        assert pair.here.written_links == [link]
        assert not pair.here.outcomes

    played(scene, on_message=hangs)


def test_a_goodbye_waits_for_the_peer_s():
    """A socket closed over unread bytes is reset, and what was said last may never be read."""

    async def scene(pair):
        pair.far_wire.pause_reading()
        pair.client.close()
        await pair.turns()
        assert not pair.wire.is_closing()
        assert not pair.here.ended
        pair.far_wire.resume_reading()
        await pair.turns()
        assert pair.wire.is_closing()
        assert [ended.cause for ended in pair.here.ended] == ["local"]
        assert [ended.cause for ended in pair.ends] == ["peer"]

    played(scene)


def test_a_goodbye_is_answered_and_told_once():
    """Each side learns how it ended; what is called afterwards does nothing."""

    async def scene(pair):
        link = pair.client.open_sender("there", "link")
        await pair.turns()
        pair.client.close("amqp:connection:forced", "enough")
        await pair.turns()
        assert pair.ends == [Ended("peer", "amqp:connection:forced", "enough")]
        assert [ended.cause for ended in pair.here.ended] == ["local"]
        assert link.ended is not None
        link.close()
        link.grant(1)
        pair.client.close()
        pair.client.abort()
        assert len(pair.here.ended) == 1

    played(scene)


def test_a_message_that_was_not_settled_in_time_can_be_settled_late():
    """After the link, or the connection, is gone nobody hears it, and nothing breaks."""
    kept = []

    async def scene(pair):
        link = pair.client.open_sender("there", "link")
        await pair.turns()
        link.send(PAYLOAD, 1)
        link.send(PAYLOAD, 2)
        await pair.turns()
        link.close()
        await pair.turns()
        kept[0].settle(ACCEPTED)
        pair.client.abort()
        await pair.turns()
        kept[1].settle(ACCEPTED)
        assert not pair.here.outcomes

    played(scene, on_message=lambda _, incoming: kept.append(incoming))


def test_a_message_larger_than_the_limit_ends_its_link():
    """It is not kept; the connection goes on."""

    async def scene(pair):
        link = pair.client.open_sender("there", "link")
        await pair.turns()
        assert link.message_bytes_max == 100_000
        link.send(bytes(300_000), 1)
        await pair.turns(60)
        assert link.ended == Ended(
            "peer", "amqp:link:message-size-exceeded", "A message is larger than 100000 bytes"
        )
        assert not pair.peer.messages
        assert pair.client.ended is None

    played(scene)


def test_a_connection_that_breaks_is_lost():
    """And its links with it, without a word to each."""

    async def scene(pair):
        link = pair.client.open_sender("there", "link")
        await pair.turns()
        pair.wire.lose()
        assert [ended.cause for ended in pair.here.ended] == ["lost"]
        assert link.ended is not None
        assert not pair.here.closed_links

    played(scene)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"AMQP\x00\x01\x00\x00" + b"\xff" * 64,
        b"AMQP\x00\x01\x00\x00\x00\x00\x00\x08\x02\x00\x00\x00" * 3,
        b"AMQP\x03\x01\x00\x00\x00\x00\x00\x10\x02\x01\x00\x00\x00\x53\x41\xc0\x03\x01\xa3\x00",
        b"\x00" * 1_000,
    ],
    ids=["http", "frame-too-large", "headers", "sasl", "zeros"],
)
def test_a_server_ends_a_connection_that_is_garbage(garbage):
    """Without a crash, and told once."""

    async def run():
        ends = []
        peer = FakeAmqp()
        peer.closed = ends.append
        server = AmqpEngine(peer, server=True)
        client = asyncio.Protocol()
        wires = join(client, server)
        server.data_received(garbage)
        for _ in range(10):
            await asyncio.sleep(0)
        server.abort()
        wires[1].lose()
        assert len(ends) == 1
        assert ends[0].cause in {"protocol", "local"}
        server.data_received(b"more")

    asyncio.run(run())


def test_what_does_not_read_is_not_read_from():
    """What it is told would pile up here, as long as it goes on asking."""

    async def scene(pair):
        link = pair.client.open_sender("there", "link")
        await pair.turns()
        pair.far_wire.held = True
        payload = encode_message(AmqpMessage(bytes(5_000)))
        for number in range(50):
            link.send(payload, number)
            await asyncio.sleep(0)
        assert 5 < len(pair.peer.messages) < 20
        assert pair.far_wire.unread
        pair.far_wire.release()
        await pair.turns(100)
        assert not pair.far_wire.unread
        assert pair.here.outcomes == [(number, ACCEPTED) for number in range(50)]

    played(scene)


def test_a_connection_that_ended_is_cut_though_its_peer_does_not_read(monkeypatch):
    """Its last words would wait in front of a full socket for ever, and the socket with them."""
    for name in ("TICK_S", "OPENING_TICK_S"):
        monkeypatch.setattr(f"distributary.protocols.amqp.engine._engine.{name}", 0.01)

    async def scene(pair):
        pair.far_wire.held = True
        pair.server._core.end(Ended("silent"))
        async with asyncio.timeout(5):
            while pair.server._wire is not None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)
        assert len(pair.ends) == 1
        assert pair.server._core.freed

    played(scene)


class SteppedLoop:
    """The loop of an engine, with a time that goes on when it is told to."""

    def __init__(self, engine):
        self.now_s = 1_000.0
        self.call_soon = asyncio.get_running_loop().call_soon
        engine._tick.cancel()
        engine._loop = self
        engine._keep_time()

    def time(self):
        return self.now_s

    def call_later(self, delay_s, callback):
        self._due_s, self._callback = self.now_s + delay_s, callback
        return Mock()

    def go_on(self, step_s):
        self.now_s += step_s
        if self.now_s >= self._due_s:
            self._callback()


def test_a_peer_with_a_short_idle_time_out_hears_of_us_in_time():
    """It is known when the connection is opened, and kept from then on."""

    async def run():
        ends = []
        peer = FakeAmqp()
        peer.closed = ends.append
        client = AmqpEngine(OutcomeChecker(), host="localhost")
        server = AmqpEngine(peer, server=True, idle_s=1.0)
        join(client, server)
        server._tick.cancel()
        loop = SteppedLoop(client)
        for _ in range(1_000):
            for _ in range(4):
                await asyncio.sleep(0)
            server._core.tick(int(loop.now_s * 1_000))  # it looks all the time
            server._flush()
            assert not ends
            loop.go_on(0.02)
        client.abort()
        server.abort()
        await asyncio.sleep(0)

    asyncio.run(run())


def test_a_message_that_its_sender_takes_back_uses_up_no_credit():
    """A reader would have none left in the end."""

    async def scene(pair):
        link = pair.client.open_receiver("there", "link")
        link.grant(3)
        await pair.turns()
        (far,) = pair.peer.links
        c = far._c
        for number in range(10):
            delivery = c.pn_delivery(far._pointer, str(number))
            c.pn_link_send(far._pointer, b"begun")
            pair.server.flush_soon()
            await pair.turns()
            c.pn_delivery_abort(delivery)
            pair.server.flush_soon()
            await pair.turns()
        far.send(PAYLOAD, 1)
        await pair.turns()
        assert len(pair.here.messages) == 1
        assert link.credit == far.credit == 3

    played(scene)


def test_a_reader_is_told_of_a_message_that_is_too_large_and_gets_the_next():
    """An end of the link would bring the same message again, and again, and nothing else."""
    came = []

    async def scene(pair):
        pair.here.received = lambda _, incoming: came.append(incoming)
        pair.client._core._message_bytes_max = 100_000
        link = pair.client.open_receiver("there", "link")
        link.grant(3)
        await pair.turns()
        (far,) = pair.peer.links
        far.send(bytes(450_000), 1)
        far.send(PAYLOAD, 2)
        await pair.turns(60)
        large, good = came
        assert (large.too_large, large.payload) == (True, b"")
        assert (good.too_large, good.payload) == (False, PAYLOAD)
        large.settle(Outcome(DeliveryState.REJECTED))
        good.settle(ACCEPTED)
        await pair.turns()
        assert pair.peer.outcomes == [(1, Outcome(DeliveryState.REJECTED)), (2, ACCEPTED)]

    played(scene)


def test_a_session_that_is_not_answered_is_not_ended_before_it_is():
    """Another would have its channel, and the late answer would be taken for that one's."""

    async def scene(pair):
        pair.far_wire.held = True
        early = pair.client.open_sender("there", "early")
        await pair.turns()
        early.close()
        late = pair.client.open_sender("there", "late")
        await pair.turns()
        pair.far_wire.release()
        await pair.turns(40)
        assert late.ended is None
        late.send(PAYLOAD, "token")
        await pair.turns()
        assert pair.here.outcomes == [("token", ACCEPTED)]
        assert pair.client._core._sessions._count == 1

    played(scene)


def test_credit_that_is_asked_back_is_given_back_once_what_waits_is_sent():
    """A peer that asks (section 2.6.7) may wait for that."""

    async def scene(pair):
        link = pair.client.open_sender("there", "link")
        await pair.turns()
        assert (link.credit, is_draining(pair.peer.links[0])) == (9, True)
        link.send(PAYLOAD, 1)
        link.return_credit()
        await pair.turns()
        assert len(pair.peer.messages) == 1
        assert (link.credit, is_draining(pair.peer.links[0])) == (0, False)
        pair.peer.links[0].grant(5)
        await pair.turns()
        link.return_credit()
        await pair.turns()
        assert link.credit == 5, "nobody asks"

    def on_link(link):
        link.accept()
        drain(link, 9)

    played(scene, on_link=on_link, on_message=hangs)
