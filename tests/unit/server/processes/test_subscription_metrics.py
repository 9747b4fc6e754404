"""The metrics of subscriptions: of the busiest each, of the others their sums."""

import random

from distributary.server.processes.control.standing import (
    COUNT_S,
    COUNT_S_MAX,
    OTHERS,
    count_interval_s,
    subscription_metrics,
)
from distributary.subscriptions.store.demands import RouteName


def named(uids):
    """Routes of these uids, each with a name of its own."""
    return {uid: RouteName("subscription", f"s-{uid}", "team") for uid in uids}


def labels(text, namespace="team"):
    """The labels of its metrics."""
    return f'{{namespace="{namespace}",subscription="{text}"}}'


def measure(names, counts, *, waiting=None, failing=frozenset(), own_max=2):
    """The metrics where nothing waits or fails, unless said."""
    return subscription_metrics(
        names, counts, waiting=waiting or {}, failing=failing, own_max=own_max
    )


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


def test_summing_takes_a_small_share_of_a_core_and_never_stops() -> None:
    """Many subscriptions are summed less often; a machine that stood still changes little."""
    assert count_interval_s(0.001) == COUNT_S
    assert COUNT_S < count_interval_s(0.1) < COUNT_S_MAX
    assert count_interval_s(30.0) == COUNT_S_MAX
