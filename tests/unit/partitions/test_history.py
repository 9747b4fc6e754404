"""How rows of the history become files, in virtual time."""

import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Ending, Mark
from distributary.core.journal import JournalState
from distributary.core.journal_frames import HistoryBlock
from distributary.core.meter import Meter
from distributary.core.outcome import Batch
from distributary.history.rows import Recorder
from distributary.partitions import _history
from distributary.partitions._history import FILE_S, LOST_TOTAL, RETRY_S, History, finish
from distributary.testing.memory_ownership import MemoryOwnership, MemoryStore
from kit.simulation.history import SimulatedHistory


class Rig:
    """A history whose flushes and jobs are done when the test says so."""

    def __init__(self, timers, *, kept=True, files=None):
        self.timers = timers
        self.recorder = Recorder(0, lambda _uid: None)
        self.files = files or SimulatedHistory()
        self.jobs = []
        self.warnings = []
        self.asked = 0
        self.meter = Meter()
        self.history = History(
            self.recorder,
            self.files if kept else None,
            blocking=self,
            timers=timers,
            meter=self.meter,
            warn=lambda event, _fields: self.warnings.append(event),
        )

    def load(self, blocks=(), filed=0, end=0):
        """Begin, and let what the last owner left be looked at."""
        self.history.load(blocks, filed, end, self.ask)
        self.work()
        return self

    def ask(self):
        self.asked += 1

    def run(self, work, done):
        self.jobs.append((work, done))

    def work(self):
        """Do all jobs, with what they cause."""
        while self.jobs:
            work, done = self.jobs.pop(0)
            try:
                work()
            except StoreError as error:
                done(error)
            else:
                done(None)

    def drop(self, count):
        """So many matches end."""
        for number in range(count):
            self.recorder.ended(DoneKey(number, 0, "r"), Ending.DROPPED, "retention", 1, None)

    def flush(self):
        """A flush that is durable at once."""
        taken, filed = self.history.take(), self.history.filed
        self.history.flushed(taken, filed)
        self.asked = 0

    @property
    def rows(self):
        """Rows that readers see."""
        return sum(len(rows) for rows in self.files.published.values())


@pytest.fixture
def rig(timers):
    """A partition that nobody has owned."""
    return Rig(timers).load()


def test_a_durable_row_is_in_a_file_within_seconds(rig, timers):
    """Written, noted in the journal, and only then shown."""
    rig.drop(3)
    rig.flush()
    timers.advance(FILE_S)
    rig.work()
    assert (rig.asked, rig.rows, rig.history.filed) == (1, 0, 3)
    rig.flush()
    rig.work()
    assert rig.rows == 3


def test_much_is_written_at_once(rig, monkeypatch):
    """A file has a limited number of rows, whatever the rate."""
    monkeypatch.setattr(_history, "FILE_ROWS", 10)
    for _ in range(3):
        rig.drop(6)
        rig.flush()
    for _ in range(4):
        rig.work()
        rig.flush()
    assert rig.rows == 12
    assert len(rig.files.published) == 1


def test_the_next_owner_writes_what_the_last_one_left(timers):
    """Rows of the journal, with their numbers."""
    left = Rig(timers)
    left.drop(2)
    count, rows = left.history.take()
    rig = Rig(timers).load([HistoryBlock(7, count, rows)], filed=7, end=9)
    timers.advance(FILE_S)
    rig.work()
    rig.flush()
    rig.work()
    (file,) = rig.files.published
    assert (file.first, file.end) == (7, 9)


def test_what_the_last_owner_left_hidden_is_looked_for_until_it_is_found(timers):
    """A start while the disk is away costs nothing: its file is shown later, before new ones."""
    last = Rig(timers).load()
    last.drop(2)
    count, rows = last.history.take()
    last.files.write([HistoryBlock(0, count, rows)])
    rig = Rig(timers, files=last.files)
    rig.files.failing = True
    rig.load(filed=2, end=2)
    assert rig.warnings == ["history-not-written"]
    rig.drop(1)
    rig.flush()
    timers.advance(RETRY_S)
    rig.work()
    rig.files.failing = False
    timers.advance(RETRY_S)
    rig.work()
    assert rig.rows == 2
    assert rig.warnings == ["history-not-written", "history-written-again"]
    timers.advance(FILE_S)
    rig.work()
    rig.flush()
    rig.work()
    assert sorted((file.first, file.end) for file in rig.files.published) == [(0, 2), (2, 3)]


def test_rows_whose_file_vanishes_are_counted(rig, timers):
    """Between being written and being shown; those after it are written as ever."""
    for vanishes in (True, False):
        rig.drop(3)
        rig.flush()
        timers.advance(FILE_S)
        rig.work()
        if vanishes:
            rig.files.vanish()
        rig.flush()
        rig.work()
    assert rig.meter.counters[LOST_TOTAL] == 3
    assert rig.warnings == ["history-lost"]
    assert [(file.first, file.end) for file in rig.files.published] == [(3, 6)]


def test_a_full_disk_is_told_once_and_tried_again(rig, timers):
    """Rows wait in the journal meanwhile."""
    rig.files.failing = True
    rig.drop(1)
    rig.flush()
    timers.advance(FILE_S)
    rig.work()
    timers.advance(RETRY_S)
    rig.work()
    assert rig.warnings == ["history-not-written"]
    rig.flush()
    assert rig.jobs == []
    rig.files.failing = False
    timers.advance(RETRY_S)
    rig.work()
    rig.flush()
    rig.work()
    assert rig.rows == 1
    assert rig.warnings == ["history-not-written", "history-written-again"]


def test_a_file_that_could_not_be_shown_is_shown_later(rig, timers):
    """It was written, and the journal says so."""
    rig.drop(1)
    rig.flush()
    timers.advance(FILE_S)
    rig.work()
    rig.files.failing = True
    rig.flush()
    rig.work()
    assert rig.rows == 0
    rig.files.failing = False
    timers.advance(RETRY_S)
    rig.work()
    assert rig.rows == 1


def test_what_waits_is_bounded_and_what_is_lost_is_counted(rig, monkeypatch):
    """The journal must not grow for ever."""
    monkeypatch.setattr(_history, "WAITING_BYTES_MAX", 1000)
    rig.files.failing = True
    for _ in range(200):
        rig.drop(1)
        rig.flush()
        rig.work()
    lost = rig.meter.counters[LOST_TOTAL]
    assert 0 < lost < 200
    assert rig.history.filed == lost


@pytest.mark.parametrize("hidden", ["nothing", "written", "noted"])
def test_an_orderly_end_shows_everything(rig, timers, hidden):
    """Nobody has to start the server again to see the last two seconds, whatever was under way."""
    ownership = MemoryOwnership(MemoryStore(), JournalState())
    rig.drop(2)
    taken = rig.history.take()
    ownership.flush(Batch(Mark(1, 1), history=taken))
    rig.history.flushed(taken, 0)
    if hidden != "nothing":
        timers.advance(FILE_S)
        rig.work()
    if hidden == "noted":
        ownership.flush(Batch(Mark(1, 1), filed=2))
    rig.drop(1)
    ownership.flush(Batch(Mark(1, 1), history=rig.history.take()))
    finish(ownership, rig.files, lambda work: work())
    assert sorted((file.first, file.end) for file in rig.files.published) == (
        [(0, 2), (2, 3)] if hidden == "noted" else [(0, 3)]
    )
    assert ownership.state.blocks == []
    finish(ownership, rig.files, lambda work: work())


def test_without_a_history_nothing_is_kept(timers):
    """And what an earlier setting left in the journal is let go of."""
    rig = Rig(timers, kept=False).load([HistoryBlock(0, 1, b"x")], filed=0, end=1)
    rig.drop(1)
    assert rig.history.take() == (0, b"")
    assert (rig.history.filed, rig.asked) == (1, 1)


def test_what_waits_for_a_folder_that_does_not_answer_is_bounded(rig, timers, monkeypatch):
    """A hard mount whose server is away: the rows being written stay, the oldest others go."""
    monkeypatch.setattr(_history, "WAITING_BYTES_MAX", 1000)
    rig.drop(2)
    rig.flush()
    timers.advance(FILE_S)
    (hanging,) = rig.jobs
    rig.jobs.clear()
    for _ in range(200):
        rig.drop(1)
        rig.flush()
    lost = rig.meter.counters[LOST_TOTAL]
    assert 150 < lost < 200
    assert rig.history.filed == 2 + lost, "the journal forgets what is given up"
    rig.jobs.append(hanging)
    rig.work()
    rig.flush()
    rig.work()
    assert [(file.first, file.end) for file in rig.files.published] == [(0, 2)]


def test_a_folder_that_does_not_answer_is_told_once(rig, timers):
    """Nothing fails there, so nothing else would say it."""
    rig.drop(1)
    rig.flush()
    timers.advance(FILE_S)
    (hanging,) = rig.jobs
    rig.jobs.clear()
    for _ in range(5):
        timers.advance(RETRY_S)
    assert rig.warnings == ["history-not-written"]
    rig.jobs.append(hanging)
    rig.work()
    assert rig.warnings == ["history-not-written", "history-written-again"]


def test_jobs_that_end_are_not_taken_for_one_that_hangs(rig, timers):
    """Each two seconds another one is under way."""
    for _ in range(20):
        rig.drop(1)
        rig.flush()
        timers.advance(FILE_S)
        rig.work()
        rig.flush()
        rig.work()
    assert rig.warnings == []


def test_rows_for_a_folder_that_is_not_there_are_few_and_those_of_a_predecessor_stay(
    timers, monkeypatch
):
    """A machine without the share keeps a little in the journal, and counts the rest as lost."""
    monkeypatch.setattr(_history, "UNSEEN_BYTES_MAX", 500)
    left = Rig(timers)
    left.drop(40)
    count, rows = left.history.take()
    rig = Rig(timers)
    rig.files.failing = True
    rig.load([HistoryBlock(0, count, rows)], filed=0, end=40)
    assert LOST_TOTAL not in rig.meter.counters
    for _ in range(100):
        rig.drop(1)
        rig.flush()
    lost = rig.meter.counters[LOST_TOTAL]
    assert lost > 40
    rig.files.failing = False
    timers.advance(RETRY_S)
    rig.work()
    for _ in range(100):
        rig.drop(1)
        rig.flush()
    assert rig.meter.counters[LOST_TOTAL] == lost, "where there is one, more may wait"
