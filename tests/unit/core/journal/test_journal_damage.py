"""Damage in the middle of a journal: what lies behind it counts, and people learn of it."""

import zlib
from contextlib import closing

import pytest

from distributary.core.errors import FencedError
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import DAMAGED_SUFFIX, Journal, read_journal
from distributary.core.journal_damage import Damage, salvage
from distributary.core.journal_frames import (
    HEADER,
    HistoryBlock,
    encode_frame,
)

COUNT = 5
ZEROS = bytes(4096)


def frame(number, rows=b"rows"):
    """The frame of a cursor, a match, and a row of the history, all with *number*."""
    done = [(DoneKey(100 + number, 0, "r"), number)]
    return encode_frame(Mark(number, number), done, number, HistoryBlock(number, 1, rows))


FRAMES = [frame(number) for number in range(1, COUNT + 1)]
WHOLE = b"".join(FRAMES)
STARTS = [sum(map(len, FRAMES[:place])) for place in range(COUNT + 1)]


def numbers(content):
    """Cursors of the frames that count."""
    return [each.mark.offset for each in salvage(content).frames]


@pytest.fixture
def path(tmp_path):
    """Where the journal lies."""
    return tmp_path / "journal"


@pytest.mark.parametrize("place", range(COUNT - 1))
def test_a_changed_byte_costs_the_frame_it_is_in_and_no_other(place):
    """Wherever behind the header it is, and whatever the byte becomes."""
    start, end = STARTS[place], STARTS[place + 1]
    others = [number for number in range(1, COUNT + 1) if number != place + 1]
    for at in range(start + HEADER.size - 4, end):  # the checksum, and what it is of
        for changed in (WHOLE[at] ^ 1, WHOLE[at] ^ 128, 0 if WHOLE[at] else 255):
            content = bytearray(WHOLE + ZEROS)
            content[at] = changed
            found = salvage(bytes(content))
            assert [each.mark.offset for each in found.frames] == others
            assert found.damage == Damage(start, end, COUNT - 1 - place)


def test_a_damaged_header_costs_what_is_behind_it():
    """Nothing else tells where a frame begins: texts in frames may look like one."""
    for at in range(STARTS[1], STARTS[1] + 4):
        content = WHOLE[:at] + b"?" + WHOLE[at + 1 :] + ZEROS
        found = salvage(content)
        assert [each.mark.offset for each in found.frames] == [1]
        assert found.damage == Damage(STARTS[1], len(WHOLE), 0)


def test_of_two_damaged_frames_the_second_one_ends_what_is_lost():
    """A chain counts only where it goes on to the end: what lies before may be no frame."""
    content = bytearray(WHOLE)
    content[STARTS[1] + 20] ^= 4
    content[STARTS[3] + 20] ^= 4
    found = salvage(bytes(content))
    assert [each.mark.offset for each in found.frames] == [1, 5]
    assert found.damage == Damage(STARTS[1], STARTS[4], 1)


def test_a_torn_end_is_no_damage():
    """A crash leaves a part of the last frame, its pages in any order, and zeros behind them."""
    end = STARTS[COUNT - 1]
    for length in range(end, len(WHOLE)):
        for rest in (b"", ZEROS):
            found = salvage(WHOLE[:length] + rest)
            assert (len(found.frames), found.damage) == (COUNT - 1, None)
    for lost in range(1, len(FRAMES[-1])):
        found = salvage(WHOLE[:end] + bytes(lost) + FRAMES[-1][lost:] + ZEROS)
        assert (len(found.frames), found.damage) == (COUNT - 1, None)


def test_bytes_behind_the_last_frame_that_no_crash_leaves_are_damage():
    """Two frames in a row that are not whole, or what was never a frame."""
    content = bytearray(WHOLE + ZEROS)
    content[STARTS[3] + 20] ^= 4
    content[STARTS[4] + 20] ^= 4
    found = salvage(bytes(content))
    assert (len(found.frames), found.damage) == (3, Damage(STARTS[3], len(WHOLE), 0))
    assert salvage(WHOLE + b"rubbish" + ZEROS).damage == Damage(len(WHOLE), len(WHOLE) + 7, 0)


FORGED = encode_frame(Mark(10**9, 0), [(DoneKey(1, 0, "r"), 1)])
"""What a sink could answer with, to be taken for what an owner wrote."""


@pytest.mark.parametrize("rows", [FORGED, FORGED * 3, b"a" + FORGED, FORGED + bytes(40)])
def test_text_that_looks_like_a_frame_is_none(rows):
    """Whatever bit is flipped, and wherever a crash ends the newest frame, which ends with it."""
    for behind in (b"", FRAMES[2]):
        content = FRAMES[0] + frame(2, rows) + behind
        wanted = {1, 2, 3}
        for at in range(len(FRAMES[0]), len(content)):
            for bit in range(8):
                damaged = bytearray(content + ZEROS)
                damaged[at] ^= 1 << bit
                assert set(numbers(bytes(damaged))) <= wanted
            assert set(numbers(content[:at] + ZEROS)) <= wanted
            assert set(numbers(content[:at])) <= wanted


def test_a_damaged_length_leads_to_no_frame_that_others_wrote():
    """A cursor goes forward only, and no number is one that the clock will not reach for long."""
    for offset, number in ((1, 2**62), (2**62, 1), (0, 1)):
        forged = encode_frame(Mark(offset, 0), [], number, HistoryBlock(number, 1, b"rows"))
        text = frame(2, forged)
        inner = text.index(forged)
        magic, _, checksum = HEADER.unpack_from(text)
        content = FRAMES[0] + HEADER.pack(magic, inner - HEADER.size, checksum)
        content += text[HEADER.size :]
        assert numbers(content + ZEROS) == [1]


def test_a_header_that_a_power_cut_divided_is_torn():
    """Of the last write the first sector has reached the medium, and the second one has not."""
    for front in range(1, HEADER.size):
        around = len(frame(1, bytes(600))) - 600
        first = frame(1, bytes(1024 - front - around))
        start, border = len(first), 1024
        assert start == border - front
        last = frame(2, bytes(range(1, 200)) * 10)
        lost = min(512, len(last) - (border - start))
        torn = last[: border - start] + bytes(lost) + last[border - start + lost :]
        found = salvage(first + torn + ZEROS)
        assert (len(found.frames), found.damage) == (1, None)


def test_frames_of_a_later_version_end_the_journal():
    """What they say is not known, and what follows may not be true without it. It is told."""
    body = b"of another form"
    newer = HEADER.pack(b"DOJ9", len(body), zlib.crc32(body)) + body
    found = salvage(FRAMES[0] + newer + FRAMES[2])
    assert [each.mark.offset for each in found.frames] == [1]
    assert found.damage == Damage(STARTS[1], STARTS[1] + len(newer) + len(FRAMES[2]), 0)


def test_a_damaged_journal_is_kept_aside_and_made_anew(path):
    """Outcomes behind the damage are not repeated, and the next start finds a whole file."""
    damaged = bytearray(WHOLE)
    damaged[STARTS[1] + 30] ^= 1
    path.write_bytes(damaged)
    with closing(Journal(path)) as journal:
        assert journal.damage == Damage(STARTS[1], STARTS[2], 3)
        assert journal.state.mark == Mark(COUNT, COUNT)
        assert {key.offset for key in journal.state.done} == {101, 103, 104, 105}
        journal.record(Mark(50, 50), [(DoneKey(150, 0, "r"), 50)])
    kept = path.with_name(path.name + DAMAGED_SUFFIX)
    assert kept.read_bytes() == damaged
    assert read_journal(path)[0].mark == Mark(50, 50)
    with closing(Journal(path)) as journal:
        assert journal.damage is None
        assert {key.offset for key in journal.state.done} == {101, 103, 104, 105, 150}
    assert kept.read_bytes() == damaged


def test_the_newest_damaged_file_alone_is_kept(path):
    """A disk that goes on failing does not fill up with them."""
    for changed in (STARTS[1] + 30, STARTS[2] + 30):
        damaged = bytearray(WHOLE)
        damaged[changed] ^= 1
        path.write_bytes(damaged)
        Journal(path).close()
        assert path.with_name(path.name + DAMAGED_SUFFIX).read_bytes() == damaged
    assert len(list(path.parent.iterdir())) == 2


def test_who_does_not_own_the_partition_leaves_a_damaged_journal_as_it_is(path):
    """The owner finds it."""
    damaged = WHOLE[:20] + b"?" + WHOLE[21:]
    path.write_bytes(damaged)

    def fenced():
        raise FencedError("another owner has the partition")

    with pytest.raises(FencedError):
        Journal(path, fence=fenced)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == damaged


def test_a_file_system_without_links_keeps_nothing_and_goes_on(path, monkeypatch):
    """Deliveries matter more than the evidence."""

    def refused(*_arguments):
        raise PermissionError("no links here")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refused)
    path.write_bytes(WHOLE[:20] + b"?" + WHOLE[21:])
    with closing(Journal(path)) as journal:
        assert journal.state.mark == Mark(COUNT, COUNT)
    assert read_journal(path)[0].mark == Mark(COUNT, COUNT)
