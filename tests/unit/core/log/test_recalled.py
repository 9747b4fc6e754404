"""Files of recalled records: what was put in comes out, and nothing damaged does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import LogDamagedError
from distributary.core.flow import RecordKind
from distributary.core.log import iter_frames
from distributary.core.log.recalled import (
    ABSENT,
    Recalled,
    RecalledName,
    RecalledWriter,
    list_recalled,
)


def write(folder, name, entries):
    """Write the file *name* with *entries*: offset -> body."""
    writer = RecalledWriter(folder, name)
    for offset, body in sorted(entries.items()):
        writer.add(offset, 1_000 + offset, RecordKind.EVENTS, body)
    writer.finish()
    return Recalled(folder, name)


@given(
    entries=st.dictionaries(st.integers(10, 60), st.binary(max_size=200)),
    bytes_max=st.integers(1, 2_000),
)
def test_every_record_comes_back_and_a_frame_stands_for_each_offset(
    tmp_path_factory, entries, bytes_max
):
    """Whatever the size of the chunks; gaps are frames that are no records."""
    name = RecalledName(10, 61)
    file = write(tmp_path_factory.mktemp("recalled"), name, entries)
    found = {logged.offset: logged.body for logged in file.read(10, 61)}
    assert found == entries
    assert all(logged.time_ms == 1_000 + logged.offset for logged in file.read(10, 61))
    at, offsets, absent = 10, [], set()
    while at < 61:
        chunk, after = file.read_chunk(at, bytes_max)
        records = list(iter_frames(chunk))
        assert len(records) == 1 or len(chunk) <= bytes_max
        offsets += [each.offset for each in records]
        absent |= {each.offset for each in records if each.kind == ABSENT}
        at = after
    assert offsets == list(range(10, 61))
    assert absent == set(range(10, 61)) - entries.keys()


@given(
    entries=st.sets(st.integers(10, 60)),
    lost=st.sets(st.integers(10, 60)),
    bytes_max=st.integers(1, 2_000),
    span=st.tuples(st.integers(10, 60), st.integers(1, 51)),
)
def test_what_the_archive_lacks_is_a_hole(tmp_path_factory, entries, lost, bytes_max, span):
    """It has no frame, and the file says where it is."""
    name = RecalledName(10, 61)
    folder = tmp_path_factory.mktemp("recalled")
    writer = RecalledWriter(folder, name)
    for offset in range(10, 61):
        if offset in lost:
            writer.lose(offset, offset + 1)
        elif offset in entries:
            writer.add(offset, 1_000, RecordKind.EVENTS, b"x" * offset)
    writer.finish()
    file = Recalled(folder, name)
    at, end = span[0], min(sum(span), 61)
    ranges = file.lost(at, end)
    assert {offset for each in ranges for offset in range(*each)} == lost & set(range(at, end))
    assert [each.offset for each in file.read(at, end)] == sorted(
        (entries - lost) & set(range(at, end))
    )
    offsets, holes = [], set()
    while at < end:
        chunk, after = file.read_chunk(at, bytes_max, end)
        found = [each.offset for each in iter_frames(chunk)]
        offsets += found
        holes |= set(range(at, after)) if not found else set()
        at = after
    assert holes == lost & set(range(span[0], end))
    assert offsets == [each for each in range(span[0], end) if each not in holes]


def test_a_single_record_is_found_without_its_neighbours(tmp_path):
    """A retry reads one."""
    file = write(tmp_path, RecalledName(0, 5), {offset: b"%d" % offset for offset in range(5)})
    assert [each.body for each in file.read(3, 4)] == [b"3"]
    assert [each.body for each in file.read(1, 3)] == [b"1", b"2"]


def test_a_record_has_the_same_checksum_each_time(tmp_path):
    """A row that waits for a retry names it."""
    checksums = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        file = write(folder, RecalledName(0, 2), {0: b"x", 1: b"y"})
        checksums.append([each.checksum for each in file.read(0, 2)])
    assert checksums[0] == checksums[1]


def test_what_is_not_finished_is_not_seen(tmp_path):
    """A job that is killed leaves a file that nobody lists."""
    name = RecalledName(0, 3)
    writer = RecalledWriter(tmp_path, name)
    writer.add(0, 1, RecordKind.EVENTS, b"x")
    assert list_recalled(tmp_path) == []
    writer.discard()
    assert not list(tmp_path.iterdir())
    assert list_recalled(tmp_path / "nowhere") == []


@pytest.mark.parametrize("at", [0, 40, -60, -30, -2])
def test_damage_is_never_read(tmp_path, at):
    """In the frames, in the places, or in the trailer."""
    name = RecalledName(7, 10)
    write(tmp_path, name, {7: b"x" * 20, 9: b"y" * 20})
    path = name.path(tmp_path)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogDamagedError):
        list(Recalled(tmp_path, name).read(7, 10))


@pytest.mark.parametrize("kept", [0, 10, 100])
def test_a_file_that_was_cut_short_is_damaged(tmp_path, kept):
    """By a power failure: it is not synced."""
    name = RecalledName(7, 10)
    write(tmp_path, name, {7: b"x" * 20, 9: b"y" * 20})
    path = name.path(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(LogDamagedError):
        Recalled(tmp_path, name)
