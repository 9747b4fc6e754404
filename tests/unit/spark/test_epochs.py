"""The driver's watch over epochs: how one begins and ends, and a sick partition among others."""

import pytest

from distributary.datadir import DataDir, MappedStatusPage, Phase, StatusField
from distributary.spark import DriverSettings, Withheld
from distributary.spark.driver import Driver
from distributary.testing.virtual import VirtualClock

EPOCH_S = 100.0


class Query:
    """What the driver asks of a query."""

    lastProgress = None  # noqa: N815 - Spark's name


class World:
    """A driver over status pages; its owners are ours."""

    def __init__(self, folder, partitions=2):
        self.clock = VirtualClock()
        self.folder = folder
        paths = DataDir(folder)
        self.driver = Driver(
            DriverSettings(
                data_dir=str(folder),
                session="{}",
                history="",
                history_age_max_s=3600.0,
                history_bytes_max=0,
                partitions=partitions,
                master="auto",
                epoch_s=EPOCH_S,
                drain_s=1.0,
            ),
            Withheld(),
            self.clock.monotonic_s,
            lambda _seconds: None,
        )
        self.status_pages = [
            MappedStatusPage(paths.status_page(number)) for number in range(partitions)
        ]

    def pass_s(self, seconds):
        self.clock.move_to(self.clock.monotonic_s() + seconds)

    def run(self, epoch, *numbers):
        """The owners of *numbers* (of all) run in *epoch*."""
        for number in numbers or range(len(self.status_pages)):
            status_page = self.status_pages[number]
            status_page[StatusField.EPOCH] = epoch
            status_page[StatusField.PHASE] = Phase.RUNNING

    def look(self, seconds=0.1):
        """Time passes, and the driver looks."""
        self.pass_s(seconds)
        self.driver._watch(Query())

    def begin(self):
        """The first epoch: it lasts as long as any."""
        self.run(1)
        for _ in range(5):
            self.look()
        assert self.all(StatusField.END_EPOCH) == [0] * len(self.status_pages)
        assert self.all(StatusField.READY) == [1] * len(self.status_pages)

    def all(self, word):
        return [status_page[word] for status_page in self.status_pages]


@pytest.fixture
def world(tmp_path):
    """Two partitions."""
    return World(tmp_path)


def test_an_epoch_ends_when_it_has_its_length(world):
    """For all partitions at once; the next one then begins and ends as it did."""
    world.begin()
    for epoch in (1, 2):
        world.pass_s(EPOCH_S - 1.0)
        world.look()
        assert world.all(StatusField.END_EPOCH) == [epoch - 1, epoch - 1]
        world.look(1.0)
        assert world.all(StatusField.END_EPOCH) == [epoch, epoch]
        world.run(epoch + 1, 0)
        world.look(EPOCH_S)  # the other owner has no task yet
        assert world.all(StatusField.END_EPOCH) == [epoch, epoch]
        world.run(epoch + 1)
        world.look()


def test_owners_on_whom_the_driver_does_not_count_begin_no_epoch(world):
    """Those of an executor that is lost: the epoch goes on, and ends when it would have."""
    world.begin()
    world.pass_s(EPOCH_S - 1.0)
    world.run(0)
    world.look()
    world.run(1)
    world.look(1.0)
    assert world.all(StatusField.END_EPOCH) == [1, 1]


def test_a_sick_partition_holds_no_other_up(world):
    """The others begin, are ready, and hand over; it is not ready until it runs."""
    sick = world.status_pages[1]
    sick[StatusField.FAILURES] = 1
    sick[StatusField.PHASE] = Phase.ABSENT
    world.run(1, 0)
    for _ in range(5):
        world.look()
    assert world.all(StatusField.READY) == [1, 0]
    world.pass_s(EPOCH_S)
    for _ in range(20):
        world.look()
    assert world.all(StatusField.END_EPOCH) == [1, 1]
    world.run(2)
    world.look()
    assert world.all(StatusField.READY) == [1, 1]


def test_a_partition_that_comes_late_is_ready_when_it_runs(world):
    """It need not wait for the next epoch."""
    sick = world.status_pages[1]
    sick[StatusField.FAILURES] = 3
    world.run(1, 0)
    for _ in range(5):
        world.look()
    assert world.all(StatusField.READY) == [1, 0]
    world.run(1, 1)
    world.look()
    assert world.all(StatusField.READY) == [1, 1]


def test_an_epoch_waits_for_a_partition_that_is_only_slow(world):
    """Loading is no sickness: the epoch begins, and later ends, for all together."""
    world.run(1, 0)
    world.status_pages[1][StatusField.PHASE] = Phase.LOADING
    for _ in range(20):
        world.look(EPOCH_S)
    assert world.all(StatusField.READY) == [0, 0]
    assert world.all(StatusField.END_EPOCH) == [0, 0]
