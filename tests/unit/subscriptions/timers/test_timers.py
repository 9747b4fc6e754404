"""Timers on a virtual clock, over a real store and a log in memory."""

import asyncio
import zlib

import pytest

from distributary.core.errors import StoreError
from distributary.core.event import validate
from distributary.subscriptions.service import Subscriptions
from distributary.subscriptions.store.schedule import Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put
from distributary.subscriptions.timers import SubscriptionTimers
from distributary.subscriptions.timers._timers import NUMBERS_RESERVED, TIMER_EVENTS_MAX
from distributary.testing.virtual import VirtualClock
from kit.memory_routes import MemoryRouteAppender, MemoryTimerEventAppender


class World:
    """A server's control half; ``restart`` begins another process on the same store."""

    def __init__(self, url, rules, runner):
        self.clock = VirtualClock()
        self.routes = MemoryRouteAppender()
        self.timer_events = MemoryTimerEventAppender()
        self.counts = {}
        self.news = True
        self.runner = runner
        self._url, self._rules = url, rules
        self.start()

    def start(self):
        self.store = Store(self._url)
        self.schedule = Schedule(self._url)
        self.service = Subscriptions(
            self.store, self.routes, self._rules, self.clock, retry_wait_s=60.0
        )
        self.timers = SubscriptionTimers(
            self.schedule,
            self.timer_events,
            self.clock,
            partition_count=4,
            count=self._add,
            may_have_news=lambda: self.news,
        )
        self.runner.run(self.service.start())

    def _add(self, name, count):
        self.counts[name] = self.counts.get(name, 0) + count

    def stop(self):
        self.runner.run(self.service.close())
        self.schedule.close()
        self.store.close()

    def restart(self, after_s=0.0, wall_jump_ms=0):
        self.stop()
        self.clock.move_to(self.clock.monotonic_s() + after_s)
        self.clock.jump(wall_jump_ms)
        self.start()

    def put(self, id_, **config):
        types = config.pop("types", None)
        body = {"sink": "http://127.0.0.1/", "protocol": "HTTP", "config": config}
        if types is not None:
            body["types"] = types
        subscription = self.runner.run(self.service.replace(id_, body)).subscription
        self.settle()
        self.turn()
        return subscription.uid

    def delete(self, id_):
        self.runner.run(self.service.delete(id_))
        self.settle()

    def settle(self):
        """The leader notes in a thread that the log has the record: real time, which is short."""

        async def wait():
            async with asyncio.timeout(10):
                while self.store.pending(1):  # noqa: ASYNC110 - there is no event to wait for
                    await asyncio.sleep(0)

        self.runner.run(wait())

    def turn(self):
        return self.runner.run(self.timers.turn())

    def pass_s(self, seconds):
        """Let the time pass as ``SubscriptionTimers.run`` would."""
        until_s = self.clock.monotonic_s() + seconds
        while (wait_s := self.turn()) + self.clock.monotonic_s() <= until_s:
            self.clock.move_to(self.clock.monotonic_s() + wait_s)
        self.clock.move_to(until_s)

    def skipped(self, reason):
        return self.counts.get(f'timer_ticks_skipped_total{{reason="{reason}"}}', 0)


@pytest.fixture
def world(url, local_rules, runner):
    """A server without subscriptions."""
    made = World(url, local_rules, runner)
    yield made
    made.stop()


def numbers(timer_events):
    """Revision and number of each."""
    return [(timer_event.revision, timer_event.number) for timer_event in timer_events]


def test_a_timer_makes_an_event_every_interval(world):
    """The first after one interval; in one partition; numbered from 1."""
    uid = world.put("mine", interval=2, data={"a": 1}, types=["wake", "other"])
    world.pass_s(6.5)
    assert [partition for partition, _ in world.timer_events.timer_events] == [
        zlib.crc32(uid.encode()) % 4
    ] * 3
    assert numbers(world.timer_events.of(uid)) == [(1, 1), (1, 2), (1, 3)]
    assert world.counts == {"timer_ticks_total": 3}


def test_a_timer_event_is_whole(world):
    """Attributes by decision 11; the time is when it fired."""
    uid = world.put("mine", interval=2, data={"a": 1}, types=["wake", "other"])
    world.pass_s(2.1)
    (timer_event,) = world.timer_events.of(uid)
    assert timer_event.event.data == b'{"a":1}'
    assert timer_event.event.attributes == {
        "specversion": "1.0",
        "id": f"{uid}/1/1",
        "source": "/subscriptions/mine",
        "type": "wake",
        "time": "2023-11-14T22:13:22.000Z",
        "datacontenttype": "application/json",
    }
    assert validate(timer_event.event.attributes) == []


def test_without_data_there_is_no_content_type(world):
    """And the type is the key's, or the default."""
    named, plain = world.put("a", interval=1, type="x"), world.put("b", interval=1)
    world.pass_s(1.1)
    (first,), (second,) = world.timer_events.of(named), world.timer_events.of(plain)
    assert (first.event.attributes["type"], first.event.data) == ("x", None)
    assert second.event.attributes["type"] == "dev.distributary.timer"
    assert "datacontenttype" not in first.event.attributes


def test_a_subscription_without_interval_has_no_timer(world):
    """Other settings make no timer events."""
    world.put("mine", start="earliest", maxevents=3)
    world.pass_s(3)
    assert (len(world.timers), world.timer_events.calls) == (0, 0)


def test_timer_events_that_are_due_together_share_an_append(world):
    """A sync serves all of one moment."""
    for n in range(20):
        world.put(f"s{n}", interval=5)
    world.pass_s(5.3)
    assert len(world.timer_events.timer_events) == 20
    assert world.timer_events.calls <= 2


@pytest.mark.slow
def test_more_timer_events_than_one_append_takes_are_all_made(world, spec):
    """None is missed for being in a crowd."""
    count = TIMER_EVENTS_MAX + 50
    puts = [Put(f"s{n}", spec(config={"interval": 5}), f"u{n}") for n in range(count)]
    world.store.apply(puts, world.clock.wall_ms())
    world.store.mark_appended(count)
    world.pass_s(5.5)
    assert len({timer_event.uid for _, timer_event in world.timer_events.timer_events}) == count


def test_numbers_go_on_over_a_restart_and_never_repeat(world):
    """What was reserved and not used is skipped."""
    uid = world.put("mine", interval=1)
    world.pass_s(2.5)
    world.restart()
    world.pass_s(2.0)
    assert [number for _, number in numbers(world.timer_events.of(uid))] == [
        1, 2, NUMBERS_RESERVED + 1, NUMBERS_RESERVED + 2,
    ]  # fmt: skip


def test_numbers_are_given_to_the_newest_change_alone(world):
    """One that went and came back counts anew: an old revision gets none of its numbers."""
    uid = world.put("mine", interval=1)
    (row,) = world.schedule.timer_changes(0).set
    world.put("mine")
    world.put("mine", interval=1)
    assert world.schedule.reserve({uid: row.seq}, 4) == {}
    (row,) = world.schedule.timer_changes(0).set
    assert world.schedule.reserve({uid: row.seq}, 4) == {uid: 5}


def test_the_phase_stays_over_a_restart(world):
    """Created at 0, every 4 s: due at 4, 8, 12..., whenever the process began."""
    uid = world.put("mine", interval=4)
    world.pass_s(5)
    world.restart(after_s=2)
    world.pass_s(1.5)
    assert [made.event.attributes["time"][17:23] for made in world.timer_events.of(uid)] == [
        "24.000", "28.000",
    ]  # fmt: skip


def test_timer_events_of_a_downtime_are_not_made_up(world):
    """One every second, none for an hour, then one every second."""
    uid = world.put("mine", interval=1)
    world.pass_s(1.1)
    world.restart(after_s=3600)
    world.turn()
    assert len(world.timer_events.of(uid)) == 1
    world.pass_s(1.0)
    assert len(world.timer_events.of(uid)) == 2


@pytest.mark.parametrize("jump_ms", [-86_400_000, 86_400_000, -315_360_000_000, 315_360_000_000])
def test_a_jump_of_the_wall_clock_changes_no_phase(world, jump_ms):
    """Timer events come as before; only their stamp follows the wall clock."""
    uid = world.put("mine", interval=2)
    world.pass_s(2.1)
    world.clock.jump(jump_ms)
    world.pass_s(4)
    assert len(world.timer_events.of(uid)) == 3
    assert world.skipped("late") == 0


def test_a_restart_after_the_wall_clock_was_set_back_begins_anew(world):
    """Within one interval, not when the old time comes again."""
    uid = world.put("mine", interval=2)
    world.restart(wall_jump_ms=-86_400_000)
    world.pass_s(2.1)
    assert len(world.timer_events.of(uid)) == 1


def test_a_machine_that_slept_makes_up_for_nothing(world):
    """The loop did not run for a minute: what it missed is counted, the phase stays."""
    uid = world.put("mine", interval=4)
    world.clock.move_to(63.0)
    world.pass_s(0)
    assert (world.timer_events.of(uid), world.skipped("late")) == ([], 15)
    world.pass_s(1.2)
    assert len(world.timer_events.of(uid)) == 1


def test_what_the_log_refuses_is_skipped_and_counted(world):
    """No queue grows, no number is used again, and the phase stays."""
    uid = world.put("mine", interval=1)
    world.timer_events.failing = True
    world.pass_s(3.1)
    world.timer_events.failing = False
    world.pass_s(1.0)
    assert (len(world.timer_events.of(uid)), world.skipped("log")) == (1, 3)
    assert numbers(world.timer_events.of(uid)) == [(1, 4)]


def test_a_full_partition_skips_its_own_timer_events_alone(world):
    """Each body for itself."""
    for n in range(4):
        world.put(f"s{n}", interval=2)
    world.timer_events.refusing, world.timer_events.partial = True, 3
    world.pass_s(2.5)
    assert world.counts["timer_ticks_total"] == 3
    assert world.skipped("log") == 1


def test_a_store_that_cannot_be_read_skips_timer_events(world, monkeypatch):
    """No timer event without a number that is reserved; timers go on afterwards."""
    uid = world.put("mine", interval=1)

    def fail(*_arguments):
        raise StoreError("locked")

    with monkeypatch.context() as patch:
        patch.setattr(world.schedule, "reserve", fail)
        world.pass_s(1.1)
    with monkeypatch.context() as patch:
        patch.setattr(world.schedule, "due", fail)
        patch.setattr(world.schedule, "timer_changes", fail)
        world.pass_s(1.0)
    assert (world.timer_events.of(uid), world.skipped("store")) == ([], 2)
    world.pass_s(1.0)
    assert len(world.timer_events.of(uid)) == 1


def test_after_a_delete_no_timer_event_is_made(world):
    """Whether the timers have heard of it or not."""
    uid = world.put("mine", interval=1)
    world.pass_s(1.1)
    world.delete("mine")
    world.clock.move_to(2.0)
    world.pass_s(3)
    assert len(world.timer_events.of(uid)) == 1
    assert len(world.timers) == 0


def test_a_timer_that_a_change_took_away_stops(world):
    """At its next time: the subscription stays."""
    uid = world.put("mine", interval=2)
    world.put("mine", broker="default")
    world.pass_s(2.5)
    assert world.timer_events.of(uid) == []
    assert len(world.timers) == 0


def test_a_deleted_timer_is_forgotten_before_it_is_due(world):
    """A timer of a year does not stay in memory for a year."""
    world.put("mine", interval=31_536_000)
    world.delete("mine")
    world.turn()
    assert len(world.timers) == 0


def test_a_recreated_subscription_has_a_timer_of_its_own(world):
    """Another uid, another phase, numbers from 1."""
    first = world.put("mine", interval=2)
    world.pass_s(3)
    world.delete("mine")
    second = world.put("mine", interval=2)
    world.pass_s(2.1)
    assert first != second
    assert numbers(world.timer_events.of(second)) == [(1, 1)]


def test_new_data_comes_with_the_new_revision_in_the_old_phase(world):
    """A replace that leaves the interval alone delays nothing and repeats no number."""
    uid = world.put("mine", interval=2, data="old")
    world.pass_s(3)
    world.put("mine", interval=2, data="new")
    world.pass_s(1.5)
    timer_events = world.timer_events.of(uid)
    assert [timer_event.event.data for timer_event in timer_events] == [b'"old"', b'"new"']
    assert numbers(timer_events) == [(1, 1), (2, NUMBERS_RESERVED + 1)]
    assert timer_events[1].event.attributes["id"] == f"{uid}/2/{NUMBERS_RESERVED + 1}"
    assert timer_events[1].event.attributes["time"].endswith("24.000Z")


def test_a_new_interval_begins_a_new_phase(world):
    """The next timer event comes one new interval after the change."""
    uid = world.put("mine", interval=10)
    world.pass_s(3)
    world.put("mine", interval=2)
    world.pass_s(2.1)
    assert [made.event.attributes["time"][17:23] for made in world.timer_events.of(uid)] == [
        "25.000"
    ]


def test_a_timer_that_is_taken_away_and_given_back_never_repeats_a_number(world):
    """The revision tells the numbers apart."""
    uid = world.put("mine", interval=1)
    world.pass_s(2.1)
    world.put("mine")
    world.pass_s(2)
    world.put("mine", interval=1)
    world.pass_s(2.1)
    assert numbers(world.timer_events.of(uid)) == [(1, 1), (1, 2), (3, 1), (3, 2)]


def test_no_timer_event_precedes_its_route_record(world):
    """While the log refuses the record, the timer of a new subscription does not run."""
    world.routes.failing = True
    with pytest.raises(Exception, match="takes effect as soon as the log is back"):
        world.put("mine", interval=1)
    world.pass_s(3)
    assert (len(world.timers), world.timer_events.calls) == (0, 0)
    world.restart()
    world.routes.failing = False
    world.put("other")
    world.pass_s(1.5)
    assert len(world.timer_events.timer_events) == 1


def test_a_replace_on_its_way_into_the_log_holds_the_timer_event_back(world):
    """Neither the old data nor the new: the timer event waits a little, and is missed after it."""
    uid = world.put("mine", interval=2, data="old")
    world.routes.failing = True
    with pytest.raises(Exception, match="takes effect as soon as the log is back"):
        world.put("mine", interval=2, data="new")
    world.pass_s(2.2)
    assert world.timer_events.of(uid) == []
    world.pass_s(1.0)
    assert world.skipped("late") == 1
    world.routes.failing = False
    world.put("other")
    world.pass_s(1.0)
    assert [timer_event.event.data for timer_event in world.timer_events.of(uid)] == [b'"new"']


def test_one_damaged_row_costs_no_other_timer(world, spec):
    """It is reported and counted."""
    world.store.apply([Put("bad", spec(config={"interval": 1}), "bad")], world.clock.wall_ms())
    world.store.mark_appended(1)
    with world.store._writer.changing() as connection:
        connection.exec_driver_sql("UPDATE api_subscription SET spec_json = '{}'")
    well = world.put("well", interval=1)
    world.pass_s(1.1)
    assert (len(world.timer_events.of(well)), world.skipped("damaged")) == (1, 1)


def test_a_store_without_news_is_not_read(world, monkeypatch):
    """Timers that are known fire on; what a failed look has missed is read by the next one."""
    uid = world.put("mine", interval=1)
    reads = []
    read = world.schedule.timer_changes

    def counted(after_seq):
        reads.append(after_seq)
        if len(reads) == 1:
            raise StoreError("locked")
        return read(after_seq)

    monkeypatch.setattr(world.schedule, "timer_changes", counted)
    world.news = False
    world.pass_s(3.1)
    assert (len(world.timer_events.of(uid)), reads) == (3, [])

    world.news = True
    world.turn()
    world.news = False
    world.pass_s(2.0)
    assert (len(world.timer_events.of(uid)), len(reads)) == (5, 2)


def test_run_takes_turns_until_it_is_cancelled(world, monkeypatch):
    """A bug met in one turn does not end the timers."""
    turns = []

    async def turn():
        turns.append(len(turns))
        if len(turns) == 1:
            raise ZeroDivisionError
        if len(turns) == 3:
            raise asyncio.CancelledError
        return 0.0

    monkeypatch.setattr("distributary.core.periodic.AGAIN_S", 0.0)
    monkeypatch.setattr(world.timers, "turn", turn)
    with pytest.raises(asyncio.CancelledError):
        world.runner.run(world.timers.run())
    assert turns == [0, 1, 2]
