"""What a process that begins to hold a partition finds out about its files."""

from contextlib import closing

import pytest

from distributary.core.clock import SystemClock
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import Journal
from distributary.core.log import Appender, open_folder
from distributary.core.outcome import Budgets
from distributary.datadir import DataDir
from distributary.partitions._holding import Holding
from distributary.partitions.places import FilePlaces


class Lines:
    """Takes lines for people."""

    def __init__(self):
        self.errors = []

    def error(self, event, **fields):
        self.errors.append((event, fields))


@pytest.fixture
def paths(tmp_path):
    """A data directory with an empty log."""
    made = DataDir(tmp_path)
    open_folder(made.log, 1)
    Appender.open(made.log, 0, clock=SystemClock()).close()
    return made


def hold(paths, lines):
    """Hold partition 0."""
    clock = SystemClock()
    return Holding(FilePlaces(paths), 0, Budgets(), clock=clock, lease=None, log=lines)


def test_damage_of_the_journal_is_told_and_counted_once(paths):
    """Sessions of one process follow one another with one holding: the first one counts it."""
    with closing(Journal(paths.journal(0))) as journal:
        for offset in range(3):
            journal.record(Mark(0, 0), [(DoneKey(offset, 0, "r"), 7)])
    content = bytearray(paths.journal(0).read_bytes())
    content[20] ^= 1
    paths.journal(0).write_bytes(content)
    lines = Lines()
    with closing(hold(paths, lines)) as holding:
        assert {key.offset for key in holding.ownership.state.done} == {1, 2}
        assert (holding.take_damages(), holding.take_damages()) == (1, 0)
    ((event, fields),) = lines.errors
    assert (event, fields["byte_from"], fields["frames_behind"]) == ("journal-damaged", 0, 2)
    with closing(hold(paths, lines)) as holding:
        assert holding.take_damages() == 0
    assert len(lines.errors) == 1


def test_rows_of_each_holding_have_numbers_above_all_before(paths):
    """By the clock: whatever the journal has lost."""
    before = SystemClock().wall_ms() * 1000
    with closing(hold(paths, Lines())) as holding:
        assert before <= holding.ownership.state.history_end <= SystemClock().wall_ms() * 1000
