"""The driver's watch over epochs: how one begins and ends, and a sick partition among others."""

import msgspec
import pytest

from distributary.datadir import (
    ConsumerPhase,
    DataDir,
    LiveFile,
    LiveSettings,
    MappedStatusPage,
    StatusField,
)
from distributary.history.place import HistorySettings
from distributary.partitions import SessionSettings
from distributary.spark.driver import Driver, DriverSettings
from distributary.testing.virtual import VirtualClock

EPOCH_S = 100.0
BUSY_MS = 5_000


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
                history=HistorySettings(),
                partitions=partitions,
                master="auto",
                spark_conf={},
                epoch_s=EPOCH_S,
                drain_s=1.0,
            ),
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
            status_page[StatusField.PHASE] = ConsumerPhase.RUNNING
            status_page[StatusField.OLDEST_IN_FLIGHT_MS] = 0

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


def test_an_owner_that_is_busy_at_the_end_does_not_put_the_next_rollover_off(world):
    """What was left of one rollover says nothing about the next one."""
    world.begin()
    for epoch in (1, 2):
        world.pass_s(EPOCH_S)
        for _ in range(20):  # cooling; the end; and owners that run on for a moment
            world.look()
        assert world.all(StatusField.END_EPOCH) == [epoch, epoch]
        world.run(epoch + 1)
        world.look()
        assert world.all(StatusField.DRAINING) == [0, 0]
    world.pass_s(EPOCH_S)
    world.look()
    world.look()
    assert world.all(StatusField.DRAINING) == [1, 1]
    world.look()
    assert world.all(StatusField.END_EPOCH) == [2, 2]


def test_no_epoch_ends_without_having_cooled_down(world):
    """Attempts that were begun before have a moment to be answered, each time."""
    world.begin()
    for epoch in (1, 2, 3):
        world.pass_s(EPOCH_S)
        looks = 0
        while world.all(StatusField.END_EPOCH) != [epoch, epoch]:
            world.look()
            looks += 1
            assert looks < 100
        assert looks > 5
        for _ in range(3):
            world.look()
        world.run(epoch + 1)
        world.look()


def test_a_sick_partition_holds_no_other_up(world):
    """The others begin, are ready, and hand over; it is not ready until it runs."""
    well, sick = world.status_pages
    sick[StatusField.FAILURES] = 1
    sick[StatusField.PHASE] = ConsumerPhase.ABSENT
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
    assert well[StatusField.DRAINING] == 0


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
    world.status_pages[1][StatusField.PHASE] = ConsumerPhase.LOADING
    for _ in range(20):
        world.look(EPOCH_S)
    assert world.all(StatusField.READY) == [0, 0]
    assert world.all(StatusField.END_EPOCH) == [0, 0]


def test_a_rollover_without_a_quiet_moment_is_put_off(world):
    """Sinks that answer slowly all the time are not cut off."""
    world.begin()
    world.pass_s(EPOCH_S)
    for _ in range(1300):
        for status_page in world.status_pages:
            status_page[StatusField.OLDEST_IN_FLIGHT_MS] = BUSY_MS
        world.look()
    assert world.all(StatusField.END_EPOCH) == [0, 0]
    assert world.all(StatusField.DRAINING) == [0, 0]


def _reload(world):
    LiveFile(DataDir(world.folder).live).write(
        LiveSettings(
            number=7,
            log_level="info",
            session=msgspec.Raw(msgspec.json.encode(SessionSettings(data_dir=str(world.folder)))),
            ingest=msgspec.Raw(b"{}"),
        )
    )


def test_no_sink_that_hangs_keeps_owners_with_older_settings(world):
    """An attempt may last ten minutes and another follows; what settings forbid must end."""
    world.begin()
    _reload(world)
    for _ in range(1300):
        for status_page in world.status_pages:
            status_page[StatusField.OLDEST_IN_FLIGHT_MS] = BUSY_MS
        world.look()
    assert world.all(StatusField.END_EPOCH) == [1, 1]


def test_owners_with_older_settings_make_way(world):
    """The epoch ends as it always does, but at once; the next one begins with the newest."""
    world.begin()
    for _ in range(3):
        world.look()
    assert world.all(StatusField.END_EPOCH) == [0, 0]
    _reload(world)
    for _ in range(10):
        world.look()
    assert world.all(StatusField.END_EPOCH) == [1, 1]
    for status_page in world.status_pages:
        status_page[StatusField.SETTINGS] = 7
    world.run(2)
    for _ in range(10):
        world.look()
    assert world.all(StatusField.END_EPOCH) == [1, 1]
