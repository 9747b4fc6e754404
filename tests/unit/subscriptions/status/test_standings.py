"""The numbers of a route over all partitions, and its rate."""

import pytest

from distributary.core.outcome import Tally
from distributary.subscriptions.status._past import quantile


def test_the_numbers_of_a_route_are_those_of_all_partitions(world):
    """Also of one that only one of them knows."""
    world.put("a", Tally(delivered=3, waiting=1))
    world.put("a", Tally(delivered=4, success_ms=9), partition=1)
    world.look()
    assert world.watcher.standings.of("a").tally == Tally(delivered=7, waiting=1, success_ms=9)
    assert world.watcher.standings.of("another").tally == Tally()


def test_a_change_is_that_of_the_sum(world):
    """Whether a route has changed in one partition, in all, or is gone in some."""
    world.put("a", Tally(delivered=3))
    world.put("a", Tally(delivered=4), partition=1)
    standings = world.watcher.standings
    (first,) = standings.look()
    assert (first.tally, first.delivered) == (Tally(delivered=7), 7)
    world.put("a", Tally(delivered=5))
    (one,) = standings.look()
    assert (one.tally, one.delivered) == (Tally(delivered=9), 2)
    world.put("a", Tally(delivered=6))
    world.put("a", Tally(delivered=5), partition=1)
    (both,) = standings.look()
    assert (both.tally, both.delivered) == (Tally(delivered=11), 2)
    assert standings.look() == []


def test_the_rate_is_that_of_the_last_minute(world):
    """A quiet minute makes it 0, and what was delivered before the first look is no rate."""
    world.put("a", Tally(delivered=1_000_000))
    world.watch()
    world.look()
    assert world.watcher.standings.of("a").rate == 0.0
    for second in range(120):
        world.put("a", Tally(delivered=1_000_000 + 10 * (second + 1)))
        world.look()
    assert world.watcher.standings.of("a").rate == pytest.approx(10, rel=0.1)
    world.look(61.0)
    assert world.watcher.standings.of("a").rate == 0.0


def test_the_last_minute_is_told_in_steps(world):
    """So that a chart has a past: steady, then idle, then a burst."""
    assert world.watcher.standings.of("a").rates == ()
    delivered = 0
    for second in range(90):
        delivered += 10 * (second < 60) + 50 * (second == 75)
        world.put("a", Tally(delivered=delivered))
        world.look()
    rates = world.watcher.standings.of("a").rates
    assert len(rates) == 12
    assert rates[:5] == pytest.approx([10] * 5)
    assert sum(each > 0 for each in rates[6:]) == 1
    assert sum(rates[6:]) == pytest.approx(10)
    world.look(61.0)
    assert world.watcher.standings.of("a").rates == ()


def test_a_burst_is_spread_over_the_time_since(world):
    """Ten deliveries at once are no more than two a second."""
    world.put("a", Tally(delivered=10))
    world.look()
    assert world.watcher.standings.of("a").rate == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("share", "counts", "expected"),
    [
        (0.5, [0, 0, 0], None),
        (0.5, [4, 0, 0], 0.5),
        (0.99, [0, 100, 0], 1.99),
        (0.5, [1, 0, 9], 2.0),
        (0.0, [0, 5, 0], 1.0),
    ],
)
def test_a_quantile_lies_within_its_bucket(share, counts, expected):
    """Evenly spread there; beyond the last bound it is that bound."""
    found = quantile(share, [1.0, 2.0], counts)
    assert found == (None if expected is None else pytest.approx(expected))


def test_rates_are_forgotten_a_minute_after_the_last_delivery(world):
    """Of each route by itself, whichever began first."""
    for second in range(100):
        world.put("early", Tally(delivered=second + 1))
        if second < 30:
            world.put("late", Tally(delivered=second + 1))
        world.look()
    standings = world.watcher.standings
    assert standings.of("late").rates == ()
    assert standings.of("early").rate == pytest.approx(1.0, rel=0.1)
    world.put("late", Tally(delivered=600))
    world.look()
    world.look(50.0)
    assert standings.of("late").rate > 0.0
    world.look(20.0)
    assert standings.of("late").rates == standings.of("early").rates == ()
