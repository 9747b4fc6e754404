"""One record's bytes."""

import pytest

from distributary.core.errors import LogDamagedError
from distributary.core.log import BODY_BYTES_MAX, HEADER_BYTES, encode_frame, iter_frames


def frame(body=b"body", offset=7, time_ms=1_700_000_000_000, kind=1):
    """A record with some stamp."""
    return encode_frame(kind, body, offset, time_ms, stamp=0x01020304)


def test_a_record_comes_back_as_it_was():
    """Kind, body, offset and time survive."""
    (record,) = iter_frames(frame())
    assert (record.kind, record.body, record.offset, record.time_ms) == (
        1,
        b"body",
        7,
        1_700_000_000_000,
    )


def test_the_layout_is_fixed():
    """The bytes on disk are what they were when this test was written (format 1)."""
    written = encode_frame(1, b"body", 7, 1_700_000_000_000, stamp=0x01020304, flags=1)
    assert written.hex(" ", -4) == (
        "d7010101 04030201 04000000 c70bce9f 07000000 00000000 0068e5cf 8b010000 25c7b43e 626f6479"
    )
    assert len(written) == HEADER_BYTES + 4


@pytest.mark.parametrize(
    "other",
    [frame(body=b"bodz"), frame(offset=8), frame(time_ms=1_700_000_000_001), frame(kind=2)],
    ids=["body", "offset", "time", "kind"],
)
def test_the_checksum_tells_records_apart(other):
    """Another body, offset, time or kind is another checksum."""
    (mine,), (theirs,) = iter_frames(frame()), iter_frames(other)
    assert mine.checksum != theirs.checksum


@pytest.mark.parametrize("byte", range(HEADER_BYTES + 4))
def test_each_flipped_bit_is_noticed(byte):
    """No bit of a record may change unnoticed."""
    for bit in range(8):
        block = bytearray(frame())
        block[byte] ^= 1 << bit
        with pytest.raises(LogDamagedError):
            list(iter_frames(bytes(block)))


@pytest.mark.parametrize("length", range(1, HEADER_BYTES + 4))
def test_a_cut_record_is_noticed(length):
    """Part of a record is damage."""
    with pytest.raises(LogDamagedError, match="cut short"):
        list(iter_frames(frame()[:length]))


def test_records_before_the_damage_come_first():
    """What is good is yielded before the error."""
    seen = []
    with pytest.raises(LogDamagedError, match="byte 40"):
        seen.extend(record.offset for record in iter_frames(frame() + b"rubbish" * 9))
    assert seen == [7]


def test_a_body_has_a_limit():
    """One byte more than the limit is a bug of the caller."""
    frame(body=bytes(BODY_BYTES_MAX))
    with pytest.raises(AssertionError):
        frame(body=bytes(BODY_BYTES_MAX + 1))
