"""The metrics of subscriptions: of the busiest each, of the others their sums."""

import random

from distributary.server.processes.control._subscription_metrics import (
    COUNTED,
    OTHERS,
    SubscriptionMetrics,
)
from distributary.server.processes.control.standing import (
    COUNT_S,
    COUNT_S_MAX,
    count_interval_s,
)
from distributary.subscriptions.store.demands import RouteName


def named(uids):
    """Routes of these uids, each with a name of its own."""
    return {uid: RouteName("subscription", f"s-{uid}", "team") for uid in uids}


def labels(text, namespace="team"):
    """The labels of its metrics."""
    return f'{{namespace="{namespace}",subscription="{text}"}}'


def look(metrics, names, counts, *, waiting=None, failing=frozenset()):
    """The metrics where nothing waits or fails, unless said."""
    return metrics.look(names, counts, waiting=waiting or {}, failing=failing)


def measure(names, counts, *, own_max=2, **now):
    """The metrics of a server that has just begun with nothing."""
    metrics = SubscriptionMetrics(own_max)
    look(metrics, {}, {})
    return look(metrics, names, counts, **now)


def delivered(counters):
    """Deliveries by label."""
    prefix = "subscription_delivered_total"
    return {
        name.split('"')[3]: value for name, value in counters.items() if name.startswith(prefix)
    }


def test_the_busiest_have_metrics_of_their_own_and_the_others_a_sum() -> None:
    """Busy is what has most matches and failed attempts together."""
    counts = {"a": (1, 0, 0, 9), "b": (1, 2, 3, 0), "c": (2, 1, 0, 0), "d": (0, 0, 0, 20)}
    counters, gauges = measure(
        named("abcd"), counts, waiting={"a": 5, "b": 7, "c": 1}, failing={"b", "c", "d"}
    )
    assert counters[f"subscription_delivered_total{labels('s-a')}"] == 1
    assert counters[f"subscription_attempts_failed_total{labels('s-d')}"] == 20
    others = labels(OTHERS, OTHERS)
    assert {name: value for name, value in counters.items() if others in name} == {
        f"subscription_delivered_total{others}": 3,
        f"subscription_dead_lettered_total{others}": 3,
        f"subscription_dropped_total{others}": 3,
        f"subscription_attempts_failed_total{others}": 0,
    }
    assert gauges == {
        f"subscription_failing{labels('s-a')}": 0,
        f"subscription_waiting{labels('s-a')}": 5,
        f"subscription_failing{labels('s-d')}": 1,
        f"subscription_waiting{labels('s-d')}": 0,
        f"subscription_failing{others}": 2,
        f"subscription_waiting{others}": 8,
    }


def test_a_route_without_a_name_is_deleted_and_counts_nowhere() -> None:
    """And one without counts, whose owner has just begun, counts as nothing."""
    counters, gauges = measure(
        named("ab"),
        {"a": (1, 0, 0, 0), "gone": (9, 0, 0, 0)},
        waiting={"gone": 3},
        failing={"gone"},
    )
    assert sum(counters.values()) == 1
    assert sum(gauges.values()) == 0
    assert measure({}, {}) == ({}, {})


def test_two_of_one_name_are_added() -> None:
    """A subscription and an object of the Kubernetes API may be called alike."""
    names = {"a": RouteName("subscription", "x"), "b": RouteName("object", "x")}
    counters, _ = measure(names, {"a": (1, 0, 0, 0), "b": (2, 0, 0, 0)})
    assert counters[f"subscription_delivered_total{labels('x', 'default')}"] == 3


def test_nothing_is_lost_however_many_have_their_own() -> None:
    """The sum over all metrics is that over all routes."""
    rng = random.Random(5)
    names = named([f"r{number}" for number in range(300)])
    counts = {uid: (rng.randrange(9), rng.randrange(9), 0, rng.randrange(9)) for uid in names}
    for own_max in (0, 1, 299, 300, 1000):
        counters, _ = measure(names, counts, own_max=own_max)
        assert sum(counters.values()) == sum(map(sum, counts.values()))
        assert len(counters) == 4 * (min(own_max, 300) + (own_max < 300))


def test_the_sum_of_the_others_never_falls() -> None:
    """One overtakes another, and one of the others is deleted: none of it is a restart."""
    metrics = SubscriptionMetrics(1)
    names = named("abc")
    look(metrics, {}, {})
    counts = {"a": (100, 0, 0, 0), "b": (50, 0, 0, 0), "c": (7, 0, 0, 0)}
    assert delivered(look(metrics, names, counts)[0]) == {"s-a": 100, OTHERS: 57}
    counts["b"] = (150, 0, 0, 0)
    # Its own metrics only begin, so what it grew by is growth of the others.
    assert delivered(look(metrics, names, counts)[0]) == {"s-b": 150, OTHERS: 157}
    counts |= {"a": (101, 0, 0, 0), "b": (152, 0, 0, 0)}
    assert delivered(look(metrics, names, counts)[0]) == {"s-b": 152, OTHERS: 158}
    del names["c"], counts["c"]
    assert delivered(look(metrics, names, counts)[0]) == {"s-b": 152, OTHERS: 158}
    del names["a"], counts["a"]
    assert delivered(look(metrics, names, counts)[0]) == {"s-b": 152, OTHERS: 158}


def test_what_grew_before_the_first_look_is_no_growth() -> None:
    """A restart must not show the past of those that are left: nor where names come later."""
    metrics = SubscriptionMetrics(0)
    counts = {"a": (100, 0, 0, 0), "b": (50, 0, 0, 0)}
    assert delivered(look(metrics, named("a"), counts)[0]) == {OTHERS: 0}
    counts |= {"a": (101, 0, 0, 0), "b": (52, 0, 0, 0), "c": (5, 0, 0, 0)}
    assert delivered(look(metrics, named("a"), counts)[0]) == {OTHERS: 1}
    assert delivered(look(metrics, named("abc"), counts)[0]) == {OTHERS: 8}


def test_what_a_kill_has_lost_is_counted_once() -> None:
    """An owner begins again from its last commit, and delivers once more."""
    metrics = SubscriptionMetrics(0)
    look(metrics, {}, {})
    for count in (10, 8, 10, 11):
        counters, _ = look(metrics, named("a"), {"a": (count, 0, 0, 0)})
    assert delivered(counters) == {OTHERS: 11}


def test_two_that_are_about_as_busy_take_no_turns() -> None:
    """The growth of each would be seen in its own metrics and in those of the others."""
    metrics = SubscriptionMetrics(1)
    for a, b, own in ((100, 99, "a"), (101, 105, "a"), (120, 106, "a"), (120, 140, "b")):
        counters, _ = look(metrics, named("ab"), {"a": (a, 0, 0, 0), "b": (b, 0, 0, 0)})
        assert delivered(counters).keys() == {f"s-{own}", OTHERS}


def test_growth_is_seen_once_wherever_a_route_is_counted() -> None:
    """As Prometheus adds it up: a series that begins has not grown."""
    rng = random.Random(7)
    names = named([f"r{number}" for number in range(8)])
    counts = dict.fromkeys(names, (0, 0, 0, 0))
    metrics = SubscriptionMetrics(3)
    last, _ = look(metrics, names, counts)
    true = seen = 0
    began = set(delivered(last))
    for _ in range(200):
        for uid in names:
            more = rng.choice((0, 0, 1, rng.randrange(40)))
            counts[uid] = (counts[uid][0] + more, 0, 0, 0)
            true += more
        now, _ = look(metrics, names, counts)
        before, after = delivered(last), delivered(now)
        assert after[OTHERS] >= before[OTHERS]
        seen += sum(value - before[name] for name, value in after.items() if name in before)
        began |= after.keys()
        last = now
    assert len(began) > 4, "some got metrics of their own"
    assert seen == true


def test_routes_that_are_gone_are_forgotten() -> None:
    """Subscriptions come and go for years."""
    metrics = SubscriptionMetrics(1)
    for number in range(100):
        counters, _ = look(metrics, named([f"r{number}"]), {f"r{number}": (1, 2, 3, 4)})
    assert len(counters) == len(COUNTED)
    assert len(metrics._seen) == 1


def test_summing_takes_a_small_share_of_a_core_and_never_stops() -> None:
    """Many subscriptions are summed less often; a machine that stood still changes little."""
    assert count_interval_s(0.001) == COUNT_S
    assert COUNT_S < count_interval_s(0.1) < COUNT_S_MAX
    assert count_interval_s(30.0) == COUNT_S_MAX
