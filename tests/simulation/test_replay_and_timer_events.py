"""Routes that begin in the past, and events that timers make: each rule broken on purpose."""

import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import RecordKind
from distributary.core.policy import DeliveryPolicy
from distributary.datadir import StatusField
from kit.simulation.partition import answers, hangs
from kit.simulation.ports import TargetsView

A, B = "http://a.example/", "http://b.example/"


def arrivals(partition, uri):
    """Ids of the events that were sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


def publish(partition, count, type_="t"):
    """So many records of one event; their ids."""
    return [event for _ in range(count) for event in partition.publish(type_)]


# -- replay -------------------------------------------------------------------------------------


def test_a_route_from_the_beginning_gets_all_of_history_and_then_what_comes(partition):
    """Every event once, the old ones first, while publishing goes on."""
    partition.put_route("other", B)
    partition.start()
    events = publish(partition, 60)
    partition.advance(1.0)
    partition.put_route("r", A, begin_ms=0)
    for _ in range(40):
        events += publish(partition, 1)
        partition.advance(0.003)
    partition.rest()
    assert sorted(arrivals(partition, A), key=lambda event: int(event[1:])) == events
    assert arrivals(partition, A)[:10] == events[:10]
    assert arrivals(partition, B) == events  # nobody else sees history again


def test_a_route_from_a_time_begins_with_the_first_event_of_that_time(partition):
    """A record that was appended in that very millisecond is history's first."""
    partition.start()
    publish(partition, 5)
    partition.advance(10.0)
    begin_ms = partition.clock.wall_ms()
    events = publish(partition, 5)
    partition.advance(10.0)
    partition.put_route("r", A, begin_ms=begin_ms)
    partition.rest()
    assert sorted(arrivals(partition, A)) == sorted(events)


def test_history_is_judged_by_the_filters_of_the_creating_record(partition):
    """A later revision of the filters counts from its own place on."""
    partition.start()
    old = publish(partition, 3, "a") + publish(partition, 3, "b")
    partition.put_route("r", A, types=["a"], begin_ms=0)
    partition.put_route("r", A, types=["b"], begin_ms=0)
    new = publish(partition, 3, "a") + publish(partition, 3, "b")
    partition.rest()
    assert sorted(arrivals(partition, A)) == sorted(old[:3] + new[3:])


@pytest.mark.parametrize("ahead_ms", [0, 5_000])
def test_a_time_that_has_not_come_begins_live(partition, ahead_ms):
    """Clocks differ: nothing is replayed, nothing that comes is left out."""
    partition.start()
    publish(partition, 5)
    partition.advance(1.0)
    partition.put_route("r", A, begin_ms=partition.clock.wall_ms() + ahead_ms)
    events = publish(partition, 3)
    partition.advance(1.0)
    assert arrivals(partition, A) == events
    assert not partition.store.kept_backfills
    partition.rest()


def test_a_clock_that_was_set_back_moves_no_beginning(partition):
    """Record times never decrease: what came behind the jump is as young as what came before."""
    partition.start()
    publish(partition, 2)
    partition.advance(5.0)
    begin_ms = partition.clock.wall_ms()
    events = publish(partition, 2)
    partition.clock.jump(-3_600_000)
    events += publish(partition, 2)
    partition.put_route("r", A, begin_ms=begin_ms)
    partition.rest()
    assert sorted(arrivals(partition, A)) == sorted(events)


def test_history_that_is_deleted_is_begun_where_it_begins_now(partition):
    """A time older than retention is the oldest record that is kept."""
    partition.put_route("other", B)
    partition.start()
    publish(partition, 20)
    partition.advance(5.0)
    partition.retain()
    assert partition.log.start() > 0
    kept = publish(partition, 5)
    partition.put_route("r", A, begin_ms=1)
    partition.rest()
    assert set(kept) <= set(arrivals(partition, A))
    assert len(arrivals(partition, A)) < 25


def test_retention_waits_for_a_replay_from_the_moment_it_begins(partition):
    """The status page says so before anything else happens."""
    partition.put_route("other", B)
    partition.start()
    events = publish(partition, 20)
    partition.advance(5.0)
    assert partition.status_page[StatusField.KEEP_FROM] > 15
    partition.sinks[A] = hangs
    partition.put_route("r", A, begin_ms=0)
    partition.advance(0.02)
    assert partition.status_page[StatusField.KEEP_FROM] == 0
    for _ in range(20):
        partition.advance(0.2)
        partition.retain()
    partition.rest()
    assert set(events) <= set(arrivals(partition, A))


def test_a_replay_survives_a_crash_wherever_it_stands(make_partition):
    """Before its row is durable, while it reads, when it has ended: nothing lost or begun anew."""
    partition = make_partition(seed=5)
    partition.put_route("blocked", B, types=["b"], policy=DeliveryPolicy(timeout_s=500.0))
    partition.sinks[B] = hangs
    partition.start()
    events = publish(partition, 20, "t")
    partition.publish("b")  # It holds the cursor: every life meets the creating record again.
    policy = DeliveryPolicy(retry=9, timeout_s=0.5)
    partition.put_route("r", A, types=["t"], begin_ms=0, policy=policy)
    for number in range(60):
        partition.advance(0.002 + 0.004 * number)
        partition.crash()
        partition.start()
    assert partition.cursor <= 22
    assert not [
        backfill
        for backfill in partition.store.kept_backfills.values()
        if backfill.to_offset is None
    ]
    before = len(partition.sends)
    partition.crash()
    partition.start()
    partition.advance(5.0)
    assert "r" not in {fate.route for fate in partition.checker._open.values()}
    assert not [event for _, event, uri in partition.sends[before:] if uri == A]
    assert set(arrivals(partition, A)) == set(events)
    partition.rest()


def test_a_replay_that_is_ahead_of_a_restart_joins_behind_its_creation(partition):
    """The cursor was held back: the live reader has not met the route, and may not have it yet."""
    partition.put_route("blocked", B, types=["b"], policy=DeliveryPolicy(timeout_s=500.0))
    partition.sinks[B] = hangs
    partition.sinks[A] = answers(after_s=0.1)
    partition.start()
    events = publish(partition, 5)
    partition.publish("b")
    events += publish(partition, 60)
    partition.put_route("r", A, types=["t"], begin_ms=0)
    partition.advance(0.5)
    (backfill,) = partition.store.kept_backfills.values()
    assert partition.cursor < backfill.from_offset < 60
    partition.crash()
    partition.start()
    partition.rest()
    assert set(arrivals(partition, A)) == set(events)
    assert [name for name, _ in partition.reports].count("route-replays") == 1


def test_the_row_of_a_replay_that_has_ended_goes_once_the_cursor_has_passed(partition):
    """It is kept as long as a restart could meet the creating record, and no longer."""
    partition.put_route("blocked", B, types=["b"], policy=DeliveryPolicy(timeout_s=500.0))
    partition.sinks[B] = hangs
    partition.start()
    publish(partition, 5)
    partition.publish("b")
    partition.put_route("r", A, begin_ms=0)
    partition.advance(2.0)
    (row,) = partition.store.kept_backfills.values()
    assert row.from_offset == row.to_offset
    assert partition.status_page[StatusField.BACKFILLING] == 0
    partition.rest()
    assert not partition.store.kept_backfills


def test_a_route_that_is_deleted_while_it_is_replayed_stops(partition):
    """What was not delivered is dropped, and said; nothing of it comes back after a crash."""
    partition.start()
    publish(partition, 50)
    partition.sinks[A] = answers(after_s=0.5)
    partition.put_route("r", A, begin_ms=0)
    partition.advance(1.0)
    partition.delete_route("r")
    partition.advance(1.0)
    sent = len(arrivals(partition, A))
    assert 0 < sent < 50
    partition.crash()
    partition.start()
    partition.rest()
    assert len(arrivals(partition, A)) == sent
    assert ("dropped", "r") in [(name, fields.get("route")) for name, fields in partition.reports]


def test_an_owner_that_comes_late_replays_nothing_for_a_deleted_route(partition):
    """Created and deleted while nobody read: the history is reported as dropped."""
    publish(partition, 5)
    partition.put_route("r", A, begin_ms=0)
    publish(partition, 5)
    partition.delete_route("r")
    partition.start()
    partition.rest()
    assert not partition.sends
    ranges = [fields for name, fields in partition.reports if name == "dropped" and "to" in fields]
    history = [fields for fields in ranges if "count" not in fields]
    assert [(fields["from"], fields["to"]) for fields in history] == [(0, 5)]


def test_a_recreated_route_is_replayed_anew(partition):
    """Its uid is another, so history is not done for it."""
    partition.start()
    events = publish(partition, 5)
    partition.put_route("r", A, begin_ms=0)
    partition.advance(1.0)
    partition.delete_route("r")
    partition.put_route("r-again", B, begin_ms=0)
    partition.rest()
    assert sorted(arrivals(partition, A)) == sorted(arrivals(partition, B)) == events


def test_a_change_that_is_rolled_forward_twice_replays_once(partition):
    """The record stands twice in the log; the second one changes nothing."""
    partition.start()
    events = publish(partition, 5)
    partition.put_route("r", A, begin_ms=0)
    (change,) = partition.log.kinds(0, 100, RecordKind.ROUTE)
    partition.advance(1.0)
    partition.log.append([(RecordKind.ROUTE, change.body)])
    partition.rest()
    assert sorted(arrivals(partition, A)) == events


def test_a_creating_record_that_was_lost_begins_in_the_past_all_the_same(partition):
    """It is restored from the store, where the hole ends."""
    partition.start()
    events = publish(partition, 5)
    partition.put_route("r", A, begin_ms=0)
    partition.log.damage(5)
    events += publish(partition, 5)
    partition.rest()
    assert sorted(arrivals(partition, A), key=lambda event: int(event[1:])) == events


def test_many_replays_at_once_leave_the_live_path_alone(make_partition):
    """Forty routes from the beginning: events for another route do not wait for them."""
    partition = make_partition(seed=1)
    partition.put_route("live", B, types=["live"])
    partition.start()
    publish(partition, 50)
    for number in range(40):
        partition.put_route(f"r{number}", f"http://s{number}.example/", types=["t"], begin_ms=0)
    partition.advance(0.5)
    before = partition.clock.monotonic_s()
    (event,) = partition.publish("live")
    partition.advance(0.1)
    ((at_s, _, _),) = [send for send in partition.sends if send[1] == event]
    assert at_s - before < 0.05
    partition.rest()
    assert len(partition.sends) == 40 * 50 + 1


# -- timer events -------------------------------------------------------------------------------


def test_a_timer_event_goes_to_its_own_route_alone(partition):
    """Others match it, and never see it."""
    partition.put_route("r", A)
    partition.put_route("other", B)
    partition.start()
    timer_event = partition.timer_event("r", "t")
    partition.rest()
    assert arrivals(partition, A) == [timer_event]
    assert arrivals(partition, B) == []


def test_the_filters_of_the_route_apply_to_its_timer_events(partition):
    """Those that stand at the timer event's place, also while the route is backfilled."""
    partition.put_route("r", A, types=["a"])
    partition.start()
    timer_events = [partition.timer_event("r", "a"), partition.timer_event("r", "b")]
    partition.put_route("r", A, types=["b"])
    timer_events += [partition.timer_event("r", "a"), partition.timer_event("r", "b")]
    partition.rest()
    assert arrivals(partition, A) == [timer_events[0], timer_events[3]]


def test_a_timer_event_of_a_deleted_route_is_dropped_and_counted(partition):
    """It was on its way when its subscription went."""
    partition.put_route("r", A)
    partition.start()
    partition.delete_route("r")
    partition.timer_event("r", "t")
    partition.advance(1.0)
    assert ("tick-dropped", "route-deleted") in [
        (name, fields.get("reason")) for name, fields in partition.reports
    ]
    assert not partition.sends
    partition.rest()


def test_timer_events_wait_and_are_retried_like_events(partition):
    """A backfill reads them again, a row loads its own from the log, a dead letter holds it."""
    policy = DeliveryPolicy(retry=2, backoff_delay_s=0.1, timeout_s=0.5)
    partition.put_route("r", A, dead_letter=B, policy=policy)
    partition.sinks[A] = hangs
    partition.start()
    timer_events = [partition.timer_event("r", "t") for _ in range(30)]
    partition.advance(1.0)
    assert partition.store.kept_backfills
    assert partition.store.kept_rows
    partition.crash()
    partition.start()
    partition.sinks[A] = answers(400)
    partition.advance(60.0)
    assert set(arrivals(partition, B)) == set(timer_events)
    partition.rest()


def test_a_timer_event_that_cannot_be_read_is_said_and_passed(partition):
    """As an event that cannot be read."""
    partition.put_route("r", A)
    partition.start()
    partition.log.append([(RecordKind.TIMER_EVENT, b"not a tick")])
    (event,) = partition.publish("t")
    partition.rest()
    assert arrivals(partition, A) == [event]
    assert "undecodable-record" in [name for name, _ in partition.warnings]


# -- the store of resources ---------------------------------------------------------------------


def test_a_look_at_resources_that_fails_stops_nothing(partition, monkeypatch):
    """What was known stays; the failure and its end are said once each."""
    partition.put_route("r", A)
    partition.start()
    publish(partition, 2)
    partition.advance(1.0)

    def broken(_self):
        raise StoreError("the store is locked")

    with monkeypatch.context() as patched:
        patched.setattr(TargetsView, "read", broken)
        partition.put_route("s", B)
        publish(partition, 2)
        partition.advance(2.0)
    partition.advance(1.0)
    partition.rest()
    assert not partition.failures
    assert len(arrivals(partition, A)) == 4
    assert len(arrivals(partition, B)) == 2
    names = [name for name, _ in partition.warnings + partition.reports]
    assert names.count("resources-unreadable") == names.count("resources-readable") == 1


def test_a_retry_waits_for_a_resource_that_is_not_read_yet(partition, monkeypatch):
    """A store that has gone back knows it later: until then it is no deleted route."""
    partition.put_route("r", A, policy=DeliveryPolicy(retry=9, backoff_delay_s=5.0))
    partition.sinks[A] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    with monkeypatch.context() as patched:
        patched.setattr(TargetsView, "get", lambda _self, _route: None)
        patched.setattr(TargetsView, "sees", lambda _self, _seq: False)
        partition.advance(100.0)
    partition.sinks.clear()
    partition.advance(100.0)
    partition.rest()
    assert arrivals(partition, A)[-1] == event
    assert [fate.final for fate in partition.checker.fates()] == ["delivered"]
