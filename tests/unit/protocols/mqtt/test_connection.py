"""A connection, without a network: what it writes, whom it tells, and when it gives up."""

import asyncio

import pytest

from distributary.core.errors import TransportError
from distributary.protocols.mqtt.engine import (
    PACKET_BYTES_MAX,
    WRITTEN,
    MqttConnection,
    MqttLogin,
    TooLargeError,
    Version,
    target,
)
from distributary.protocols.mqtt.engine._properties import variable

YES = b"\x20\x03\x00\x00\x00"


class Wire:
    """A transport that keeps what is written."""

    def __init__(self):
        self.written = b""
        self.aborted = False
        self.closing = False
        self.paused = False

    def write(self, block):
        self.written += block

    def get_write_buffer_size(self):
        return 0

    def set_write_buffer_limits(self, high, low):
        # TLS takes a buffer for full that has as many bytes as the limit: never 0.
        assert (high, low) == (1, 0)

    def pause_reading(self):
        assert not self.paused
        self.paused = True

    def resume_reading(self):
        assert self.paused
        self.paused = False

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True

    def take(self):
        """What was written since the last time."""
        written, self.written = self.written, b""
        return written


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.settled_ones = []
        self.ends = []
        self.publications = []

    def settled(self, token, code, text):
        self.settled_ones.append((token, code, text))

    def received(self, publication):
        self.publications.append(publication)

    def ended(self, end):
        self.ends.append(end)


class Timers:
    """Stands in for the loop's clock: ticks are called by hand."""

    def __init__(self, loop):
        self._loop = loop
        self.pending = []

    def call_later(self, delay_s, callback, *args):
        handle = asyncio.Handle(callback, args, self._loop)
        self.pending.append((delay_s, handle))
        return handle

    def tick(self):
        """The next timer; how long it was set for."""
        delay_s, handle = self.pending.pop(0)
        assert not handle.cancelled()
        handle._run()
        return delay_s

    def __getattr__(self, name):
        return getattr(self._loop, name)


class Opened:
    """A connection that is logged in, with everything around it."""

    def __init__(self, version=Version.V5, connack=None, **login):
        self.listener = Listener()
        self.wire = Wire()
        self.connection = MqttConnection(MqttLogin(version, "me", **login), self.listener)
        self.timers = self.connection._loop = Timers(asyncio.get_running_loop())
        self.connection.connection_made(self.wire)
        yes = YES if version is Version.V5 else b"\x20\x02\x00\x00"
        self.connection.data_received(connack or yes)
        self.wire.take()

    def publish(self, qos, token="a", payload=b"x"):
        where = target("t", qos, retain=False, expiry_s=None, user=())
        self.connection.publish(where, b"", payload, token)


async def subscribed():
    """A connection with a subscription: what the broker sends by itself was asked for."""
    it = Opened()
    await it.connection.opened()
    asked = asyncio.ensure_future(it.connection.subscribe("t", 1))
    await turn()
    it.connection.data_received(b"\x90\x04\x00\x01\x00\x01")
    assert (await asked).code == 1
    return it


async def turn():
    """One turn of the loop: what was published gets written."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def run(scenario):
    """A scenario on a loop of its own."""
    asyncio.run(scenario())


def test_what_is_published_in_one_turn_is_written_at_once():
    """One write for all of it, in order."""

    async def scenario():
        it = Opened()
        for number in range(3):
            it.publish(1, token=number, payload=bytes((number,)))
        assert it.wire.take() == b""
        await turn()
        packet = b"\x32\x07\x00\x01t\x00%c\x00%c"
        assert it.wire.take() == b"".join(packet % (number + 1, number) for number in range(3))
        assert it.connection.in_flight == 3

    run(scenario)


def test_qos_0_is_answered_when_the_network_has_taken_it():
    """Not when it only lies in a buffer."""

    async def scenario():
        it = Opened()
        it.publish(0, "first")
        await turn()
        assert it.listener.settled_ones == [("first", WRITTEN, "")]
        it.connection.pause_writing()
        it.publish(0, "second")
        await turn()
        assert len(it.listener.settled_ones) == 1
        it.connection.resume_writing()
        assert it.listener.settled_ones[1:] == [("second", WRITTEN, "")]

    run(scenario)


def test_qos_2_takes_two_exchanges():
    """PUBREC, PUBREL, PUBCOMP; the answer comes with the last."""

    async def scenario():
        it = Opened()
        it.publish(2)
        await turn()
        it.wire.take()
        it.connection.data_received(b"\x50\x02\x00\x01")
        await turn()
        assert it.wire.take() == b"\x62\x02\x00\x01"
        assert it.listener.settled_ones == []
        it.connection.data_received(b"\x70\x02\x00\x01")
        assert it.listener.settled_ones == [("a", 0, "")]

    run(scenario)


def test_qos_0_is_not_answered_where_it_was_dropped():
    """A write that fails ends the connection: the end is its answer."""

    async def scenario():
        it = Opened()
        await it.connection.opened()
        it.publish(0)
        it.wire.closing = True  # as a transport is after a write that failed
        await turn()
        it.connection.resume_writing()
        assert it.listener.settled_ones == []
        assert it.connection.in_flight == 1
        it.connection.connection_lost(BrokenPipeError("gone"))
        assert len(it.listener.ends) == 1

    run(scenario)


def test_who_asks_without_reading_is_not_read():
    """A flood of PUBREL whose answers nobody takes would fill the memory."""

    async def scenario():
        it = await subscribed()
        it.connection.pause_writing()
        flood = b"\x62\x02\x00\x01" * 1_000
        blocks = 0
        while not it.wire.paused:
            it.connection.data_received(flood)
            blocks += 1
        assert 10 < blocks < 20
        it.connection.pause_reading()
        it.connection.resume_reading()
        assert it.wire.paused
        it.connection.resume_writing()
        assert not it.wire.paused

    run(scenario)


def test_a_silent_broker_that_takes_nothing_is_given_up():
    """Not read, since it takes nothing: this is no excuse for its silence."""

    async def scenario():
        it = await subscribed()
        it.connection.pause_writing()
        it.connection.data_received(b"\x62\x02\x00\x01" * 20_000)
        assert it.wire.paused
        for _ in range(4):
            it.timers.tick()
        assert len(it.listener.ends) == 1

    run(scenario)


@pytest.mark.parametrize(
    "stray",
    [b"\x40\x02\x00\x01", b"\x70\x02\x00\x01", b"\x50\x03\x00\x02\x87", b"\x40\x03\x00\x02\x87"],
    ids=["puback", "pubcomp-too-early", "pubrec-unknown", "puback-unknown"],
)
def test_an_answer_of_another_kind_settles_nothing(stray):
    """QoS 2 has its own two; the exchange goes on after it."""

    async def scenario():
        it = Opened()
        it.publish(2)
        await turn()
        it.wire.take()
        it.connection.data_received(stray)
        assert it.listener.settled_ones == []
        it.connection.data_received(b"\x50\x02\x00\x01" * 2)
        await turn()
        assert it.wire.take() == b"\x62\x02\x00\x01"
        it.connection.data_received(b"\x50\x03\x00\x01\x87")  # it was taken: no second judgement
        assert it.listener.settled_ones == []
        it.connection.data_received(b"\x70\x02\x00\x01" * 2)
        assert it.listener.settled_ones == [("a", 0, "")]

    run(scenario)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_packets_may_be_cut_anywhere(size):
    """What comes in pieces is put together, whatever the pieces."""
    said = (
        b"\x40\x02\x00\x01"
        b"\x50\x02\x00\x02"
        b"\xd0\x00"
        b"\x40\x0a\x00\x03\x97\x06\x1f\x00\x03abc"
        b"\x32\x80\x02\x00\x01t\x00\x09\x00" + b"x" * 250 + b"\x70\x02\x00\x02"
    )

    async def scenario():
        it = Opened()
        for qos, token in ((1, "a"), (2, "b"), (1, "c")):
            it.publish(qos, token)
        for at in range(0, len(said), size):
            it.connection.data_received(said[at : at + size])
        assert it.listener.settled_ones == [("a", 0, ""), ("c", 0x97, "abc"), ("b", 0, "")]
        (publication,) = it.listener.publications
        assert (publication.packet_id, publication.payload) == (9, b"x" * 250)
        assert it.connection.in_flight == 0

    run(scenario)


@pytest.mark.parametrize("size", [97, 1_000, 70_000, 1_000_000])
def test_a_message_that_is_too_large_is_let_go_in_any_pieces(size):
    """Its head is told, nothing of the rest is kept, and what follows is read."""
    body = b"\x00\x01t\x00\x09" + b"x" * 300_000
    said = b"\x32" + variable(len(body)) + body + b"\x32\x06\x00\x01t\x00\x0ay"

    async def scenario():
        it = Opened(Version.V3, packet_bytes_max=100_000)
        for at in range(0, len(said), size):
            it.connection.data_received(said[at : at + size])
            assert len(it.connection._in) <= 65_536 + size
        large, small = it.listener.publications
        assert (large.packet_id, large.payload, large.fault.code) == (9, None, "too-large")
        assert (small.packet_id, small.payload) == (10, b"y")

    run(scenario)


def test_asks_whether_the_broker_is_there_and_gives_up():
    """Every half of the keepalive; after one and a half of it without a byte it is gone."""

    async def scenario():
        it = Opened()
        opened = await it.connection.opened()
        assert opened.code == 0
        assert it.timers.tick() == 5.0
        await turn()
        assert it.wire.take() == b"\xc0\x00"
        it.connection.data_received(b"\xd0\x00")
        for _ in range(3):
            assert it.timers.tick() == 5.0
        assert it.listener.ends == []
        it.timers.tick()
        (end,) = it.listener.ends
        assert end.reason == "reset"
        assert it.wire.aborted

    run(scenario)


def test_does_not_take_its_own_pause_for_silence():
    """What is not read cannot be heard; the pings go on."""

    async def scenario():
        it = Opened()
        await it.connection.opened()
        it.connection.pause_reading()
        for _ in range(10):
            it.timers.tick()
        assert it.listener.ends == []
        it.connection.resume_reading()
        for _ in range(3):
            it.timers.tick()
        assert len(it.listener.ends) == 1

    run(scenario)


def test_keeps_to_the_keepalive_that_the_broker_asks_for():
    """Server Keep Alive (3.2.2.3.14)."""

    async def scenario():
        it = Opened(connack=b"\x20\x06\x00\x00\x03\x13\x00\x04")
        (_, set_before_the_login), _ = it.timers.pending
        assert set_before_the_login.cancelled()
        del it.timers.pending[0]
        assert it.timers.tick() == 2.0
        assert it.timers.tick() == 2.0

    run(scenario)


def test_a_message_larger_than_the_broker_takes_is_not_sent():
    """Maximum Packet Size (3.2.2.3.6), to the byte."""

    async def scenario():
        it = Opened(connack=b"\x20\x08\x00\x00\x05\x27\x00\x00\x00\x40")
        it.publish(1, payload=b"x" * (64 - 8))
        await turn()
        assert len(it.wire.take()) == 64
        with pytest.raises(TooLargeError):
            it.publish(1, payload=b"x" * (64 - 7))
        assert it.connection.in_flight == 1

    run(scenario)


def test_no_packet_is_larger_than_its_length_can_say():
    """Whatever the broker says that it takes (2.1.4)."""

    async def scenario():
        it = Opened(connack=b"\x20\x08\x00\x00\x05\x27\xff\xff\xff\xff")
        assert it.connection.packet_bytes_max == PACKET_BYTES_MAX == 0x0F_FF_FF_FF

    run(scenario)


def test_an_end_is_told_once():
    """And nothing is told after it."""

    async def scenario():
        it = Opened()
        await it.connection.opened()
        it.publish(1)
        it.connection.data_received(b"\xe0\x01\x8b" + b"\x40\x02\x00\x01")
        it.connection.connection_lost(None)
        (end,) = it.listener.ends
        assert end.code == 0x8B
        assert it.listener.settled_ones == []

    run(scenario)


def test_an_end_right_after_the_login_is_raised():
    """Nobody could have been told before."""

    async def scenario():
        it = Opened(connack=YES + b"\xe0\x01\x89")
        with pytest.raises(TransportError, match="0x89"):
            await it.connection.opened()
        assert it.listener.ends == []

    run(scenario)


def test_a_refusal_counts_though_the_broker_hangs_up():
    """As most do."""

    async def scenario():
        it = Opened(connack=b"\x20\x03\x00\x87\x00")
        it.connection.connection_lost(None)
        assert (await it.connection.opened()).code == 0x87

    run(scenario)


def test_an_end_while_subscribing_is_raised():
    """And not told besides."""

    async def scenario():
        it = Opened()
        await it.connection.opened()
        subscribing = asyncio.ensure_future(it.connection.subscribe("t", 1))
        await turn()
        it.connection.connection_lost(ConnectionResetError("gone"))
        with pytest.raises(TransportError, match="gone"):
            await subscribing
        with pytest.raises(TransportError):
            await it.connection.subscribe("t", 1)
        assert it.listener.ends == []

    run(scenario)


def test_closing_says_goodbye_and_nothing_else():
    """What is in flight is its owner's business."""

    async def scenario():
        it = Opened()
        it.publish(1)
        await turn()
        it.wire.take()
        closing = asyncio.ensure_future(it.connection.close())
        await turn()
        assert it.wire.take() == b"\xe0\x00"
        assert it.connection.in_flight == 0
        it.connection.connection_lost(None)
        await closing
        assert it.listener.ends == []

    run(scenario)


def test_closing_can_be_cancelled():
    """A broker that does not take the goodbye is left without one."""

    async def scenario():
        it = Opened()
        closing = asyncio.ensure_future(it.connection.close())
        await turn()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert it.wire.aborted

    run(scenario)


def test_a_connection_that_comes_too_late_is_dropped():
    """Its opener has given up."""

    async def scenario():
        connection = MqttConnection(MqttLogin(Version.V5, "me"), Listener())
        connection.abort()
        wire = Wire()
        connection.connection_made(wire)
        assert wire.aborted
        assert wire.written == b""

    run(scenario)
