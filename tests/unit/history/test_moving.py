"""Files on their way from the outbox to the folder that the operator named."""

import os

import pytest

from distributary.core.meter import Meter
from distributary.history.local_folder import LocalFolder
from distributary.history.moving import RETRY_S, STUCK_LOOKS, Mover, Outbox
from distributary.history.names import HistoryFile
from distributary.history.plan import settled_before

LOOK_S = 1.0


class Way:
    """An outbox on disk, and the folder of a world."""

    def __init__(self, world, path, **limits):
        self.world = world
        self.local = LocalFolder(path / "outbox")
        self.path = path
        self.meter = Meter()
        self.outbox = Outbox(self.local, meter=self.meter, log=world.lines, **limits)
        self.mover = self.new_mover()

    def new_mover(self):
        return Mover(self.outbox, self.world.folder, LOOK_S, log=self.world.lines)

    def write(self, number, content=b"12345", rows=3):
        """The owner's next file; each is a second newer than the one before."""
        file = HistoryFile("2026-11-18", 0, number * rows, (number + 1) * rows)
        source = self.path / "new"
        source.write_bytes(content)
        os.utime(source, (1_795_000_000 + number,) * 2)
        path = self.local.path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        source.rename(path)
        return file

    def waiting(self):
        return [stored.file for stored in self.outbox.waiting()]


@pytest.fixture
def way(world, tmp_path):
    """A bound of 20 bytes."""
    return Way(world, tmp_path, bytes_max=20)


def _fail(world, *files):
    original = world.folder.put

    def put(source, file):
        if not files or file in files:
            raise OSError("connection refused")
        original(source, file)

    world.folder.put = put


def test_files_move_in_the_order_in_which_they_were_written(way, world):
    """The oldest first; the outbox is empty then."""
    files = [way.write(number) for number in (2, 0, 1)]
    assert way.mover.look() == LOOK_S
    assert list(world.folder.content) == sorted(files)
    assert way.waiting() == []
    assert world.lines.names == []


def test_a_crash_between_put_and_delete_repeats_harmlessly(way, world):
    """The file is there once, with its content and its first time."""
    file = way.write(0)

    class CrashError(Exception):
        pass

    def crash(_file):
        raise CrashError

    way.local.delete = crash
    with pytest.raises(CrashError):
        way.mover.look()
    del way.local.delete
    before = dict(world.folder.content)
    world.clock.move_to(9.0)
    way.new_mover().look()
    assert world.folder.content == before
    assert list(before) == [file]
    assert way.waiting() == []


def test_a_folder_out_of_reach_is_told_once_and_tried_less_often(way, world):
    """And once when it is back; files wait meanwhile."""
    way.write(0)
    way.write(1)
    put = world.folder.put
    _fail(world)
    waits = [way.mover.look() for _ in range(7)]
    assert waits == [*RETRY_S, RETRY_S[-1], RETRY_S[-1]]
    assert way.mover.failing
    world.folder.put = put
    assert way.mover.look() == LOOK_S
    assert not way.mover.failing
    assert world.lines.names.count("history-out-of-reach") == 1
    assert world.lines.names[-1] == "history-within-reach"
    assert way.waiting() == []


def test_one_file_that_cannot_be_moved_holds_up_no_other(way, world):
    """It is told once and tried now and then; later files move at their time."""
    files = [way.write(number) for number in range(4)]
    put = world.folder.put
    _fail(world, files[1])
    for _ in range(STUCK_LOOKS + 1):
        assert way.mover.look() == LOOK_S
        assert way.waiting() == [files[1]]
        assert not way.mover.failing
    files.append(way.write(4))
    way.mover.look()
    assert set(world.folder.content) == set(files) - {files[1]}
    assert world.lines.names == ["history-file-not-moved"]
    world.folder.put = put
    for _ in range(STUCK_LOOKS):
        way.mover.look()
    assert way.waiting() == []


def test_a_single_file_that_fails_means_that_the_folder_is_out_of_reach(way, world):
    """There is no other by which to tell them apart."""
    file = way.write(0)
    _fail(world, file)
    assert way.mover.look() == RETRY_S[0]
    assert world.lines.names == ["history-out-of-reach"]


def test_what_waits_too_long_is_given_up_oldest_first(way, world):
    """Rows are counted and warned about; what waits is a gauge."""
    files = [way.write(number) for number in range(7)]  # of 5 bytes; 4 fit
    way.outbox.bound()
    assert way.waiting() == files[3:]
    assert way.meter.counters["history_lost_rows_total"] == 9
    assert way.meter.gauges["history_waiting_bytes"] == 20
    assert world.lines.names == ["history-lost"]
    way.outbox.bound()
    assert world.lines.names == ["history-lost"]


def test_the_file_that_is_being_put_is_not_given_up(way, world):
    """The bound is looked at by another thread: here in the middle of a put."""
    files = [way.write(number) for number in range(5)]
    original = world.folder.put

    def put(source, file):
        if file == files[0]:
            way.outbox.bound()
        original(source, file)

    world.folder.put = put
    way.mover.look()
    assert set(world.folder.content) == set(files) - {files[1]}
    assert way.meter.counters["history_lost_rows_total"] == 3


def test_nothing_lost_is_counted_as_nothing(way):
    """The counter is there from the start, so that an alert has something to watch."""
    assert way.meter.counters == {"history_lost_rows_total": 0}


def test_days_whose_files_have_moved_leave_no_folder(way):
    """From the day after the next one: late rows of a day are still to come."""
    path = way.local.path(way.write(0))  # on 18 November, at this time
    way.mover.look()
    for days, there in ((0, True), (1, True), (2, False)):
        way.outbox.delete_empty_days(settled_before(1_795_000_000 + days * 86_400))
        assert path.parent.is_dir() == there
