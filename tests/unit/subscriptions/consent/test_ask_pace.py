"""The pace of questions: nobody is flooded, whatever subscriptions name."""

import itertools

from distributary.subscriptions.consent._line import (
    ASKS_PER_S_MAX,
    BURST_S,
    HOST_BURST,
    HOST_INTERVAL_S,
    HOSTS_MAX,
    AskPace,
)


def asked_s(pace: AskPace, hosts: list[str], from_s: float) -> list[float]:
    """When the questions at *hosts* are put, each as soon as the pace allows."""
    now_s = from_s
    times = []
    for host in hosts:
        while not pace.allows(host, now_s):
            now_s += 0.01
        pace.note(host, now_s)
        times.append(now_s - from_s)
    return times


def test_a_host_is_asked_in_intervals_after_a_few():
    """A sink and its dead letter sink at once, a thousand paths one by one."""
    waits = asked_s(AskPace(), ["one.example"] * 50, 100.0)
    at_once = [wait for wait in waits if wait < HOST_INTERVAL_S / 2]
    assert len(at_once) == HOST_BURST
    later = waits[HOST_BURST:]
    gaps = [after - before for before, after in itertools.pairwise(later)]
    assert all(gap >= HOST_INTERVAL_S - 0.02 for gap in gaps)
    assert waits[-1] <= (50 - HOST_BURST) * HOST_INTERVAL_S + 0.5


def test_all_hosts_together_are_asked_at_a_bounded_rate():
    """A thousand new targets are no flood."""
    waits = asked_s(AskPace(), [f"{number}.example" for number in range(1000)], 0.0)
    least_s = 999 / ASKS_PER_S_MAX - BURST_S
    assert least_s - 0.02 <= max(waits) <= least_s + 1.0


def test_an_idle_host_has_its_burst_again():
    """Time passes, and nothing is owed."""
    pace = AskPace()
    for _ in range(HOST_BURST + 3):
        pace.note("one.example", 0.0)
    assert not pace.allows("one.example", 0.0)
    assert asked_s(pace, ["one.example"] * HOST_BURST, 1000.0) == [0.0] * HOST_BURST


def test_hosts_are_forgotten_when_their_interval_is_over():
    """Memory does not grow with every host that was ever named."""
    pace = AskPace()
    for number in range(3 * HOSTS_MAX):
        pace.note(f"{number}.example", number * HOST_INTERVAL_S)
    assert len(pace._hosts) <= HOSTS_MAX + 1
