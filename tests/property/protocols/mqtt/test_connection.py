"""A connection whose broker says whatever it likes, in whatever pieces."""

import asyncio
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.protocols.mqtt.engine import MqttConnection, MqttLogin, Version, target
from distributary.protocols.mqtt.engine._properties import variable

ACKNOWLEDGEMENTS = st.builds(
    lambda first, number, code: bytes((first, 2 + len(code), 0, number)) + code,
    st.sampled_from([0x40, 0x50, 0x62, 0x70]),
    st.integers(0, 8),
    st.sampled_from([b"", b"", b"", b"\x10", b"\x87"]),
)
MESSAGES = st.builds(
    lambda qos, body: bytes((0x30 | qos << 1,)) + variable(len(body)) + body,
    st.integers(0, 3),
    st.binary(max_size=3).map(lambda rest: b"\x00\x01t\x00\x07\x00" + rest) | st.just(bytes(300)),
)
PACKETS = ACKNOWLEDGEMENTS | ACKNOWLEDGEMENTS | MESSAGES | st.just(b"\xd0\x00")
STEPS = st.lists(
    st.tuples(st.just("says"), PACKETS | PACKETS | PACKETS | st.binary(max_size=8))
    | st.tuples(st.just("publish"), st.integers(0, 2))
    | st.tuples(st.sampled_from(["choke", "flow", "turn", "lost"]), st.none()),
    max_size=60,
)


async def scenario(version, steps, pieces):
    """Play *steps*; what was published, what was settled, what ended."""
    listener = Mock()
    login = MqttLogin(version, "me", packet_bytes_max=200)
    connection = MqttConnection(login, listener)
    wire = Mock()
    wire.is_closing.return_value = False
    connection.connection_made(wire)
    connection.data_received(b"\x20\x03\0\0\0" if version is Version.V5 else b"\x20\x02\0\0")
    await connection.opened()
    published = 0
    for kind, what in steps:
        if kind == "says":
            for at in range(0, len(what), pieces):
                connection.data_received(what[at : at + pieces])
        elif kind == "publish" and connection.end is None:
            where = target("t", what, retain=False, expiry_s=None, user=())
            connection.publish(where, b"", b"x", published)
            published += 1
        elif kind == "turn":
            await asyncio.sleep(0)
        elif kind == "lost":
            connection.connection_lost(None)
            wire.is_closing.return_value = True
        elif kind in {"choke", "flow"} and connection.end is None:
            (connection.pause_writing if kind == "choke" else connection.resume_writing)()
    in_flight, end = connection.in_flight, connection.end
    connection.abort()
    return published, [call.args[0] for call in listener.settled.call_args_list], in_flight, end


@pytest.mark.slow
@given(st.sampled_from(list(Version)), STEPS, st.integers(1, 9))
def test_every_message_is_settled_once_or_still_in_flight(version, steps, pieces):
    """Or its connection has ended; nothing that a broker says raises, settles twice, or is lost."""
    published, settled, in_flight, end = asyncio.run(scenario(version, steps, pieces))
    assert len(settled) == len(set(settled))
    assert set(settled) <= set(range(published))
    if end is None:
        assert len(settled) + in_flight == published
    else:
        assert in_flight == 0
