"""Conditions and how ``Ready`` sums them up."""

import pytest

from distributary.knative.kinds import Conditions, conditions

OLD, NOW = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"
TWO = (conditions.BROKER_READY, conditions.ROUTE_READY)


def ready_of(listed):
    """The condition ``Ready``."""
    return next(each for each in listed if each["type"] == "Ready")


def test_is_ready_when_all_that_counts_holds():
    """``True`` needs no reason."""
    told = Conditions([], NOW)
    told.set("BrokerReady", "True")
    told.set("RouteReady", "True")
    assert told.to_json(TWO) == [
        {"type": "BrokerReady", "status": "True", "lastTransitionTime": NOW},
        {"type": "Ready", "status": "True", "lastTransitionTime": NOW},
        {"type": "RouteReady", "status": "True", "lastTransitionTime": NOW},
    ]


@pytest.mark.parametrize("order", [("Unknown", "False"), ("False", "Unknown")])
def test_false_wins_over_unknown(order):
    """``Ready`` has the reason and message of what fails."""
    told = Conditions([], NOW)
    for type_, status in zip(TWO, order, strict=True):
        told.set(type_, status, f"Is{status}", f"it is {status}")
    assert ready_of(told.to_json(TWO)) == {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": NOW,
        "reason": "IsFalse",
        "message": "it is False",
    }


def test_the_first_of_several_failures_is_told():
    """The order of the dependents puts causes before their effects."""
    told = Conditions([], NOW)
    told.set("RouteReady", "False", "Effect", "no route")
    told.set("BrokerReady", "False", "Cause", "no broker")
    assert ready_of(told.to_json(TWO))["reason"] == "Cause"


def test_what_nobody_has_looked_at_is_unknown():
    """A dependent that is not set is not True."""
    told = Conditions([], NOW)
    told.set("BrokerReady", "True")
    ready = ready_of(told.to_json(TWO))
    assert (ready["status"], ready["reason"]) == ("Unknown", "NotReconciled")


def test_what_does_not_count_does_not_count():
    """A warning beside is told and changes nothing."""
    told = Conditions([], NOW)
    told.set("BrokerReady", "True")
    told.set("DeliveriesSucceeding", "False", "Failing", "connection refused", "Warning")
    listed = told.to_json(["BrokerReady"])
    assert ready_of(listed)["status"] == "True"
    assert listed[1] == {
        "type": "DeliveriesSucceeding",
        "status": "False",
        "severity": "Warning",
        "lastTransitionTime": NOW,
        "reason": "Failing",
        "message": "connection refused",
    }


def test_the_time_changes_with_the_status_alone():
    """Another reason or message is no transition; a condition that is not set again is gone."""
    before = [
        {"type": "BrokerReady", "status": "False", "lastTransitionTime": OLD, "reason": "A"},
        {"type": "RouteReady", "status": "False", "lastTransitionTime": OLD},
        {"type": "Gone", "status": "True", "lastTransitionTime": OLD},
    ]
    told = Conditions(before, NOW)
    told.set("BrokerReady", "False", "B", "another message")
    told.set("RouteReady", "True")
    times = {each["type"]: each["lastTransitionTime"] for each in told.to_json(TWO)}
    assert times == {"BrokerReady": OLD, "RouteReady": NOW, "Ready": NOW}


def test_false_has_a_reason():
    """A failure that says nothing is a bug."""
    with pytest.raises(AssertionError):
        Conditions([], NOW).set("BrokerReady", "False")
