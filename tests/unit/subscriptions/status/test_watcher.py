"""Transitions of subscriptions: what is told, logged, and disabled."""

import pytest

from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.errors import StoreError
from distributary.core.outcome import Tally
from distributary.subscriptions.status import TransitionKind
from distributary.subscriptions.status._lines import LINES_MAX
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.steering import Steering

SINCE_MS = 1_699_999_000_000


def failing(count=3, since_ms=SINCE_MS, last_ms=None, **numbers):
    """A tally of a route that fails."""
    return Tally(
        failed=count,
        failing_since_ms=since_ms,
        failing_last_ms=since_ms + 5 if last_ms is None else last_ms,
        failing_count=count,
        failing_reason="status-503",
        **numbers,
    )


def test_a_route_that_begins_to_fail_and_recovers_is_told_once_each(world):
    """However often it fails in between."""
    world.put("a", Tally(delivered=1))
    assert world.look() == []
    world.put("a", failing())
    assert world.look() == [("failing", "id-a")]
    world.put("a", failing(9))
    assert world.look() == []
    world.put("a", Tally(delivered=2, success_ms=SINCE_MS + 60_000))
    assert world.look() == [("recovered", "id-a")]
    assert [(one.kind, one.since_ms, one.begun) for one in world.told] == [
        (TransitionKind.FAILING, SINCE_MS, True),
        (TransitionKind.RECOVERED, SINCE_MS, True),
    ]


def test_a_route_fails_while_one_partition_does(world):
    """Another partition may have nothing for it."""
    world.put("a", failing(), partition=0)
    world.put("a", failing(since_ms=SINCE_MS - 1000, last_ms=SINCE_MS + 5), partition=1)
    assert world.look() == [("failing", "id-a")]
    assert world.told[0].since_ms == SINCE_MS - 1000
    world.put("a", Tally(success_ms=SINCE_MS + 1), partition=0)
    assert world.look() == []
    world.put("a", Tally(success_ms=SINCE_MS + 6), partition=1)
    assert world.look() == [("recovered", "id-a")]


def test_a_delivery_in_another_partition_ends_it(world):
    """The partition that failed may get no event for weeks; it is the same sink."""
    world.put("a", failing(1))
    assert world.look() == [("failing", "id-a")]
    world.put("a", Tally(delivered=1, success_ms=SINCE_MS + 60_000), partition=1)
    assert world.look() == [("recovered", "id-a")]
    standings = world.watcher.standings
    assert (world.watcher.failing(), standings.unrest, standings.over()) == ({}, {}, {"a"})
    assert not standings.of("a").failing
    # One more failure is one after a delivery, as in a single partition.
    world.put("a", failing(2, last_ms=SINCE_MS + 70_000))
    assert world.look() == []
    world.put("a", failing(4, last_ms=SINCE_MS + 71_000))
    assert world.look() == [("failing", "id-a")]
    tally = standings.of("a").tally
    assert (tally.failing_count, tally.failing_since_ms) == (3, SINCE_MS + 60_001)
    assert standings.over() == frozenset()
    world.put("a", Tally(delivered=1, success_ms=SINCE_MS + 80_000))
    assert world.look() == [("recovered", "id-a")]
    world.tallies[0].put({}, gone=["a"])
    world.tallies[1].put({}, gone=["a"])
    world.look()
    assert standings.over() == frozenset()


def test_a_breaker_that_is_still_open_does_not_end_a_recovery(world):
    """Its partition counts no attempt, and learns within a minute that its sink is back."""
    world.put("a", failing())
    world.look()
    success_ms = SINCE_MS + 60_000
    world.put("a", Tally(delivered=1, success_ms=success_ms), partition=1)
    assert world.look() == [("recovered", "id-a")]
    world.put("a", failing(last_ms=success_ms + 20_000))
    assert world.look() == []
    world.put("a", failing(last_ms=success_ms + 60_001))
    assert world.look() == [("failing", "id-a")]


def test_what_ends_without_a_delivery_has_recovered_with_the_next_one(world):
    """As after a pause, which begins the count anew."""
    world.put("a", failing(1))
    world.look()
    world.put("a", Tally(dead_lettered=1))
    assert world.look() == []
    assert world.watcher.failing() == {}
    world.put("a", Tally(dead_lettered=1, delivered=1, success_ms=SINCE_MS + 86_400_000))
    assert world.look() == [("recovered", "id-a")]
    world.put("a", Tally(dead_lettered=1, delivered=2, success_ms=SINCE_MS + 86_400_009))
    assert world.look() == []


def test_a_deleted_route_is_told_nothing_of(world):
    """Its end is another's to tell."""
    world.put("a", failing())
    world.look()
    world.tallies[0].put({}, gone=["a"])
    assert world.look() == []
    assert (world.watcher.failing(), world.watcher.name("a")) == ({}, None)


def test_what_waits_for_consent_does_not_fail(world):
    """It is asked for, and nothing was refused."""
    tally = failing()
    tally.failing_reason = AWAITS_CONSENT
    world.put("a", tally)
    assert world.look() == []


def test_what_fails_already_at_the_first_look_is_told_as_old(world):
    """After a restart: who was told of it knows by the time since when."""
    world.put("a", failing())
    world.watch()
    assert world.look() == [("failing", "id-a")]
    assert [one.begun for one in world.told] == [False]


def test_a_pause_and_a_disabling_are_told_with_who_and_why(world):
    """Whoever asked for them, by whichever way."""
    world.put("a", Tally(delivered=1))
    world.look()
    world.store.steering["a"] = Steering("a", paused_ms=5, paused_by="ann")
    assert world.look() == [("paused", "id-a")]
    world.store.steering["a"] = Steering(
        "a", paused_ms=5, paused_by="ann", disabled_ms=6, disabled_by="bob", disabled_reason="moved"
    )
    assert world.look() == [("disabled", "id-a")]
    assert world.told[-1][3:6] == (6, "moved", "bob")
    world.store.steering.clear()
    assert sorted(world.look()) == [("enabled", "id-a"), ("resumed", "id-a")]


@pytest.mark.parametrize("delivered", [False, True], ids=["nothing-yet", "delivered"])
def test_what_is_deleted_while_it_is_paused_is_gone(world, delivered):
    """Also before its first outcome; nobody has resumed it."""
    world.put("a", Tally(delivered=1))
    if not delivered:
        world.tallies[0].put({}, gone=["a"])
    world.look()
    world.store.steering["a"] = Steering("a", paused_ms=5, paused_by="ann")
    assert world.look() == [("paused", "id-a")]
    del world.store.steering["a"], world.store.names["a"]
    assert world.look() == []
    assert (world.watcher.halted(), world.watcher.name("a")) == ({}, None)


def test_what_has_failed_for_too_long_is_disabled(world):
    """With the reason, and told at the next look."""
    world.watch(disable_after_s=3600)
    since_ms = world.clock.wall_ms() - 3_500_000
    world.put("a", failing(since_ms=since_ms))
    world.look()
    assert world.store.steering == {}
    world.timers.advance(199.0)
    world.put("a", failing(since_ms=since_ms, last_ms=world.clock.wall_ms()))
    world.look()
    assert world.store.steering["a"].disabled_reason == "failing for 3701 s: status-503"
    assert world.look() == [("disabled", "id-a")]
    assert world.watcher.failing() == {}
    assert [event for event, _ in world.lines.lines].count("subscription-disabled") == 1


@pytest.mark.parametrize(
    ("failures", "last_ago_s", "success_ago_s"),
    [
        pytest.param(1, 3, None, id="one-final-failure"),
        pytest.param(3, 61, None, id="nothing-was-sent-lately"),
        pytest.param(900, 3, 1200, id="another-partition-delivers"),
    ],
)
def test_what_does_not_fail_all_the_time_is_not_disabled(
    world, failures, last_ago_s, success_ago_s
):
    """However long ago the first failure was."""
    world.watch(disable_after_s=3600)
    now_ms = world.clock.wall_ms()
    last_ms = now_ms - last_ago_s * 1000
    world.put("a", failing(failures, now_ms - 90_000_000, last_ms))
    if success_ago_s is not None:
        world.put("a", Tally(success_ms=now_ms - success_ago_s * 1000), partition=1)
    world.look()
    assert (list(world.watcher.failing()), world.store.steering) == (["a"], {})
    now_ms = world.clock.wall_ms()
    world.put("a", failing(max(failures, 3), now_ms - 90_000_000, now_ms))
    if success_ago_s is None:
        world.look()
        assert list(world.store.steering) == ["a"]


def test_what_is_enabled_again_has_a_moment_to_begin_anew(world):
    """Its owner still shows the old failure for a second."""
    world.watch(disable_after_s=3600)
    now_ms = world.clock.wall_ms()
    world.put("a", failing(since_ms=now_ms - 4_000_000, last_ms=now_ms))
    world.look()
    world.look()
    world.store.steering.clear()
    assert ("enabled", "id-a") in world.look()
    world.look()
    assert world.store.steering == {}


def test_nothing_is_disabled_unless_the_operator_says_when(world):
    """Off by default."""
    world.put("a", failing(since_ms=1))
    world.look()
    world.look(1e7)
    assert world.store.steering == {}


def test_one_line_a_minute_while_deliveries_fail_and_one_when_they_recover(world):
    """By id and namespace; the sink without its query."""
    world.put("a", failing())
    for _ in range(150):
        world.look()
    world.put("a", Tally(success_ms=SINCE_MS + 9))
    world.look()
    assert [event for event, _ in world.lines.lines] == [
        *["deliveries-fail"] * 3,
        "deliveries-recovered",
    ]
    first = world.lines.lines[0][1]
    assert first == {
        "subscription": "id-a",
        "namespace": "default",
        "sink": "http://sink/a",
        "reason": "status-503",
        "count": 3,
        "since_ms": SINCE_MS,
    }


def test_many_failing_routes_are_some_lines_and_a_number(world):
    """A thousand subscriptions of one dead sink."""
    for number in range(1000):
        world.put(f"r{number}", failing())
    for _ in range(30):
        world.look()
    single = [fields for _, fields in world.lines.lines if "subscription" in fields]
    (summed,) = [fields for _, fields in world.lines.lines if "more" in fields]
    assert len(single) == LINES_MAX
    assert summed == {"more": 1000 - LINES_MAX}


def test_many_recovered_routes_are_some_lines_and_a_number(world):
    """None of them is passed in silence when the dead sink comes back."""
    for number in range(100):
        world.put(f"r{number}", failing())
    world.look()
    world.timers.advance(60.0)
    for number in range(100):
        world.put(f"r{number}", Tally(delivered=1, success_ms=SINCE_MS + 60_000))
    for _ in range(70):
        world.look()
    told = [fields for event, fields in world.lines.lines if event == "deliveries-recovered"]
    single = sum("subscription" in fields for fields in told)
    assert single == LINES_MAX
    assert sum(fields.get("more", 0) for fields in told) == 100 - LINES_MAX


def test_a_store_that_cannot_be_read_is_said_once_and_tried_again(world):
    """The transition is told when it can."""
    world.store.error = StoreError("locked")
    world.put("b", failing())
    assert world.look() == []
    assert world.look() == []
    assert [event for event, _ in world.lines.lines] == ["status-not-followed"]
    world.store.error = None
    assert world.look() == [("failing", "id-b")]


def test_a_store_that_fails_in_the_middle_of_a_look_loses_no_transition(world):
    """The names are known, and what is paused cannot be read."""
    world.put("b", Tally(delivered=1))
    world.look()
    world.store.error, world.store.failing = StoreError("locked"), {"halted"}
    world.put("b", failing())
    world.store.steering["b"] = Steering("b", paused_ms=SINCE_MS, paused_by="eve")
    assert world.look() == []
    world.store.error = None
    assert world.look() == [("failing", "id-b"), ("paused", "id-b")]
    assert world.look() == []


def test_what_cannot_be_disabled_now_is_told_and_disabled_by_the_next_look(world):
    """Nothing waits for the store's writer."""
    world.watch(disable_after_s=1.0)
    world.look()
    world.store.error, world.store.failing = StoreError("locked"), {"disable"}
    world.put("b", failing(last_ms=world.clock.wall_ms()))
    assert world.look() == [("failing", "id-b")]
    assert world.store.steering == {}
    world.store.error = None
    world.look()
    assert world.look() == [("disabled", "id-b")]


def test_an_object_is_named_by_its_place(world):
    """A Trigger fails like a subscription."""
    world.store.names["t"] = RouteName("object", "triggers.eventing.knative.dev/ns/t", "ns")
    world.put("t", failing())
    world.look()
    assert world.lines.lines[0][1]["object"] == "triggers.eventing.knative.dev/ns/t"
    assert world.told[0].name.namespace == "ns"


@pytest.mark.parametrize("seconds", [1.0, 5.0, 7.0])
def test_the_past_has_a_point_each_five_seconds_and_each_minute(world, seconds):
    """With the rates between them."""
    delivered = 0
    world.accepted = {"default": 0}
    world.look()
    for _ in range(int(7300 / seconds)):
        delivered += int(seconds * 10)
        world.accepted = {"default": delivered / 2}
        world.latencies[3] += 10
        world.put("a", Tally(delivered=delivered))
        world.look(seconds)
    fine, coarse = world.watcher.past("default")
    assert (len(fine), len(coarse)) == (24, 60)
    assert all(point.rates.delivered == pytest.approx(10) for point in fine[1:])
    assert all(point.rates.accepted == pytest.approx(5) for point in coarse[1:])
    assert all(0.002 < (point.p50_s or 0) < (point.p99_s or 0) <= 0.005 for point in fine[1:])
    assert fine[-1].backlog == 7
    assert world.watcher.past("another") == ([], [])


def test_the_store_is_read_where_it_may_have_changed(world):
    """What was not read for a fault is read with the next look."""
    news = [True]
    world.watch(may_have_news=lambda: news.pop() if news else False)
    world.put("a", Tally(delivered=1))
    assert world.look() == []
    world.store.steering["a"] = Steering("a", paused_ms=SINCE_MS, paused_by="eve")
    assert world.look() == []
    news.append(True)
    assert world.look() == [("paused", "id-a")]
    del world.store.steering["a"]
    news.append(True)
    world.store.error = StoreError("busy")
    world.put("b", Tally(delivered=1))
    assert world.look() == []
    world.store.error = None
    assert world.look() == [("resumed", "id-a")]
