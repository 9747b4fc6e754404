"""Bytes that are not what was written are found, confined, reported, and never delivered."""

import random

import pytest

from distributary.core.flow import RecordKind
from distributary.core.log import HEADER_BYTES, _segment
from distributary.testing.small_log import LOG_DIR, PARTITION_DIR, SmallLog

FIRST_SEGMENT = PARTITION_DIR / "00000000000000000000.seg"


def filled(segment_bytes, count, length):
    """A closed log of *count* records of *length* bytes, every seventh a route record."""
    log = SmallLog(segment_bytes=segment_bytes)
    log.open()
    for number in range(count):
        kind = RecordKind.ROUTE if number % 7 == 3 else RecordKind.EVENTS
        log.append(b"%04d" % number * (length // 4), kind=kind)
    log.appender.close()
    return log


def lengths(log, segment):
    """Where each record of a segment begins, and where the last one ends."""
    content, place, places = log.disk.content(segment), 0, [0]
    while place + HEADER_BYTES <= len(content) and content[place] == 0xD7:
        place += HEADER_BYTES + int.from_bytes(content[place + 8 : place + 12], "little")
        places.append(place)
    return places


@pytest.mark.slow
def test_cuts_a_tail_torn_at_any_byte():
    """Every truncation of the last 4 KiB: recovery keeps each whole record and nothing else."""
    log = filled(1 << 16, 60, 200)
    places = lengths(log, FIRST_SEGMENT)
    bodies = log.bodies()
    for cut in range(places[-1] - 4096, places[-1]):
        disk = log.disk.copy()
        del disk.content(FIRST_SEGMENT)[cut:]
        del disk.names[PARTITION_DIR / "end"]
        reopened = log.reopened_on(disk)
        whole = sum(place <= cut for place in places[1:])
        assert reopened.bodies() == bodies[:whole]
        assert reopened.append(b"next") == whole
        assert reopened.bodies() == [*bodies[:whole], b"next"]


@pytest.mark.slow
def test_zeros_instead_of_a_tail_are_a_torn_tail():
    """As above, where the file kept its length and lost its bytes."""
    log = filled(1 << 16, 60, 200)
    places = lengths(log, FIRST_SEGMENT)
    bodies = log.bodies()
    for cut in range(places[-1] - 600, places[-1]):
        disk = log.disk.copy()
        content = disk.content(FIRST_SEGMENT)
        content[cut:] = bytes(len(content) - cut)
        del disk.names[PARTITION_DIR / "end"]
        whole = sum(place <= cut for place in places[1:])
        assert log.reopened_on(disk).bodies()[: whole + 1] == bodies[:whole]


def check_damaged(log, disk, flips):
    """Everything but the records that were hit is read; those are reported, and only those."""
    with SmallLog(disk).reader() as reader:
        found = {record.offset: record.body for record in reader.read(0, 10**6)}
        lost = sorted({promise.offset for promise in log.promises} - set(found))
        reported = sorted(
            offset
            for damage in reader.damages()
            for offset in range(damage.from_offset, damage.to_offset)
        )
    assert all(found[p.offset] == p.body for p in log.promises if p.offset in found), flips
    assert lost == reported, flips
    return lost


def hit(places, first, byte):
    """The offset of the record that holds *byte* of the segment, or None: nothing stands there."""
    if byte >= places[-1]:
        return None
    return first + sum(place <= byte for place in places) - 1


@pytest.mark.slow
def test_one_flipped_bit_costs_one_record_at_most():
    """5,000 single bit flips anywhere: the record that was hit is lost, no other, and reported."""
    log = filled(8192, 80, 240)
    segments = sorted(path for path in log.disk.names if path.suffix == ".seg")
    assert len(segments) > 2
    layout = {path: (lengths(log, path), int(path.stem)) for path in segments}
    chance = random.Random(7)
    lost_count = 0
    for _ in range(5_000):
        path = chance.choice(segments)
        content = log.disk.content(path)
        byte, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
        content[byte] ^= bit
        lost = check_damaged(log, log.disk, (path.name, byte, bit))
        content[byte] ^= bit
        expected = hit(*layout[path], byte)
        assert lost == ([] if expected is None else [expected])
        lost_count += len(lost)
    assert lost_count > 4_000


@pytest.mark.slow
def test_one_flipped_bit_survives_reopening():
    """1,000 flips, each followed by recovery: no other record is lost, and appending goes on."""
    log = filled(8192, 60, 240)
    segments = sorted(path for path in log.disk.names if path.suffix == ".seg")
    chance = random.Random(8)
    for _ in range(1_000):
        path = chance.choice(segments)
        disk = log.disk.copy()
        content = disk.content(path)
        byte = chance.randrange(len(content))
        content[byte] ^= 1 << chance.randrange(8)
        reopened = log.reopened_on(disk)
        following = reopened.append(b"after")
        assert following >= len(log.promises), "no offset is used twice"
        found = {record.offset: record.body for record in reopened.records()}
        lost = [p.offset for p in log.promises if found.get(p.offset) != p.body]
        assert len(lost) <= 1
        assert not any(offset in found for offset in lost)
        assert found[following] == b"after"


@pytest.mark.slow
def test_damaged_stretches_are_confined():
    """A stretch of rubbish or zeros costs the records that it touches."""
    log = filled(8192, 80, 240)
    segments = sorted(path for path in log.disk.names if path.suffix == ".seg")
    chance = random.Random(9)
    for _ in range(500):
        path = chance.choice(segments)
        places, first = lengths(log, path), int(path.stem)
        start = chance.randrange(places[-1])
        stop = min(start + chance.choice([1, 64, 512, 4096]), places[-1])
        disk = log.disk.copy()
        rubbish = chance.choice([bytes(stop - start), chance.randbytes(stop - start)])
        disk.content(path)[start:stop] = rubbish
        lost = check_damaged(log, disk, (path.name, start, stop))
        touched = range(hit(places, first, start), hit(places, first, stop - 1) + 1)
        assert set(lost) <= set(touched)


def damaged(log, offset, *, byte=HEADER_BYTES):
    """Flip a bit of record *offset* of the first segment."""
    log.disk.content(FIRST_SEGMENT)[lengths(log, FIRST_SEGMENT)[offset] + byte] ^= 1


def test_reports_where_and_what():
    """A damaged body is reported with its kind, its offsets and its bytes."""
    log = filled(1 << 16, 6, 100)
    damaged(log, 3)
    places = lengths(log, FIRST_SEGMENT)
    with log.reader() as reader:
        for _ in range(2):
            assert [record.offset for record in reader.read(0, 6)] == [0, 1, 2, 4, 5]
        (damage,) = reader.damages()
    assert (damage.partition, damage.from_offset, damage.to_offset) == (0, 3, 4)
    assert (damage.segment, damage.byte_from, damage.byte_to) == (
        FIRST_SEGMENT.name,
        places[3],
        places[4],
    )
    assert damage.kind == RecordKind.ROUTE


def test_a_damaged_header_is_of_unknown_kind():
    """Nobody knows what a record was whose header is gone: it may have been a route."""
    log = filled(1 << 16, 6, 100)
    damaged(log, 2, byte=5)
    with log.reader() as reader:
        assert len(list(reader.read(0, 6))) == 5
        assert [damage.kind for damage in reader.damages()] == [None]


def test_a_chunk_ends_before_damage_and_the_next_begins_after_it():
    """Chunks hold good records only; the next offset passes the damage."""
    log = filled(1 << 16, 6, 100)
    damaged(log, 3)
    with log.reader() as reader:
        _, following = reader.read_chunk(0, 1 << 20)
        assert following == 3
        chunk, following = reader.read_chunk(3, 1 << 20)
        assert following == 6
        assert chunk[:2] == b"\xd7\x01"


def test_kinds_reports_a_damaged_record_of_its_kind():
    """A damaged route record is never skipped in silence."""
    log = filled(1 << 16, 12, 100)
    damaged(log, 3)
    with log.reader() as reader:
        assert [record.offset for record in reader.kinds(0, 12, RecordKind.ROUTE)] == [10]
        assert [(d.from_offset, d.kind) for d in reader.damages()] == [(3, RecordKind.ROUTE)]
        kinds_damage = reader.damages()
    with log.reader() as reader:
        list(reader.read(0, 12))
        assert reader.damages() == kinds_damage


def test_damage_found_at_opening_is_reported():
    """Recovery says which acknowledged records of the newest segment cannot be read."""
    log = filled(1 << 16, 6, 100)
    damaged(log, 2)
    reopened = log.reopened_on(log.disk)
    assert [(d.from_offset, d.to_offset) for d in reopened.appender.damages] == [(2, 3)]


def test_a_lost_tail_is_leapt_over():
    """Offsets that were acknowledged and are gone are reported and never used again."""
    log = filled(1 << 16, 6, 100)
    content = log.disk.content(FIRST_SEGMENT)
    place = lengths(log, FIRST_SEGMENT)[4]
    content[place:] = bytes(len(content) - place)
    reopened = log.reopened_on(log.disk)
    assert [(d.from_offset, d.to_offset) for d in reopened.appender.damages] == [(4, 6)]
    assert reopened.append(b"next") == 6
    with reopened.reader() as reader:
        assert [record.offset for record in reader.read(0, 9)] == [0, 1, 2, 3, 6]
        assert [(d.from_offset, d.to_offset) for d in reader.damages()] == [(4, 6)]


def test_offsets_stay_above_what_the_caller_knows(log):
    """The cursor may know of offsets that the medium has forgotten: they are not used again."""
    log.append(b"a")
    log.appender.close()
    log.open(min_next_offset=50)
    assert log.append(b"b") == 50
    assert [record.offset for record in log.records()] == [0, 50]


def test_an_event_cannot_pass_for_a_record():
    """Bytes in the shape of a record inside a body are never taken for one, damage or not."""
    forger = SmallLog(segment_bytes=1 << 16)
    forger.open()
    forger.appender._stamp = 0x77777777
    forger.append(*(b"forged %d" % number for number in range(20)))
    forged = bytes(forger.disk.content(FIRST_SEGMENT)[: lengths(forger, FIRST_SEGMENT)[-1]])
    log = SmallLog(segment_bytes=1 << 16)
    log.open()
    log.append(b"before")
    log.append(forged)
    log.append(b"behind")
    damaged(log, 1, byte=3)
    with log.reader() as reader:
        assert [record.body for record in reader.read(0, 3)] == [b"before", b"behind"]


def test_a_damaged_beginning_is_passed_by_the_stamp_of_the_others():
    """The first header of the only segment is lost: the other records say what to look for."""
    log = filled(1 << 16, 6, 100)
    damaged(log, 0, byte=6)
    with log.reader() as reader:
        assert [record.offset for record in reader.read(0, 6)] == [1, 2, 3, 4, 5]


def test_a_vanished_segment_is_damage():
    """A segment that somebody deleted in the middle is a stretch that is reported."""
    log = filled(2048, 30, 240)
    segments = sorted(path for path in log.disk.names if path.suffix == ".seg")
    del log.disk.names[segments[1]]
    with log.reader() as reader:
        found = [record.offset for record in reader.read(0, 30)]
        (damage,) = reader.damages()
    assert (damage.from_offset, damage.to_offset) == (int(segments[1].stem), int(segments[2].stem))
    assert len(found) == 30 - (damage.to_offset - damage.from_offset)


def test_foreign_files_are_ignored(log):
    """What is not a segment does not disturb."""
    for name in ("notes.seg.txt", "x.seg", ".seg"):
        log.disk.open(PARTITION_DIR / name, write=True, create=True)
    log.append(b"a")
    log.disk.kill()
    log.open()
    assert log.bodies() == [b"a"]
    assert LOG_DIR in PARTITION_DIR.parents


def test_an_empty_partition_is_not_searched_byte_by_byte(monkeypatch):
    """A kill before the first record leaves a long file of zeros: each looks like no stamp."""
    log = SmallLog(segment_bytes=1 << 20)
    log.open()
    parsed = []
    parse_header = _segment.parse_header
    monkeypatch.setattr(
        _segment, "parse_header", lambda *place: parsed.append(1) or parse_header(*place)
    )
    reopened = log.reopened_on(log.disk.copy())
    assert reopened.append(b"first") == 0
    assert reopened.bodies() == [b"first"]
    assert len(parsed) < 100
