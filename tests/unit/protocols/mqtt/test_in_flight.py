"""Packet identifiers: who has which, and which is the next."""

import pytest

from distributary.protocols.mqtt.engine._in_flight import InFlight


def test_identifiers_begin_anew_after_the_last():
    """There are 65,535 of them; none is 0 (2.2.1)."""
    flying = InFlight()
    for number in (*range(1, 65_536), 1, 2):
        assert flying.add(1, "x") == number.to_bytes(2, "big")
        del flying.acked[number]


@pytest.mark.parametrize("kept", ["acked", "received", "released"])
def test_identifiers_in_use_are_passed_over(kept):
    """A message that is never acknowledged keeps its own, at whatever step it is."""
    flying = InFlight()
    getattr(flying, kept)[1] = "kept"
    flying._last_id = 65_534
    assert [flying.add(qos, "x") for qos in (1, 2)] == [b"\xff\xff", b"\x00\x02"]
    assert len(flying) == 3


def test_without_a_free_identifier_there_is_an_error():
    """And no endless search; windows keep far below."""
    flying = InFlight()
    flying.released = dict.fromkeys(range(1, 65_536), "x")
    with pytest.raises(RuntimeError):
        flying.add(1, "y")
    assert len(flying) == 65_535


def test_qos_0_has_no_identifier():
    """And waits for the network alone."""
    flying = InFlight()
    assert flying.add(0, "x") == b""
    assert flying.take_written() == []
    flying.flush()
    assert flying.take_written() == ["x"]
    assert len(flying) == 0
