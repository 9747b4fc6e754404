"""Ways back to this server: what they cost of an event's passes, and where that ends."""

import pytest
from msgspec.structs import replace

from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.flow import TTL_ATTRIBUTE

BACK = Destination("http://me.example/events", dial="127.0.0.1:8080", own=True, passes=8)


@pytest.mark.parametrize(("ttl", "told"), [(32, 25), (9, 2)])
def test_an_event_takes_along_what_its_way_back_leaves(rig, ttl, told):
    """The receiver takes one more: 8 of 32 in all."""
    task = replace(rig.task(), ttl=ttl)
    rig.dispatcher.offer(task, BACK)
    rig.advance(1.0)
    ((event, _),) = rig.transport.arrived
    assert event.attributes[TTL_ATTRIBUTE] == told


@pytest.mark.parametrize("ttl", [8, 1])
def test_without_enough_passes_no_attempt_is_made(rig, ttl):
    """The queue says so, for good; its breaker stays closed."""
    rig.dispatcher.offer(replace(rig.task(), ttl=ttl), BACK)
    rig.advance(1.0)
    (attempt,) = rig.attempts
    assert isinstance(attempt.answer, TransportError)
    assert (attempt.answer.reason, attempt.answer.retryable) == ("hop-limit", False)
    assert rig.transport.arrived == []


def test_what_a_setting_refuses_is_not_sent_and_may_be_tried_again(rig):
    """The reason is the setting's."""
    rig.dispatcher.offer(rig.task(), Destination("http://a.example/", refused="by a setting"))
    rig.advance(1.0)
    (attempt,) = rig.attempts
    assert str(attempt.answer) == "by a setting"
    assert (attempt.answer.reason, attempt.answer.retryable) == ("blocked-address", True)
    assert rig.transport.arrived == []
