"""A session with and without a task: when it goes on, and when it ends."""

import threading
from types import SimpleNamespace

import msgspec
import pytest

from distributary.core.errors import StoreError
from distributary.datadir import LiveFile, LiveSettings, StatusField
from distributary.spark import _custody
from distributary.spark._custody import Custody, serve_tasks
from distributary.spark._owner import (
    ALONE_S,
    DRAIN_S_MAX,
    DRAIN_S_MIN,
    LOOK_S,
    OUTLIVED_DRAIN_S,
    QUIET_MS,
    REST_S,
    Owner,
)
from distributary.testing.virtual import VirtualClock


class Page(dict):
    """A status page."""

    def __missing__(self, _field):
        return 0

    def close(self):
        """There is nothing to close."""


class Session:
    """A session whose waits take time and do what the test says."""

    def __init__(self, clock):
        self.clock = clock
        self.during = lambda: None
        self.epochs = []
        self.quiet = 0
        self.ends = []
        self.counted = 100, 5, 3
        self.nudges = 0
        self.waits = []

    def counts(self):
        return self.counted

    def nudge(self):
        self.nudges += 1

    def wait(self, seconds):
        self.waits.append(seconds)
        self.clock.move_to(self.clock.monotonic_s() + seconds)
        self.during()

    def enter(self, epoch):
        self.epochs.append(epoch)

    def quieten(self):
        self.quiet += 1

    def close(self, *, orderly, drain_s):
        self.ends.append((orderly, drain_s))

    def hand_over(self):
        self.during()
        return "the partition"


class World:
    """An owner whose session, JVM and server are ours."""

    def __init__(self, folder):
        self.clock = VirtualClock()
        self.page = Page()
        self.session = Session(self.clock)
        self.guardians = SimpleNamespace(orphaned=False, patient=True, close=lambda: None)
        self.noted = []
        self.live = LiveFile(folder / "settings.json")
        self.owner = Owner(
            partition=1,
            session=self.session,
            status_page=self.page,
            guardians=self.guardians,
            sickness=SimpleNamespace(note=self.noted.append, goes_on=lambda: None),
            live=LiveFile(folder / "settings.json"),
            now_s=self.clock.monotonic_s,
        )

    def reload(self, number):
        self.live.write(
            LiveSettings(
                number=number,
                log_level="info",
                session=msgspec.Raw(b"{}"),
                ingest=msgspec.Raw(b"{}"),
            )
        )

    def pass_s(self, seconds):
        self.clock.move_to(self.clock.monotonic_s() + seconds)

    def set(self, word, value):
        self.page[word] = value

    def fail(self):
        raise StoreError("the store is gone")


@pytest.fixture
def world(tmp_path):
    """An owner."""
    return World(tmp_path)


def test_a_session_goes_on_until_a_task_wants_it(world):
    """Nothing of it ends, however often it is handed on."""
    looks = iter([False] * 5 + [True])
    assert world.owner.alone(lambda: next(looks))
    assert world.session.ends == []
    assert world.session.quiet == 0


@pytest.mark.parametrize(
    ("happens", "drain_s"),
    [
        pytest.param(lambda w: w.set(StatusField.SUCCESSOR, 7), None, id="another-task-asks"),
        pytest.param(lambda w: w.set(StatusField.STOP, 1), None, id="the-server-stops"),
        pytest.param(lambda w: w.pass_s(ALONE_S), None, id="no-task-comes"),
        pytest.param(
            lambda w: vars(w.guardians).update(orphaned=True, patient=False),
            OUTLIVED_DRAIN_S,
            id="no-jvm-comes",
        ),
    ],
)
def test_a_session_that_nobody_is_to_have_ends_in_good_order(world, happens, drain_s):
    """Its partition is free for others then."""
    world.session.during = lambda: happens(world)
    assert not world.owner.alone(lambda: False)
    assert world.session.ends == [(True, drain_s)]


def test_a_session_outlives_its_jvm_as_long_as_its_guardians_say(world):
    """The time without a task ends a session of a JVM that lives, and no other."""
    world.guardians.orphaned = True
    looks = iter([False] * 3 + [True])
    world.session.during = lambda: world.pass_s(ALONE_S)
    assert world.owner.alone(lambda: next(looks))


def test_a_session_whose_server_has_ended_leaves_the_end_to_its_heartbeat(world):
    """The process ends with it, which a closed session would not see to."""
    world.guardians.patient = False
    looks = iter([False] * 3 + [True])
    assert world.owner.alone(lambda: next(looks))
    assert world.session.ends == []


def test_a_word_of_an_earlier_search_ends_nothing(world):
    """Who waits asks again."""
    world.page[StatusField.SUCCESSOR] = 7
    looks = iter([False] * 5 + [True])
    assert world.owner.alone(lambda: next(looks))
    world.page[StatusField.SUCCESSOR] = 7
    world.owner.serve(2)
    assert world.page[StatusField.SUCCESSOR] == 0
    assert world.session.epochs == [2]


def test_an_owner_is_given_away_where_the_driver_counts_on_it_no_more(world):
    """An executor that is cut off from the driver: the task in its place asks."""
    world.owner.serve(2)
    world.page[StatusField.EPOCH] = 2
    world.page[StatusField.SUCCESSOR] = 7
    assert not world.owner.given_away  # a search of an earlier epoch
    world.page[StatusField.EPOCH] = 0
    assert world.owner.given_away
    world.page[StatusField.SUCCESSOR] = 0
    assert not world.owner.given_away  # nobody delivers in its place


def test_a_failure_is_noted_once_and_closes_the_session(world):
    """Readiness says why, whether or not there is a task."""
    world.session.during = world.fail
    with pytest.raises(StoreError):
        world.owner.alone(lambda: False)
    assert [str(error) for error in world.noted] == ["the store is gone"]
    assert world.session.ends == [(False, None)]


def test_newer_settings_wait_for_a_quiet_moment(world):
    """Attempts under way have a moment, and slow sinks get no new ones."""
    assert not world.owner.outdated()
    assert world.session.quiet == 0
    world.reload(7)
    world.page[StatusField.IN_FLIGHT] = 1
    assert not world.owner.outdated()
    assert world.session.quiet == 1
    world.pass_s(DRAIN_S_MIN)
    world.page[StatusField.OLDEST_IN_FLIGHT_MS] = QUIET_MS + 1
    assert not world.owner.outdated()
    world.page[StatusField.OLDEST_IN_FLIGHT_MS] = QUIET_MS
    assert world.owner.outdated()
    assert world.session.quiet == 1


def test_newer_settings_wait_for_nothing_that_is_not_under_way(world):
    """A partition without traffic has them at once."""
    world.reload(7)
    assert world.owner.outdated()


def test_a_session_is_looked_at_more_often_while_a_quiet_moment_is_waited_for(world):
    """Otherwise once a second is enough: requests end the wait."""
    world.owner.watch()
    world.reload(7)
    world.page[StatusField.IN_FLIGHT] = 1
    assert not world.owner.outdated()
    world.owner.watch()
    assert world.session.waits == [REST_S, LOOK_S]
    world.owner.nudge()
    assert world.session.nudges == 1


def test_newer_settings_go_on_with_the_partition(world):
    """The next session gets what the last one held; newer settings after that are seen again."""
    made = []

    def make(newer, holding):
        made.append((newer.number, holding))
        return Session(world.clock)

    world.reload(7)
    assert world.owner.outdated()
    assert world.owner.renew(make)
    assert made == [(7, "the partition")]
    assert world.page[StatusField.SETTINGS] == 7
    assert world.owner.session is not world.session
    assert not world.owner.outdated()
    world.reload(8)
    world.page[StatusField.IN_FLIGHT] = 1
    assert not world.owner.outdated()
    assert world.owner.session.quiet == 1


def test_a_session_that_fails_at_its_end_has_no_newer_settings(world):
    """The task looks for a partition again, as after any failure."""
    world.reload(7)
    assert world.owner.outdated()
    world.session.during = world.fail
    assert not world.owner.renew(lambda _newer, _holding: pytest.fail("no session is to be made"))
    assert [str(error) for error in world.noted] == ["the store is gone"]
    assert StatusField.SETTINGS not in world.page


def test_no_sink_that_hangs_keeps_owners_with_older_settings(world):
    """An attempt may last ten minutes and another follows; what settings forbid must end."""
    world.reload(7)
    world.page[StatusField.IN_FLIGHT] = 1
    world.page[StatusField.OLDEST_IN_FLIGHT_MS] = 5_000
    assert not world.owner.outdated()
    world.pass_s(DRAIN_S_MAX)
    assert not world.owner.outdated()
    world.pass_s(1.0)
    assert world.owner.outdated()


# -- custody ------------------------------------------------------------------------------------


class Kept:
    """An owner in custody: alone until it is wanted or its end is set."""

    def __init__(self, *, orphaned=False, error=None, ends=False):
        self.guardians = SimpleNamespace(orphaned=orphaned)
        self.error = error
        self.ends = ends
        self.closed = []

        self.nudged = threading.Event()

    def nudge(self):
        self.nudged.set()

    def alone(self, wanted):
        if self.error is not None:
            raise self.error
        if self.ends:
            return False
        while not wanted():
            self.nudged.wait()
        return True

    def close(self, *, orderly):
        self.closed.append(orderly)


@pytest.fixture
def custody(monkeypatch):
    """That of this process."""
    made = Custody()
    monkeypatch.setattr(_custody, "CUSTODY", made)
    monkeypatch.setattr(_custody, "JVM_END_S", 0.0)
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    return made


def test_the_next_task_gets_the_session_of_the_last_one():
    """The very same, and once."""
    custody, owner = Custody(), Kept()
    assert custody.take() is None
    for _ in range(3):
        custody.put(owner)
        assert custody.keeps
        assert custody.take() is owner
        assert custody.take() is None
    assert owner.closed == []


def test_the_next_task_learns_that_the_session_has_ended():
    """It looks for a partition then."""
    custody = Custody()
    custody.put(Kept(ends=True))
    assert custody.take() is None
    assert not custody.keeps


def test_the_next_task_fails_with_the_session():
    """So that a fresh process follows; the one after it does not fail again."""
    custody = Custody()
    custody.put(Kept(error=StoreError("gone")))
    with pytest.raises(StoreError, match="gone"):
        custody.take()
    assert custody.take() is None


def test_a_session_ends_with_its_process(custody):
    """Spark has ended the process, and its JVM lives."""
    owner = Kept()
    custody.give_up()
    custody.put(owner)
    custody.give_up()
    assert owner.closed == [False]


def test_a_process_lives_as_long_as_a_session_that_outlives_the_jvm():
    """The socket is closed and PySpark's loop has ended; the session ends by itself."""
    custody, owner = Custody(), Kept(orphaned=True, ends=True)
    custody.put(owner)
    custody.give_up()
    assert owner.closed == []


class Files:
    """What PySpark reads and writes."""

    flushed = 0

    def flush(self):
        self.flushed += 1


def test_a_process_whose_session_waits_reads_its_next_task(custody):
    """PySpark's own loop would collect garbage in between, and restore signals."""
    files, owner, tasks = Files(), Kept(), []

    def run_task(infile, outfile):
        assert infile is outfile is files
        assert custody.possible
        tasks.append(custody.take())
        if len(tasks) < 3:
            custody.put(owner)

    serve_tasks(run_task, files, files)
    assert tasks == [None, owner, owner]
    assert files.flushed == 2


def test_a_process_that_is_ended_ends_its_session(custody):
    """As when the JVM closes the socket."""
    owner = Kept()

    def run_task(_infile, _outfile):
        if custody.keeps:
            raise SystemExit(-1)
        custody.put(owner)

    with pytest.raises(SystemExit):
        serve_tasks(run_task, Files(), Files())
    assert owner.closed == [False]


def test_nothing_is_kept_where_spark_does_not_use_workers_again(custody, monkeypatch):
    """Each task has a process of its own then."""
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    serve_tasks(lambda _infile, _outfile: None, Files(), Files())
    assert not custody.possible


def test_counts_are_those_since_the_last_time(world):
    """Also over tasks: the first row of an epoch has what came after the last one of another."""
    assert world.owner.counts() == (0, 0, 0)
    world.session.counted = 110, 9, 4
    world.owner.serve(2)
    assert world.owner.counts() == (10, 4, 1)
    assert world.owner.counts() == (0, 0, 0)
