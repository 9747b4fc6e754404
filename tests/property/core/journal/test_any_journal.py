"""Whatever lies in the journal's file, reading it gives a state and never an exception."""

import zlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from distributary.core import journal_frames as internals
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import JournalState, fit, read_journal
from distributary.core.journal_blocks import read_blocks
from distributary.core.journal_frames import HistoryBlock

keys = st.builds(DoneKey, st.integers(0, 2**40), st.integers(0, 999), st.text(max_size=8))
marks = st.builds(Mark, st.integers(0, 2**40), st.integers(0, 2**32 - 1))
matches = st.lists(st.tuples(keys, st.integers(0, 2**32 - 1)), max_size=4)
numbers = st.integers(0, 2**60)
blocks = st.none() | st.builds(HistoryBlock, numbers, st.integers(0, 2**20), st.binary(max_size=20))
frames = st.tuples(marks, matches, numbers, blocks)


def forged(body, magic=internals.MAGIC):
    """A frame whose checksum holds, whatever its body is."""
    return internals.HEADER.pack(magic, len(body), zlib.crc32(body)) + body


def parsed(content):
    """What the frames say, as a list."""
    return list(internals.decode_frames(content))


@given(st.binary(max_size=400))
def test_any_bytes_are_a_journal(content):
    """Random bytes: what is no frame ends the journal."""
    assert all(frame.end <= len(content) for frame in parsed(content))


@given(st.binary(max_size=200))
def test_any_body_behind_a_checksum_that_holds_is_accepted_or_ends_the_journal(body):
    """A frame that this version did not write, but whole."""
    for magic in internals.DECODERS:
        assert len(parsed(forged(body, magic))) <= 1


@given(
    st.recursive(
        st.none() | st.integers() | st.binary(max_size=9) | st.text(max_size=9) | st.floats(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    ).filter(lambda value: not _too_large(value))
)
def test_any_value_behind_a_checksum_that_holds_is_accepted_or_ends_the_journal(value):
    """Well-formed MessagePack that is no outcome."""
    for magic in internals.DECODERS:
        assert len(parsed(forged(msgspec.msgpack.encode(value), magic))) <= 1


def test_a_route_that_is_not_unicode_ends_the_journal():
    """The decoder's error for it is not of its usual kind."""
    body = b"\x93\x01\x02\x91\x94\x01\x02\xa2\xff\xfe\x03"
    assert parsed(forged(body)) == []


@given(st.lists(frames, max_size=6), st.binary(max_size=30))
def test_what_was_written_is_read_whatever_follows(written, rest):
    """Round trip, with any bytes behind it."""
    content = b"".join(internals.encode_frame(*frame) for frame in written)
    for found, frame in zip(parsed(content + rest), written, strict=False):
        mark, done, filed, block = frame
        assert (found.mark, found.block) == (mark, block)
        assert [(DoneKey(*match[:3]), match[3]) for match in found.done] == done
        assert found.filed == (0 if block is None else filed)
    assert len(parsed(content + rest)) >= len(written)


@given(st.lists(marks, max_size=8), st.sets(st.integers(0, 2**40)))
def test_fit_ends_at_the_newest_cursor_that_stands(cursors, standing):
    """And keeps every outcome: each is checked by itself."""
    state = JournalState(list(cursors), {DoneKey(1, 0, "r"): 5})
    found = fit(state, lambda mark: mark.offset in standing)
    fitting = [i for i, m in enumerate(cursors) if m.checksum == 0 or m.offset in standing]
    assert found.marks == cursors[: fitting[-1] + 1 if fitting else 0]
    assert found.done == state.done


def _too_large(value):
    """Integers beyond what MessagePack holds."""
    if isinstance(value, int):
        return not -(2**63) <= value < 2**64
    if isinstance(value, list):
        return any(_too_large(item) for item in value)
    if isinstance(value, dict):
        return any(_too_large(item) for item in value.values())
    return False


news = st.none() | st.tuples(st.integers(0, 3), st.integers(0, 5))
"""Of a frame: how many rows of the history it brings, and how many more are in files by then."""


@given(st.integers(0, 9), st.lists(news, max_size=8), st.binary(max_size=30))
def test_a_reader_of_the_blocks_alone_reads_the_same_blocks(tmp_path_factory, end, brought, rest):
    """Whatever an owner has written, from wherever its history went on, and whatever follows."""
    path = tmp_path_factory.getbasetemp() / "journal-of-blocks"
    content, filed = b"", end
    for number, each in enumerate(brought):
        block = None
        if each is not None:
            length, more = each
            block = internals.HistoryBlock(end, length, b"rows" * length)
            filed, end = min(filed + more, end), end + length
        done = [(DoneKey(number, 0, "r"), 1)]
        content += internals.encode_frame(Mark(number, 1), done, filed, block)
    path.write_bytes(content + rest)
    state, _ = read_journal(path)
    assert read_blocks(path) == state.blocks
