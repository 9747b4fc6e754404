"""Queues, breakers and budgets of one tenant are none of another's, also for one sink."""

import asyncio

import pytest

from distributary.core.deliver import Admission, BreakerState, Destination
from distributary.core.errors import TransportError
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import Step

URI = "http://sink.example/"
REFUSED = TransportError("refused", "nobody there")


def reply(status, retry_after=None):
    """A reply without a body."""
    return Reply(status, retry_after, None, b"")


def to(tenant, uri=URI, **policy):
    """A destination of *tenant*."""
    return Destination(uri, tenant=tenant, policy=DeliveryPolicy(**policy))


def offer(rig, destination, count=1, data=b"x"):
    """Offer so many tasks; returns what came of each."""
    return [rig.dispatcher.offer(rig.task(data), destination) for _ in range(count)]


def by_tenant(answers):
    """A script that answers each tenant by its own step."""
    return lambda _event, destination: answers[destination.tenant]


@pytest.mark.parametrize("policy", [{}, {"rate_limit_per_s": 5.0}], ids=["plain", "paced"])
def test_one_sink_of_two_tenants_has_two_queues(policy):
    """And the namespace default has the names of old, so that nothing changes for it."""
    names = {to(tenant, **policy).queue for tenant in ("default", "shop", "till")}
    assert len(names) == 3
    assert to("default").queue == URI
    assert to("shop") != to("till")


def test_a_tenant_cannot_name_the_queue_of_another():
    """Whatever URI it chooses."""
    assert to("default", uri="shop http://sink.example/").queue == to("shop").queue  # no URI
    assert to("shop", uri="http://a/ http://b/").queue != to("shop").queue


def test_a_breaker_that_opens_for_one_tenant_stays_closed_for_the_other(rig):
    """Though both send to one sink, as one of them may lack its credential."""
    rig.script = by_tenant({"shop": Step(REFUSED, 0.01), "till": Step(reply(204), 0.01)})
    for _ in range(20):
        offer(rig, to("shop"))
        offer(rig, to("till"))
        rig.advance(0.05)
    assert rig.dispatcher.queue(to("shop").queue).breaker is BreakerState.OPEN
    assert rig.dispatcher.queue(to("till").queue).breaker is BreakerState.CLOSED
    assert offer(rig, to("till")) == [Admission.ADMITTED]


def test_retry_after_holds_back_the_tenant_that_got_it(rig):
    """The other one was told nothing."""
    rig.script = by_tenant({"shop": Step(reply(429, "60"), 0.01), "till": Step(reply(204), 0.01)})
    offer(rig, to("shop"), 2)
    rig.advance(0.1)
    offer(rig, to("till"), 3)
    rig.advance(0.1)
    sent = [attempt for attempt in rig.attempts if attempt.answer.status == 204]
    assert len(sent) == 3
    assert rig.dispatcher.queue(to("shop").queue).held_s > 50


def test_a_tenant_whose_sinks_hang_leaves_the_other_its_attempts(make_rig):
    """Each has its part of the attempts in flight."""
    rig = make_rig(in_flight_max=8, in_flight_total_max=16)
    rig.script = by_tenant({"shop": Step(None, 1e9), "till": Step(reply(204), 0.01)})
    offer(rig, to("till"))
    rig.advance(0.1)
    for number in range(50):
        offer(rig, to("shop", f"http://sink{number}.example/"), 5)
    rig.advance(1.0)
    assert rig.dispatcher.in_flight == 8
    offer(rig, to("till"), 100)
    rig.advance(10.0)
    assert len([one for one in rig.attempts if one.task]) == 101


def test_a_tenant_that_fills_its_memory_leaves_the_other_room(make_rig):
    """A task of its own is refused where one of the other is not."""
    rig = make_rig(held_bytes_total_max=200_000)
    rig.script = by_tenant({"shop": Step(None, 1e9), "till": Step(None, 1e9)})
    offer(rig, to("till"))
    outcomes = offer(rig, to("shop"), 50, b"x" * 10_000)
    assert Admission.FULL in outcomes
    assert rig.dispatcher.held_bytes < 110_000
    assert offer(rig, to("till"), 3, b"x" * 10_000) == [Admission.ADMITTED] * 3


def test_a_tenant_alone_has_everything(make_rig):
    """And again once the other has been gone for a while."""
    rig = make_rig(in_flight_max=8, in_flight_total_max=16, idle_s=60.0)
    offer(rig, to("till"))
    offer(rig, to("shop"))
    rig.advance(600.0)
    rig.script = by_tenant({"shop": Step(None, 1e9)})
    for number in range(50):
        offer(rig, to("shop", f"http://sink{number}.example/"))
    rig.advance(1.0)
    assert rig.dispatcher.in_flight == 16


def test_a_stop_waits_for_the_attempts_of_all_tenants(rig):
    """And nothing starts afterwards, also for a tenant that was not there before."""
    offer(rig, to("shop"))
    offer(rig, to("till"))

    async def close():
        closing = asyncio.create_task(rig.dispatcher.close(abort=False))
        await asyncio.sleep(0)
        assert not closing.done()
        rig.advance(1.0)
        await closing

    asyncio.run(close())
    assert len(rig.attempts) == 2
    assert offer(rig, to("third")) == [Admission.FULL]
