"""The pace of questions: nobody is flooded, whatever subscriptions name."""

import itertools

from distributary.subscriptions.consent._pace import (
    ASKS_PER_S_MAX,
    BURST_S,
    HOST_BURST,
    HOST_INTERVAL_S,
    HOSTS_MAX,
    AskPace,
)


def test_a_host_is_asked_in_intervals_after_a_few():
    """A sink and its dead letter sink at once, a thousand paths one by one."""
    pace = AskPace()
    waits = [pace.reserve_s("one.example", 100.0) for _ in range(50)]
    at_once = [wait for wait in waits if wait < HOST_INTERVAL_S / 2]
    assert len(at_once) == HOST_BURST
    later = waits[HOST_BURST:]
    gaps = [after - before for before, after in itertools.pairwise(later)]
    assert all(gap >= HOST_INTERVAL_S - 1e-6 for gap in gaps)


def test_all_hosts_together_are_asked_at_a_bounded_rate():
    """A thousand new targets are no flood."""
    pace = AskPace()
    waits = [pace.reserve_s(f"{number}.example", 0.0) for number in range(1000)]
    assert max(waits) >= 999 / ASKS_PER_S_MAX - BURST_S - 1e-6


def test_an_idle_host_has_its_burst_again():
    """Time passes, and nothing is owed."""
    pace = AskPace()
    for _ in range(HOST_BURST + 3):
        pace.reserve_s("one.example", 0.0)
    assert pace.reserve_s("one.example", 1000.0) == 0.0


def test_hosts_are_forgotten_when_their_interval_is_over():
    """Memory does not grow with every host that was ever named."""
    pace = AskPace()
    for number in range(3 * HOSTS_MAX):
        pace.reserve_s(f"{number}.example", number * HOST_INTERVAL_S)
    assert len(pace._hosts) <= HOSTS_MAX + 1
