"""Any bytes, any order of work: the log holds what a list would, and decoders keep their word."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.errors import LogDamagedError
from distributary.core.flow import Logged
from distributary.core.log import encode_frame, iter_frames
from distributary.testing.small_log import PARTITION_DIR, STAMP, SmallLog

KINDS = st.integers(1, 255)
BODIES = st.binary(max_size=600)
FRAMES = st.builds(
    lambda kind, body, offset, time_ms: encode_frame(kind, body, offset, time_ms, stamp=STAMP),
    KINDS,
    BODIES,
    st.integers(0, 2**62 - 1),
    st.integers(-(2**63), 2**63 - 1),
)


@given(st.lists(st.tuples(KINDS, BODIES, st.integers(0, 2**62 - 1)), max_size=8))
def test_frames_round_trip(entries):
    """What is encoded is decoded, in order."""
    chunk = b"".join(encode_frame(k, b, offset, 5, stamp=STAMP) for k, b, offset in entries)
    assert [(r.kind, r.body, r.offset) for r in iter_frames(chunk)] == entries


@given(st.one_of(st.binary(max_size=400), st.lists(st.one_of(FRAMES, st.binary(max_size=60)))))
def test_any_bytes_are_records_or_damage(pieces):
    """Rubbish gives records or the one error, never another."""
    chunk = pieces if isinstance(pieces, bytes) else b"".join(pieces)
    with suppress(LogDamagedError):
        assert all(isinstance(record, Logged) for record in iter_frames(chunk))


@settings(deadline=None)
@given(st.lists(st.one_of(FRAMES, st.binary(max_size=3000)), max_size=6).map(b"".join))
def test_any_file_opens(content):
    """A segment of any bytes opens, reads, and takes records behind what could be read."""
    log = SmallLog()
    log.open()
    log.appender.close()
    segment = log.disk.content(PARTITION_DIR / "00000000000000000000.seg")
    segment[:] = content
    log.open()
    first = log.append(b"appended")
    with log.reader() as reader:
        records = list(reader.read(0, reader.durable_end()))
        assert (records[-1].offset, records[-1].body) == (first, b"appended")
        offset, chunks = 0, []
        while offset < reader.durable_end():
            chunk, following = reader.read_chunk(offset, 500)
            assert following > offset
            offset, chunks = following, [*chunks, chunk]
    assert list(iter_frames(b"".join(chunks))) == records


WORK = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(BODIES, max_size=5)),
        st.tuples(st.just("prepare"), st.none()),
        st.tuples(st.just("kill"), st.none()),
        st.tuples(st.just("power"), st.none()),
        st.tuples(st.just("clock"), st.integers(-(10**9), 10**9)),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(deadline=None)
@given(WORK, st.sampled_from([700, 2048, 1 << 16]))
def test_the_log_is_a_list(work, segment_bytes):
    """Appends, restarts, power cuts, clock jumps in any order: a list of bodies, times sorted."""
    log, bodies = SmallLog(segment_bytes=segment_bytes), []
    log.open()
    for what, argument in work:
        if what == "append":
            assert log.append(*argument) == len(bodies)
            bodies += argument
        elif what == "prepare":
            log.appender.prepare()
        elif what == "kill":
            log.disk.kill()
            log.open()
        elif what == "power":
            log = log.reopened_on(log.disk.power_cut())
        else:
            log.clock.jump(argument)
    records = log.records()
    assert [record.body for record in records] == bodies
    assert [record.offset for record in records] == list(range(len(bodies)))
    times = [record.time_ms for record in records]
    assert times == sorted(times)
    with log.reader() as reader:
        for record in records:
            expected = next(r.offset for r in records if r.time_ms >= record.time_ms)
            assert reader.offset_at(record.time_ms) == expected
