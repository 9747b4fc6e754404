"""AMQP's values and messages: round trips, and the promise about any bytes."""

import contextlib
import datetime as dt
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.protocols.amqp.engine import (
    AmqpError,
    AmqpMessage,
    decode_message,
    encode_message,
)
from distributary.protocols.amqp.engine._frames import Frames
from distributary.protocols.amqp.engine._values import (
    OTHER_KEYS_MAX,
    Described,
    Symbol,
    UInt,
    ULong,
    decode,
    encode,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(0, 2**32 - 1).map(UInt),
    st.floats(allow_nan=False),
    TEXTS,
    st.text("abc:-", max_size=300).map(Symbol),
    st.binary(max_size=300),
    st.uuids(),
    st.datetimes(timezones=st.just(dt.UTC)).map(lambda d: d.replace(microsecond=0)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.text(max_size=5).filter(str.isascii), inner, max_size=5),
        st.builds(Described, st.integers(0, 255).map(ULong), inner),
    ),
    max_leaves=20,
)
IDS = st.one_of(
    st.none(),
    st.integers(0, 2**64 - 1),
    st.uuids(),
    st.binary(max_size=20),
    st.text("ab", max_size=5),
)


@given(VALUES)
def test_values_round_trip(value):
    """With their types."""
    raw = encode(value)
    found, end = decode(raw)
    assert end == len(raw)
    assert found == value
    assert type(found) is type(value)


@given(
    st.builds(
        AmqpMessage,
        body=st.one_of(st.binary(max_size=400), SCALARS.filter(lambda each: each is not Symbol)),
        application_properties=st.dictionaries(TEXTS, SCALARS, max_size=5),
        content_type=st.none() | st.text("a/+;=", min_size=1, max_size=300),
        message_id=IDS,
        to=st.none() | TEXTS,
        reply_to=st.none() | TEXTS,
        correlation_id=IDS,
        durable=st.booleans(),
    )
)
def test_messages_round_trip(message):
    """Every field."""
    assert decode_message(encode_message(message)) == message


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error(raw):
    """And so are those that begin as a message does."""
    with contextlib.suppress(AmqpError):
        decode(raw)
    for start in (b"\x00\x53\x74", b"\x00\x53\x73\xc0", b"\x00\x53\x75", b"\x00\x53\x77"):
        with contextlib.suppress(AmqpError):
            decode_message(start + raw)


@pytest.mark.parametrize("code", ["40", "41", "42", "43", "44", "45"])
def test_what_takes_no_bytes_cannot_be_asked_for_by_the_thousand(code):
    """A message of a mebibyte would otherwise become some gigabytes, and take minutes."""
    few = bytes.fromhex("f0 00000005 00000400") + bytes.fromhex(code)
    many = b"\xd0" + (len(few) * 100 + 4).to_bytes(4, "big") + (100).to_bytes(4, "big") + few * 100
    for raw in (few, many):
        with pytest.raises(AmqpError, match="more elements than it has bytes"):
            decode(raw)
    assert decode(bytes.fromhex("e0 02 00") + bytes.fromhex(code)) == ([], 4)


@pytest.mark.parametrize(
    "key",
    [
        lambda number: uuid.UUID(int=number * (2**61 - 1)),
        int,
        ULong,
        lambda number: Described(ULong(0), str(number)),
        float,
    ],
    ids=["uuid", "long", "ulong", "described", "double"],
)
def test_a_map_whose_keys_may_all_hash_alike_is_small(key):
    """A hostile one of a mebibyte would take minutes, on the loop; text is hashed with a secret."""
    few = {key(number): None for number in range(1, OTHER_KEYS_MAX + 1)}
    assert decode(encode(few))[0] == few
    with pytest.raises(AmqpError, match="keys that are not text"):
        decode(encode(few | {key(OTHER_KEYS_MAX + 1): None}))
    texts = {str(number): None for number in range(1_000)}
    assert decode(encode(texts | few))[0] == texts | few


@given(st.data())
def test_a_message_with_a_changed_byte_is_a_message_or_an_error(data):
    """The bytes of a good one, with one that is another."""
    message = AmqpMessage(b"data", {"a": 1, "b": [uuid.UUID(int=1)]}, "text/plain", message_id="x")
    raw = bytearray(encode_message(message))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(AmqpError):
        decode_message(bytes(raw))


@given(st.binary(max_size=300), st.integers(1, 40))
def test_any_bytes_are_whole_frames_or_an_error(raw, size):
    """What is handed on is what came, in its order; sizes are small, or nothing would be whole."""
    raw = bytes(0 if at % 8 < 3 else byte for at, byte in enumerate(raw))
    frames = Frames()
    handed = b""
    with contextlib.suppress(AmqpError):
        for at in range(0, len(raw), size):
            handed += frames.take(raw[at : at + size])
    assert raw.startswith(handed)
