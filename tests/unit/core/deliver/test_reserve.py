"""Idle queues exceed the part of their tenant out of a reserve; refused ones are told of room."""

import pytest

from distributary.core.deliver import Admission, Destination
from distributary.core.deliver._reserve import TENANTS_TOLD_MAX, Reserve
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step

LARGE, WHOLE = 100_000, 1_000_000
KEPT = LARGE + 1_024
"""What a task of a large event takes."""
HANGS = Step(None, 1e9)
ADMITTED, FULL = Admission.ADMITTED, Admission.FULL


@pytest.fixture
def rig(make_rig):
    """A dispatcher with little room, whose sinks hang."""
    rig = make_rig(held_bytes_total_max=WHOLE, idle_s=60.0)
    rig.script = lambda _event, destination: rig.steps.get(destination.uri, HANGS)
    rig.steps = {}
    return rig


def to(number, tenant="shop", **policy):
    """A sink of *tenant*."""
    uri = f"http://sink{number}.example/"
    return Destination(uri, tenant=tenant, policy=DeliveryPolicy(timeout_s=600.0, **policy))


def offer(rig, destination, data=b"x" * LARGE):
    """Offer one task."""
    return rig.dispatcher.offer(rig.task(data), destination)


def fill(rig, tenant="shop", first=0):
    """Let sinks of *tenant* hang until one more is refused; how many hang."""
    for number in range(first, first + 1_000):
        if offer(rig, to(number, tenant)) is FULL:
            return number - first
    raise AssertionError("nothing was refused")


def answers(rig, number, after_s):
    """Let the sink *number* answer what it gets from now on."""
    rig.steps[to(number).uri] = Step(Reply(204, None, None, b""), after_s)


def test_idle_queues_exceed_the_limit_by_half_of_the_reserve(rig):
    """Each would take one event more: of a thousand that hang, a thousand large ones."""
    fill(rig)
    assert WHOLE < rig.dispatcher.held_bytes <= 1.5 * WHOLE + KEPT


def test_many_tenants_hold_less_than_twice_the_limit(rig):
    """Each leaves the others as much of the reserve as it takes, and its first event is free."""
    tenants = [f"tenant{number}" for number in range(8)]
    for tenant in tenants:
        assert offer(rig, to("first", tenant), b"") is ADMITTED
    counts = [fill(rig, tenant) for tenant in tenants]
    assert min(counts) >= 1
    assert counts[0] > counts[-1]
    assert rig.dispatcher.held_bytes < 2 * WHOLE
    for number in range(50):
        assert offer(rig, to(0, f"late{number}")) is ADMITTED


@pytest.mark.parametrize("policy", [{}, {"rate_limit_per_s": 1_000.0}], ids=["plain", "paced"])
def test_a_refused_queue_is_told_once_bytes_fall(rig, policy):
    """At once, once, and not before; what answers is another sink."""
    answers(rig, 0, 30.0)
    fill(rig)
    late = to("late", **policy)
    assert offer(rig, late) is FULL
    assert rig.dispatcher.queue(late.queue).starved
    rig.advance(29.0)
    assert rig.drained == []
    rig.advance(1.02)
    assert len(rig.drained) == 1  # there is room for one, which came first
    (first,) = rig.drained
    assert offer(rig, to("other")) is FULL  # it came last, and was not told
    answers(rig, int(first.partition("sink")[2].partition(".")[0]), 30.0)
    assert offer(rig, to(first.partition("sink")[2].partition(".")[0])) is ADMITTED
    rig.advance(29.0)
    assert len(rig.drained) == 1
    rig.advance(1.1)
    assert rig.drained[1:2] == [late.queue]
    assert offer(rig, late) is ADMITTED


def test_sinks_that_answer_go_on_while_others_hang(rig):
    """For one that has answered well lately there is room beyond that of the others."""
    answers(rig, "good", 0.01)
    assert offer(rig, to("good"), b"") is ADMITTED
    rig.advance(0.1)
    fill(rig)
    for _ in range(20):
        assert offer(rig, to("good")) is ADMITTED
        rig.advance(1.0)


def test_a_new_sink_gets_an_attempt_though_others_take_all_room(rig):
    """Once a minute by the limit of those that answer: else it could never show that it does."""
    good = [f"good{number}" for number in range(25)]
    for number in good:
        answers(rig, number, 2.0)
        assert offer(rig, to(number), b"") is ADMITTED
    rig.advance(3.0)
    waited = []
    for step in range(900):
        if step == 50:
            assert offer(rig, to("new")) is FULL
        if to("new").queue in rig.drained and offer(rig, to("new")) is ADMITTED:
            waited.append(step)
        rig.drained.clear()
        for number in good[: step + 1]:
            offer(rig, to(number))
        rig.advance(0.1)
    assert waited
    assert 500 < waited[0] < 700


def test_a_queue_that_was_told_and_sends_nothing_leaves_the_room_to_the_next(rig):
    """What it was refused for may have been dropped meanwhile."""
    answers(rig, 0, 30.0)
    count = fill(rig)
    waiting = [to(number).queue for number in range(count, count + 40)]
    for number in range(count + 1, count + 40):
        assert offer(rig, to(number)) is FULL
    rig.advance(33.0)
    assert rig.drained == waiting
    assert not rig.dispatcher.queue(waiting[-1]).starved


def test_who_was_told_and_comes_late_is_told_first_the_next_time(rig):
    """Its events had to be read; another one, which had them, took the room."""
    answers(rig, 0, 30.0)
    told = to(fill(rig))
    assert offer(rig, to("third")) is FULL
    rig.advance(30.5)
    assert rig.drained == [told.queue, to("third").queue]
    answers(rig, "quick", 30.0)
    assert offer(rig, to("quick")) is ADMITTED
    assert offer(rig, to("new")) is FULL
    rig.advance(10.0)
    assert offer(rig, told) is FULL
    rig.drained.clear()
    rig.advance(21.0)
    assert rig.drained == [told.queue, to("new").queue]


def test_a_large_event_does_not_wait_for_ever_behind_nothing(rig):
    """It is larger than all limits together, and goes alone."""
    answers(rig, 0, 30.0)
    assert offer(rig, to(0)) is ADMITTED
    assert offer(rig, to("huge"), b"x" * 3 * WHOLE) is FULL
    rig.advance(31.0)
    assert rig.drained == [to("huge").queue]
    assert offer(rig, to("huge"), b"x" * 3 * WHOLE) is ADMITTED


def test_what_is_taken_back_makes_room(rig):
    """Of a paced queue, whose tasks have not started."""
    slow = to("slow", rate_limit_per_s=0.001)
    for _ in range(10):
        offer(rig, slow)
    fill(rig)
    assert len(rig.dispatcher.take_queued(slow.queue)) > 3
    assert rig.dispatcher.queue(slow.queue).queued_bytes == 0
    rig.advance(0.1)
    assert to(0).queue not in rig.drained
    assert len(rig.drained) == 2  # that queue itself, and the one that was refused


def test_room_that_another_tenant_leaves_is_told(rig):
    """Its part goes to those that stay, once its queues are gone."""
    steady = offer(rig, to("one", "till"), b"")
    assert steady is ADMITTED
    rig.steps[to("one").uri] = Step(Reply(204, None, None, b""), 0.01)
    offer(rig, to("one", "office"), b"")
    refused = fill(rig)
    before = rig.dispatcher.held_bytes
    rig.advance(200.0)
    assert to(refused).queue in rig.drained
    assert offer(rig, to(refused)) is ADMITTED
    assert rig.dispatcher.held_bytes > before


def test_a_queue_that_waits_for_room_is_not_dropped(rig):
    """Nobody would be told of room in it."""
    refused = to(fill(rig)).queue
    rig.advance(200.0)
    assert rig.dispatcher.queue(refused).starved
    assert rig.drained == []


class Waiting:
    """A tenant whose queues wait for room."""

    excess_bytes = 0

    def __init__(self, *, room):
        self.starves, self.room, self.looks = True, room, 0

    def tell_starved(self, _free_bytes):
        self.looks += 1
        if self.room:
            self.starves = False
        return self.room


def test_every_tenant_is_looked_at_and_none_for_ever(rig):
    """However many have no room: whoever has some, perhaps with nothing in flight, is told."""
    tenants = [Waiting(room=False) for _ in range(2 * TENANTS_TOLD_MAX)] + [Waiting(room=True)]
    reserve = Reserve(1_000, rig.timers, tenants)
    reserve.starving.update(dict.fromkeys(tenants))
    reserve.fell()
    rig.advance(600.0)
    assert [tenant.looks for tenant in tenants[-1:]] == [1]
    assert all(1 <= tenant.looks <= 3 for tenant in tenants)
