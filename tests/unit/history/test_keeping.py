"""The keeper of a history folder: retention, merging, and crashes at every step."""

import contextlib
import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distributary.core.clock import TRUST_S
from distributary.core.meter import Meter
from distributary.history.keeping import LOOK_S, Keeper
from distributary.history.names import HistoryFile
from distributary.history.place import HistorySettings
from distributary.testing.memory_history import MemoryHistory

DAY = "2026-11-18"  # of the world's clock
DAY_S = 86_400.0
HOUR_S = 3600.0


class CrashError(Exception):
    """The process ends here."""


def _keeper(world, meter=None, **limits):
    return Keeper(
        world.folder,
        HistorySettings(place="/h", **limits),
        world.merging,
        world.scratch,
        clock=world.clock,
        meter=meter or Meter(),
        log=world.lines,
    )


def _files(count, rows=2, first=0, partition=0, date=DAY):
    return [
        HistoryFile(date, partition, first + n * rows, first + (n + 1) * rows) for n in range(count)
    ]


def _later(world, seconds):
    world.clock.move_to(world.clock.monotonic_s() + seconds)


def test_a_closed_hour_becomes_one_file_of_each_partition(world):
    """The rows stay in their order; other partitions have a file of their own."""
    for file in (*_files(3), *_files(2, partition=1)):
        world.add(file)
    _keeper(world).look()
    assert len(world.folder.content) == 5  # the hour is not over
    _later(world, HOUR_S)
    assert _keeper(world).look() == LOOK_S
    assert set(world.folder.content) == {
        HistoryFile(DAY, 0, 0, 6),
        HistoryFile(DAY, 1, 0, 4),
    }
    content, _ = world.folder.content[HistoryFile(DAY, 0, 0, 6)]
    assert content == b"".join(b"p0-%d\n" % row for row in range(6))
    assert not world.scratch.exists()


def test_many_small_files_do_not_wait_for_their_hour(world):
    """64 files beside one another are one file at the next look."""
    for file in _files(63):
        world.add(file)
    keeper = _keeper(world)
    keeper.look()
    assert len(world.folder.content) == 63
    world.add(HistoryFile(DAY, 0, 126, 128))
    keeper.look()
    assert list(world.folder.content) == [HistoryFile(DAY, 0, 0, 128)]


def test_days_and_gaps_are_not_merged_over(world):
    """A file has one day, and the numbers from its first to its last."""
    files = [*_files(2), *_files(2, first=5), *_files(2, first=9, date="2026-11-19")]
    for file in files:
        world.add(file)
    _later(world, 3 * DAY_S)
    _keeper(world).look()
    assert {(file.date, file.first, file.end) for file in world.folder.content} == {
        (DAY, 0, 4),
        (DAY, 5, 9),
        ("2026-11-19", 9, 13),
    }


def test_a_row_is_not_written_again_each_hour(world):
    """A large file waits for the end of its day, or for newer ones of its size."""
    keeper = _keeper(world)
    world.add(HistoryFile(DAY, 0, 0, 1000))
    first = 1000
    for _ in range(3):
        for file in _files(2, first=first):
            world.add(file)
        first += 4
        _later(world, HOUR_S)
        keeper.look()
    assert HistoryFile(DAY, 0, 0, 1000) in world.folder.content
    _later(world, DAY_S)
    keeper.look()
    assert list(world.folder.content) == [HistoryFile(DAY, 0, 0, 1012)]


def test_a_file_that_cannot_be_read_is_left_alone(world):
    """What was not read is not deleted; its neighbours are merged beside it. Told once."""
    files = _files(5)
    for file in files:
        world.add(file, b"damaged" if file == files[2] else None)
    _later(world, HOUR_S)
    keeper = _keeper(world)
    for _ in range(3):
        keeper.look()
    assert set(world.folder.content) == {
        HistoryFile(DAY, 0, 0, 4),
        files[2],
        HistoryFile(DAY, 0, 6, 10),
    }
    assert world.lines.names == ["history-file-unreadable"]


def test_merging_that_fails_is_put_off_longer_each_time(world):
    """A full disk costs no processor each minute; what exists stays."""
    for file in _files(3):
        world.add(file)
    _later(world, HOUR_S)
    tries = []

    def fail():
        tries.append(world.clock.monotonic_s())
        raise OSError(28, "No space left on device")

    world.merging.before = fail
    keeper = _keeper(world)
    for _ in range(60):
        assert keeper.look() == LOOK_S
        _later(world, LOOK_S)
    waits = [later - sooner for sooner, later in itertools.pairwise(tries)]
    assert waits == [60, 120, 240, 480, 960]
    assert len(world.folder.content) == 3
    assert not world.scratch.exists()
    world.merging.before = lambda: None
    _later(world, HOUR_S)
    keeper.look()
    assert list(world.folder.content) == [HistoryFile(DAY, 0, 0, 6)]


def test_files_beyond_their_age_are_deleted_and_counted(world):
    """The age is that of the newest row: a merged file counts from the end of its day."""
    meter = Meter()
    keeper = _keeper(world, meter, age_max_s=3 * DAY_S)
    world.add(_files(1)[0])
    _later(world, 3 * DAY_S)  # the file may hold a row of this moment, three days ago
    keeper.look()
    assert len(world.folder.content) == 1
    _later(world, 1)
    keeper.look()
    assert world.folder.content == {}
    assert world.lines.names == ["history-deleted"]
    assert meter.counters['history_deleted_rows_total{limit="age"}'] == 2
    world.add(_files(1)[0])  # merged just now, from rows of that day
    keeper.look()
    assert len(world.folder.content) == 1
    _later(world, DAY_S)
    keeper.look()
    assert world.folder.content == {}


def test_nothing_is_too_old_by_a_clock_that_leapt(world):
    """For an hour, in which it may be set right."""
    keeper = _keeper(world, age_max_s=3 * DAY_S)
    world.add(_files(1)[0])
    keeper.look()
    world.clock.jump(int(400 * DAY_S * 1000))
    keeper.look()
    _later(world, TRUST_S - 1.0)
    keeper.look()
    assert len(world.folder.content) == 1
    _later(world, 1.0)
    keeper.look()
    assert world.folder.content == {}


def test_the_oldest_files_beyond_the_size_are_deleted(world):
    """Whole files, the oldest first, until the rest fits."""
    meter = Meter()
    for file in _files(4, rows=1):
        world.add(file, b"x" * 100)
        _later(world, 1)
    keeper = _keeper(world, meter, bytes_max=250)
    keeper.look()
    assert {file.first for file in world.folder.content} == {2, 3}
    assert meter.counters['history_deleted_rows_total{limit="bytes"}'] == 2
    assert meter.gauges["history_bytes"] == 200


def test_without_a_size_limit_nothing_is_deleted_for_its_size(world):
    """0 is no limit."""
    world.add(_files(1)[0], b"x" * 10_000)
    _keeper(world, bytes_max=0).look()
    assert len(world.folder.content) == 1


def test_merged_files_stay_small_against_the_limit(world):
    """Deleting the oldest file must not delete most of the history."""
    for file in _files(64, rows=1):
        world.add(file, b"x" * 100)
    keeper = _keeper(world, bytes_max=8000)
    _later(world, 2 * DAY_S)
    keeper.look()
    sizes = [len(content) for content, _ in world.folder.content.values()]
    assert sum(sizes) == 6400
    assert max(sizes) <= 500


def test_a_folder_that_fails_is_told_once(world):
    """Until it works again."""
    keeper = _keeper(world)

    def fail(_method):
        raise OSError("out of reach")

    world.folder.before = fail
    for _ in range(3):
        assert keeper.look() == LOOK_S
    assert world.lines.names == ["history-not-kept"]
    world.folder.before = lambda _method: None
    keeper.look()
    world.folder.before = fail
    keeper.look()
    assert len(world.lines.names) == 2


@pytest.mark.parametrize("error", [CrashError, OSError])
def test_a_crash_at_any_step_loses_no_row_and_shows_none_twice(world, error):
    """At each call of the folder; the next keeper finishes, and leaves one file."""
    files = _files(4)
    expected = None
    for step in itertools.count():
        world.folder = MemoryHistory(lambda: world.clock.wall_ms() / 1000)
        world.lines.names.clear()
        for file in files:
            world.add(file)
        expected = expected or world.rows()
        _later(world, 3 * HOUR_S)
        calls = itertools.count()

        def crash(_method, calls=calls, step=step):
            if next(calls) == step:
                raise error("here")

        world.folder.before = crash
        crashed = False
        try:
            _keeper(world).look()
            crashed = bool(world.lines.names)
        except CrashError:
            crashed = True
        assert world.rows() == expected, step
        world.folder.before = lambda _method: None
        _keeper(world).look()
        assert world.rows() == expected, step
        assert list(world.folder.content) == [HistoryFile(DAY, 0, 0, 8)], step
        if not crashed:
            break
    assert step > 10


_CHUNKS = st.lists(
    st.tuples(
        st.integers(0, 1),  # partition
        st.integers(1, 5),  # rows
        st.integers(0, 2),  # numbers left out before them
        st.sampled_from([1.0, 600.0, 3000.0, 40_000.0]),  # time since the file before
    ),
    max_size=40,
)


def _date(world):
    return str(datetime.fromtimestamp(world.clock.wall_ms() / 1000, UTC).date())


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(_CHUNKS, st.lists(st.integers(0, 60), max_size=4), st.sampled_from([0, 400]))
def test_whatever_is_written_and_wherever_it_crashes_rows_are_there_once(
    world, chunks, crashes, bytes_max
):
    """Files of any size at any time, keepers that crash: each row once, or deleted by a limit."""
    world.folder = MemoryHistory(lambda: world.clock.wall_ms() / 1000)
    world.folder.content.clear()
    ends = [0, 0]
    written = set()
    meter = Meter()
    crashes = iter(crashes)
    for partition, rows, left_out, wait_s in chunks:
        _later(world, wait_s)
        first = ends[partition] + left_out
        file = HistoryFile(_date(world), partition, first, first + rows)
        ends[partition] = file.end
        world.add(file)
        written |= {b"p%d-%d" % (partition, row) for row in range(first, file.end)}
        left = next(crashes, None)
        calls = itertools.count()

        def crash(_method, calls=calls, left=left):
            if next(calls) == left:
                raise CrashError

        world.folder.before = crash
        with contextlib.suppress(CrashError):
            _keeper(world, meter, bytes_max=bytes_max, age_max_s=400 * DAY_S).look()
        world.folder.before = lambda _method: None
        seen = world.rows()
        assert set(seen.values()) <= {1}
        assert set(seen) <= written
        if not bytes_max:
            assert set(seen) == written
    keeper = _keeper(world, meter, bytes_max=bytes_max, age_max_s=400 * DAY_S)
    _later(world, 3 * DAY_S)
    while keeper.look() == 0.0:
        pass
    if bytes_max:
        assert sum(len(content) for content, _ in world.folder.content.values()) <= bytes_max
    else:
        assert set(world.rows()) == written
        names = sorted(world.folder.content, key=lambda file: file[1:])
        for one, other in itertools.pairwise(names):
            assert (one.partition, one.date, one.end) != (other.partition, other.date, other.first)
