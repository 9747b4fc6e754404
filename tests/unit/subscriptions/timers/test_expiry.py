"""Subscriptions that end by themselves, on a virtual clock over a real store."""

import asyncio
from datetime import UTC, datetime

import pytest

from distributary.core.errors import ConflictError, NotFoundError, StoreError
from distributary.subscriptions.service import Subscriptions
from distributary.subscriptions.store.schedule import ENDINGS_MAX, Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put
from distributary.subscriptions.timers import Endings
from distributary.testing.virtual import VirtualClock
from kit.memory_routes import MemoryRouteAppender


class MemoryCounts:
    """Counts that a test sets."""

    def __init__(self):
        self.spent = []
        self.counts = {}
        self.asked = 0

    def used_up(self):
        """Those that the test named."""
        self.asked += 1
        if self.spent is None:
            raise StoreError("locked")
        return self.spent

    def delivered(self, uid):
        """As many as the test said, else more than anybody may."""
        return self.counts.get(uid, 10**9)


class World:
    """A control half with a clock, a log and counts that the test moves."""

    def __init__(self, url, rules, runner):
        self.clock = VirtualClock()
        self.log = MemoryRouteAppender()
        self.counts = MemoryCounts()
        self.metrics = {}
        self.news = True
        self.runner = runner
        self.store = Store(url)
        self.schedule = Schedule(url)
        self.service = Subscriptions(self.store, self.log, rules, self.clock, retry_wait_s=60.0)
        self.endings = Endings(
            self.schedule,
            self.service,
            self.clock,
            counts=self.counts,
            count=self._add,
            may_have_news=lambda: self.news,
        )

    def _add(self, name, count):
        self.metrics[name] = self.metrics.get(name, 0) + count

    def start(self):
        self.runner.run(self.service.start())

    def body(self, expires_in_s=None, **config):
        if expires_in_s is not None:
            at_s = self.clock.wall_ms() / 1000 + expires_in_s
            config["expires"] = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
        return {"sink": "http://127.0.0.1/", "protocol": "HTTP", "config": config}

    def put(self, id_, **config):
        return self.runner.run(self.service.replace(id_, self.body(**config))).subscription

    def stands(self, id_):
        try:
            self.runner.run(self.service.retrieve(id_))
        except NotFoundError:
            return False
        return True

    def turn(self):
        return self.runner.run(self.endings.turn())

    def pass_s(self, seconds):
        """Let the time pass as ``Endings.run`` would."""
        until_s = self.clock.monotonic_s() + seconds
        while (wait_s := self.turn()) + self.clock.monotonic_s() <= until_s:
            self.clock.move_to(self.clock.monotonic_s() + wait_s)
        self.clock.move_to(until_s)

    def ended(self, reason):
        return self.metrics.get(f'subscriptions_ended_total{{reason="{reason}"}}', 0)


@pytest.fixture
def unstarted(url, local_rules, runner):
    """A server whose leader does not run yet."""
    made = World(url, local_rules, runner)
    yield made
    runner.run(made.service.close())
    made.schedule.close()
    made.store.close()


@pytest.fixture
def world(unstarted):
    """A server that takes changes."""
    unstarted.start()
    return unstarted


def test_stores_without_news_are_read_when_a_subscription_expires(world, monkeypatch):
    """Its time is known since the last look."""
    world.put("mine", expires_in_s=5.5)
    world.turn()
    world.news = False
    reads = []
    expired = world.schedule.expired
    monkeypatch.setattr(
        world.schedule, "expired", lambda now_ms: reads.append(now_ms) or expired(now_ms)
    )
    world.pass_s(5.4)
    assert world.stands("mine")
    assert not reads
    world.pass_s(0.2)
    assert not world.stands("mine")


def test_a_subscription_ends_at_its_time(world):
    """Not before; by a route record in every partition."""
    world.put("mine", expires_in_s=5.5)
    world.pass_s(5.4)
    assert world.stands("mine")
    world.pass_s(0.2)
    assert not world.stands("mine")
    assert [record.op for record in world.log.applied(1)] == ["put", "delete"]
    assert world.ended("expired") == 1


def test_others_are_left_alone(world):
    """Those without an end, and those whose end is to come."""
    world.put("never")
    world.put("later", expires_in_s=100)
    world.put("soon", expires_in_s=1)
    world.pass_s(2)
    assert [world.stands(id_) for id_ in ("never", "later", "soon")] == [True, True, False]


@pytest.mark.parametrize("config", [{"expires_in_s": 100}, {}], ids=["later", "never"])
def test_a_replaced_end_is_honoured(world, config):
    """What stood before is forgotten."""
    world.put("mine", expires_in_s=2)
    world.put("mine", **config)
    world.pass_s(5)
    assert world.stands("mine")


def test_an_end_may_be_set_and_drawn_nearer(world):
    """By a replace."""
    world.put("mine")
    world.put("mine", expires_in_s=100)
    world.put("mine", expires_in_s=1)
    world.pass_s(1.1)
    assert not world.stands("mine")


def test_one_replaced_between_the_look_and_the_change_stays(world):
    """The decision belongs to the revision that was seen."""
    world.put("mine", expires_in_s=1)
    world.clock.move_to(2.0)
    (seen,) = world.schedule.expired(world.clock.wall_ms())
    world.put("mine", expires_in_s=100)
    world.runner.run(world.endings._end([seen], "expired"))
    assert world.stands("mine")
    assert world.ended("expired") == 0


def test_one_deleted_between_the_look_and_the_change_is_no_matter(world):
    """Somebody else was first; a recreated one is another."""
    world.put("mine", expires_in_s=1)
    world.clock.move_to(2.0)
    (seen,) = world.schedule.expired(world.clock.wall_ms())
    world.runner.run(world.service.delete("mine"))
    world.runner.run(world.endings._end([seen], "expired"))
    world.put("mine")
    world.runner.run(world.endings._end([seen], "expired"))
    assert world.stands("mine")


@pytest.mark.parametrize(
    ("jump_ms", "stands"), [(7_200_000, False), (-7_200_000, True)], ids=["forward", "back"]
)
def test_the_wall_clock_decides_within_a_second(world, jump_ms, stands):
    """It may jump; the next look is never far away."""
    world.put("mine", expires_in_s=3600)
    assert world.turn() <= 1.0
    world.clock.jump(jump_ms)
    world.pass_s(1.1)
    assert world.stands("mine") == stands


def test_while_the_log_refuses_the_end_waits(world):
    """It is looked for again, without hurry, and made as soon as the log is back."""
    world.put("mine", expires_in_s=1)
    world.put("other", expires_in_s=1)
    world.log.failing = True
    world.clock.move_to(2.0)
    assert world.turn() <= 1.0  # both stored, none in the log
    assert world.ended("expired") == 2
    assert world.turn() <= 1.0
    world.log.failing = False
    world.put("third")
    assert [record.op for record in world.log.applied(0)] == [
        "put", "put", "delete", "delete", "put",
    ]  # fmt: skip


def test_a_leader_that_is_behind_is_asked_again(world):
    """Nothing is stored while older changes wait; one line says so."""
    world.put("mine", expires_in_s=1)
    world.log.failing = True
    with pytest.raises(Exception, match="takes effect as soon as the log is back"):
        world.put("other")
    world.clock.move_to(2.0)
    assert world.turn() == 1.0
    assert world.stands("mine")
    world.log.failing = False
    world.turn()
    assert not world.stands("mine")


@pytest.mark.slow
def test_a_crowd_ends_in_batches_without_a_wait(world, spec):
    """More than one batch at the same moment."""
    count = ENDINGS_MAX + 10
    soon = {"expires": "2100-01-01T00:00:00Z"}
    puts = [Put(f"s{n}", spec(config=soon), f"u{n}") for n in range(count)]
    world.store.apply(puts, world.clock.wall_ms())
    world.store.mark_appended(count)
    world.clock.jump(4_102_444_800_000)
    assert world.turn() == 0.0
    world.turn()
    assert world.ended("expired") == count
    assert world.store.live_count() == 0


def test_what_expired_in_a_downtime_ends_before_anything_starts(unstarted, spec):
    """In the store at once; its route record goes first when the leader starts."""
    world = unstarted
    world.store.apply([Put("mine", spec(config={"expires": "2100-01-01T00:00:00Z"}), "u")], 0)
    world.clock.jump(4_102_444_800_000)
    world.endings.end_before_start(world.store)
    assert not world.stands("mine")
    assert world.log.calls == 0
    world.start()
    assert [record.op for record in world.log.applied(0)] == ["put", "delete"]
    assert world.ended("expired") == 1


def test_a_start_leaves_to_another_writer_what_that_changes(unstarted, spec, monkeypatch):
    """It does not look for the same ones for ever."""
    world = unstarted
    world.store.apply([Put("mine", spec(config={"expires": "2100-01-01T00:00:00Z"}), "u")], 0)
    world.clock.jump(4_102_444_800_000)
    asked = []

    def lost(changes, _now_ms):
        assert not asked
        asked.extend(changes)
        return [ConflictError("another revision")]

    monkeypatch.setattr(world.store, "apply", lost)
    world.endings.end_before_start(world.store)
    assert [change.id for change in asked] == ["mine"]


def test_a_subscription_ends_when_its_deliveries_are_used_up(world):
    """Whoever counts says so."""
    mine, other = world.put("mine", maxevents=3), world.put("other", maxevents=3)
    world.turn()
    assert world.stands("mine")
    world.counts.spent = [mine.uid, "of somebody who is gone"]
    world.pass_s(1.0)
    assert (world.stands("mine"), world.stands("other")) == (False, True)
    assert (world.ended("used-up"), world.ended("expired")) == (1, 0)
    assert other.revision == 1


def test_counts_are_asked_only_where_somebody_has_a_maximum(world):
    """Their file may not be there."""
    world.put("mine", expires_in_s=100)
    world.turn()
    assert world.counts.asked == 0


def test_a_maximum_that_was_taken_away_ends_nothing(world):
    """The count is of a limit that stands no more."""
    mine = world.put("mine", maxevents=3)
    world.put("other", maxevents=3)
    world.put("mine")
    world.counts.spent = [mine.uid]
    world.turn()
    assert world.stands("mine")


def test_a_maximum_that_was_raised_goes_on(world):
    """The count is of the old limit; the newest revision decides."""
    mine = world.put("mine", maxevents=3)
    world.put("mine", maxevents=4)
    world.counts.spent, world.counts.counts = [mine.uid], {mine.uid: 3}
    world.turn()
    assert world.stands("mine")
    world.counts.counts[mine.uid] = 4
    world.turn()
    assert not world.stands("mine")


@pytest.mark.slow
def test_any_number_may_be_used_up_at_once(world, spec):
    """One turn ends them all, in batches; uids of nobody hide none."""
    count = ENDINGS_MAX + 10
    puts = [Put(f"s{n}", spec(config={"maxevents": 1}), f"u{n}") for n in range(count)]
    world.store.apply(puts, world.clock.wall_ms())
    world.store.mark_appended(count)
    world.counts.spent = [f"gone{n}" for n in range(6_000)] + [f"u{n}" for n in range(count)]
    world.turn()
    assert world.ended("used-up") == count


def test_counts_that_cannot_be_read_hold_up_no_expiry(world):
    """The next look tries again."""
    world.put("soon", expires_in_s=1)
    world.put("mine", maxevents=3)
    world.counts.spent = None
    world.clock.move_to(1.5)
    assert world.turn() == 1.0
    assert not world.stands("soon")


def test_run_ends_what_is_due(world):
    """The loop is the turns."""
    world.put("mine", expires_in_s=1)
    world.clock.move_to(2.0)

    async def run():
        task = asyncio.create_task(world.endings.run())
        async with asyncio.timeout(10):
            while not world.ended("expired"):  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.runner.run(run())
    assert not world.stands("mine")


def test_a_start_in_the_past_stands_on_the_change_that_creates(world):
    """A replace that repeats it replays nothing; a recreated one begins there again."""
    world.put("mine", start="earliest")
    world.put("mine", start="earliest")
    world.runner.run(world.service.delete("mine"))
    world.put("mine", start="2020-01-01T00:00:00Z")
    assert [record.begin_ms for record in world.log.applied(0)] == [0, None, None, 1577836800000]
