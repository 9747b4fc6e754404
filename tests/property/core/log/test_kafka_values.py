"""Values of Kafka records: what we wrote is read, and nothing else is taken for it."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.core.log import encode_frame
from distributary.core.log.kafka._value import PREFIX_BYTES, encode, frame_of, kind_of

KINDS = st.integers(1, 255)


@given(KINDS, st.binary(max_size=200), st.integers(0, 2**40), st.integers(0, 2**42))
def test_a_value_is_read_as_the_frame_of_the_embedded_log(kind, body, offset, time_ms):
    """Everything above the log reads one form."""
    value = encode(kind, body)
    assert frame_of(value, offset, time_ms) == encode_frame(kind, body, offset, time_ms, stamp=0)
    assert (kind_of(value), len(value)) == (kind, PREFIX_BYTES + len(body))


@given(st.none() | st.binary(max_size=60))
def test_any_value_is_a_record_or_damage(value):
    """Whoever wrote it: no value raises an error."""
    frame = frame_of(value, 0, 0)
    assert 0 <= kind_of(value) < 2**16
    if frame is not None:
        assert value == encode(kind_of(value), value[PREFIX_BYTES:])


@given(KINDS, st.binary(max_size=60), st.data())
def test_a_changed_or_torn_value_is_no_record(kind, body, data):
    """Each single bit counts, that of the kind too; so does each missing byte at the end."""
    value = encode(kind, body)
    bit = data.draw(st.integers(0, 8 * len(value) - 1))
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    assert frame_of(bytes(changed), 0, 0) is None
    assert frame_of(value[: data.draw(st.integers(0, len(value) - 1))], 0, 0) is None
