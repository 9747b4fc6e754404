"""Which executors start their Python before a task needs it, and when they are tried."""

from distributary.spark._warming import AGAIN_S, AGAIN_S_MAX, Warming


def rounds(warming, alive, seconds, *, begin=0, owning=frozenset(), warms=frozenset()):
    """Seconds since *begin* at which tasks ran; they reach the executors that are named."""
    found = []
    for second in range(seconds):
        if warming.due(set(alive), set(owning), float(begin + second)):
            found.append(second)
            warming.told(warms)
    return found


def test_who_is_warm_is_left_alone():
    """Once is enough."""
    assert rounds(Warming(), "01", 1_000, warms="01") == [0]


def test_who_was_not_reached_is_tried_again():
    """Spark may place every task elsewhere; each pause is twice as long."""
    first = int(AGAIN_S)
    found = rounds(Warming(), "01", 1_000, warms="0")
    assert found[:4] == [0, first, 3 * first, 7 * first]
    assert found[-1] - found[-2] == AGAIN_S_MAX


def test_a_new_one_is_tried_at_once():
    """Whatever the pauses of another one have come to."""
    warming = Warming()
    rounds(warming, "0", 100)
    assert rounds(warming, "01", 10, begin=100, warms="1")[0] == 0


def test_who_owns_partitions_is_tried_once():
    """Its Python runs; no slot may be free for another try."""
    assert rounds(Warming(), "01", 1_000, owning="0", warms="1") == [0]


def test_who_owns_no_partition_any_more_is_tried():
    """Its owners may have gone before any task of a round ran there."""
    warming = Warming()
    rounds(warming, "01", 100, owning="0", warms="1")
    assert rounds(warming, "01", 100, begin=100, warms="01") == [0]
