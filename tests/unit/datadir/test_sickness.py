"""A partition that cannot be owned: when it is tried again, and what is said of it."""

import pytest

from distributary.core.errors import StoreError
from distributary.datadir import (
    DataDir,
    MappedStatusPage,
    Phase,
    Sickness,
    StatusField,
    is_sick,
    sickness_of,
)
from distributary.datadir._sickness import STEADY_S, WAIT_S
from distributary.server.processes.supervision.health import Health
from distributary.testing.virtual import VirtualClock


class Log:
    """Remembers lines."""

    def __init__(self):
        self.lines = []

    def error(self, event, **fields):
        self.lines.append((event, fields))


class World:
    """One partition and its sickness."""

    def __init__(self, folder):
        self.paths = DataDir(folder)
        self.paths.run.mkdir()
        self.status_page = MappedStatusPage(self.paths.status_page(0))
        self.clock = VirtualClock()
        self.log = Log()
        self.told = []
        self.sickness = Sickness(
            self.paths, 0, self.status_page, self.clock, self.log, tell=self.told.append
        )

    def pass_s(self, seconds):
        self.clock.move_to(self.clock.monotonic_s() + seconds)

    def until_due_s(self):
        """How long it takes until the partition is tried again."""
        began_s = self.clock.monotonic_s()
        while not self.sickness.due():
            self.pass_s(0.5)
        return self.clock.monotonic_s() - began_s


@pytest.fixture
def world(tmp_path):
    """A partition that is well."""
    return World(tmp_path)


def test_a_partition_that_is_well_is_tried_at_once(world):
    """Nothing waits where nothing was wrong."""
    assert world.sickness.due()
    assert not is_sick(world.status_page)


def test_a_sick_partition_is_tried_more_and_more_rarely(world):
    """What ails it may need a person; each try costs the others some CPU."""
    waits = []
    for _ in range(len(WAIT_S) + 2):
        world.sickness.note(StoreError("it is damaged"))
        waits.append(world.until_due_s())
    assert waits == [*WAIT_S, WAIT_S[-1], WAIT_S[-1]]


def test_it_says_why(world):
    """In the log, and to whoever asks for readiness."""
    world.sickness.note(StoreError("file is not a database"))
    event, fields = world.log.lines[0]
    assert event == "partition-sick"
    assert fields["partition"] == 0
    assert fields["reason"] == "file is not a database"
    assert is_sick(world.status_page)
    assert sickness_of(world.paths, 0) == "file is not a database"
    assert world.told == ["file is not a database"]


def test_it_is_no_longer_sick_once_it_runs(world):
    """Readiness follows the owner."""
    world.sickness.note(StoreError("no"))
    world.status_page[StatusField.PHASE] = Phase.RUNNING
    assert not is_sick(world.status_page)


@pytest.mark.parametrize(("ran_s", "wait_s"), [(STEADY_S - 1, WAIT_S[1]), (STEADY_S, WAIT_S[0])])
def test_an_owner_that_ran_for_long_begins_its_waits_anew(world, ran_s, wait_s):
    """One that fails again and again does not."""
    world.sickness.note(StoreError("no"))
    world.sickness.began()
    world.pass_s(ran_s)
    world.sickness.goes_on()
    world.sickness.note(StoreError("again"))
    assert world.until_due_s() == wait_s


def test_an_orderly_end_is_a_sign_of_health(world):
    """Whatever was before."""
    world.sickness.note(StoreError("no"))
    world.sickness.over()
    assert world.sickness.due()
    assert not is_sick(world.status_page)


def test_a_clock_that_is_set_back_does_not_keep_it_waiting(world):
    """The wall clock is for the processes to agree on; it may be wrong."""
    world.sickness.note(StoreError("no"))
    world.clock.jump(-3_600_000)
    assert world.sickness.due()


def test_readiness_names_the_sick_partition_and_the_reason(world):
    """The other one is not mentioned."""
    well = MappedStatusPage(world.paths.status_page(1))
    well[StatusField.READY] = 1
    world.sickness.note(StoreError("file is not a database"))
    ingest = MappedStatusPage(world.paths.ingest_page(0))
    ingest[StatusField.PHASE] = Phase.RUNNING
    ingest[StatusField.HEARTBEAT_MS] = well[StatusField.HEARTBEAT_MS] = world.clock.wall_ms()
    health = Health(world.paths, 2, world.clock, behind=lambda: None, restarts=dict)
    ready, reasons = health.ready()
    assert not ready
    assert len(reasons) == 1
    assert "partition 0" in reasons[0]
    assert "file is not a database" in reasons[0]
