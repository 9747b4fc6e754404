"""Brokers that acknowledge messages and do not read them, and those that flood."""

import asyncio

import pytest

from distributary.protocols.mqtt.engine import (
    MqttConnection,
    MqttLogin,
    Version,
    _connection,
    target,
)
from distributary.protocols.mqtt.engine._connection import UNSENT_BYTES_MAX


class FullWire(asyncio.Transport):
    """A transport whose socket takes nothing."""

    def __init__(self):
        super().__init__()
        self.unsent = 0
        self.aborted = False

    def write(self, block):
        self.unsent += len(block)

    def get_write_buffer_size(self):
        return self.unsent

    def set_write_buffer_limits(self, high=None, low=None):
        """As they are."""

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.settled_ones = []
        self.ends = []

    def settled(self, token, _code, _text):
        self.settled_ones.append(token)

    def received(self, _publication):
        """Nobody subscribes."""

    def ended(self, end):
        self.ends.append(end)


def test_a_broker_that_acknowledges_and_does_not_read_is_left():
    """Each acknowledgement makes room for another message: they would fill the memory."""

    async def scenario():
        listener, wire = Listener(), FullWire()
        connection = MqttConnection(MqttLogin(Version.V5, "me"), listener)
        connection.connection_made(wire)
        connection.data_received(b"\x20\x03\x00\x00\x00")
        await connection.opened()
        connection.pause_writing()
        where = target("t", 1, retain=False, expiry_s=None, user=())
        payload = bytes(1024 * 1024)
        sent = 0
        while not listener.ends and sent < 100:
            connection.publish(where, b"", payload, sent)
            sent += 1
            await asyncio.sleep(0)
            connection.data_received(b"\x40\x02\x00%c" % sent)
        assert listener.settled_ones == list(range(sent - 1))  # the last one ends as its link does
        assert sent * len(payload) == UNSENT_BYTES_MAX
        assert [end.reason for end in listener.ends] == ["reset"]
        assert wire.aborted

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "packet",
    [
        b"\xd0\x00",
        b"\x40\x02\x00\x09",
        b"\x40\x04\x00\x09\x00\x00",
        b"\x50\x02\x00\x09",
        b"\x70\x02\x00\x09",
        b"\x62\x02\x00\x09",
        b"\x30\x04\x00\x01a\x00",
        b"\x30\xff\xff\x7f\x00\x01a\x00" + bytes(2_097_147),
        b"\x90\x04\x00\x01\x00\x00",
    ],
    ids=["pingresp", "puback", "code", "pubrec", "pubcomp", "pubrel", "publish", "large", "suback"],
)
def test_a_flood_of_what_answers_nothing_ends_the_connection(monkeypatch, packet):
    """It would take the loop that delivers to all; what came before is answered."""
    monkeypatch.setattr(_connection, "UNASKED_MAX", 10)

    async def scenario():
        listener, wire = Listener(), FullWire()
        login = MqttLogin(Version.V5, "me", packet_bytes_max=128 * 1024)
        connection = MqttConnection(login, listener)
        connection.connection_made(wire)
        connection.data_received(b"\x20\x03\x00\x00\x00")
        await connection.opened()
        where = target("t", 1, retain=False, expiry_s=None, user=())
        connection.publish(where, b"", b"x", "mine")
        connection.data_received(b"\x40\x02\x00\x01" + packet * 10)
        connection._tick()
        connection.data_received(packet * 10)
        assert (listener.settled_ones, listener.ends) == (["mine"], [])
        connection.data_received(packet)
        assert [end.reason for end in listener.ends] == ["protocol"]
        assert wire.aborted

    asyncio.run(scenario())


def test_the_messages_of_a_session_that_was_kept_are_no_flood(monkeypatch):
    """They come behind CONNACK, before there is a subscription on this connection."""
    monkeypatch.setattr(_connection, "UNASKED_MAX", 10)

    async def scenario():
        listener, came = Listener(), []
        listener.received = came.append
        connection = MqttConnection(MqttLogin(Version.V3, "me", clean=False), listener)
        connection.connection_made(FullWire())
        connection.data_received(b"\x20\x02\x01\x00" + b"\x32\x06\x00\x01a\x00\x07x" * 50)
        connection.data_received(b"\x62\x02\x00\x07" * 50)
        assert (await connection.opened()).code == 0
        assert len(came) == 50
        connection.data_received(b"\xd0\x00" * 11)
        assert [end.reason for end in listener.ends] == ["protocol"]

    asyncio.run(scenario())
