"""Conditions and how ``Ready`` sums them up."""

import pytest

from distributary.knative.reconcile._findings import HOLDS, Finding
from distributary.knative.reconcile._status import with_status

OLD, NOW = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"
TWO = ("BrokerReady", "RouteReady")


def told(before=(), **findings):
    """The conditions that are told, by type, in their order."""
    content = {"status": {"conditions": list(before)}}
    status = with_status(content, 1, findings, {}, NOW)["status"]
    return {each["type"]: each for each in status["conditions"]}


def test_is_ready_when_all_that_counts_holds():
    """``True`` needs no reason."""
    assert list(told(RouteReady=HOLDS, BrokerReady=HOLDS).values()) == [
        {"type": "BrokerReady", "status": "True", "lastTransitionTime": NOW},
        {"type": "Ready", "status": "True", "lastTransitionTime": NOW},
        {"type": "RouteReady", "status": "True", "lastTransitionTime": NOW},
    ]


@pytest.mark.parametrize("order", [("Unknown", "False"), ("False", "Unknown")])
def test_false_wins_over_unknown(order):
    """``Ready`` has the reason and message of what fails."""
    found = {
        type_: Finding(status, f"Is{status}", f"it is {status}")
        for type_, status in zip(TWO, order, strict=True)
    }
    assert told(**found)["Ready"] == {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": NOW,
        "reason": "IsFalse",
        "message": "it is False",
    }


def test_unknown_wins_over_what_holds():
    """``Ready`` has the reason of what is not known yet."""
    ready = told(BrokerReady=HOLDS, RouteReady=Finding("Unknown", "Waiting", "not yet"))["Ready"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "Waiting")


def test_the_first_of_several_failures_is_told():
    """The order of the findings puts causes before their effects."""
    cause = Finding("False", "Cause", "no broker")
    effect = Finding("False", "Effect", "no route")
    assert told(RouteReady=cause, BrokerReady=effect)["Ready"]["reason"] == "Cause"


def test_what_does_not_count_does_not_count():
    """A warning beside is told and changes nothing."""
    warning = Finding("False", "Failing", "connection refused", "Warning")
    found = told(BrokerReady=HOLDS, DeliveriesSucceeding=warning)
    assert found["Ready"]["status"] == "True"
    assert found["DeliveriesSucceeding"] == {
        "type": "DeliveriesSucceeding",
        "status": "False",
        "severity": "Warning",
        "lastTransitionTime": NOW,
        "reason": "Failing",
        "message": "connection refused",
    }


def test_the_time_changes_with_the_status_alone():
    """Another reason or message is no transition; a condition that is not found again is gone."""
    before = [
        {"type": "BrokerReady", "status": "False", "lastTransitionTime": OLD, "reason": "A"},
        {"type": "RouteReady", "status": "False", "lastTransitionTime": OLD},
        {"type": "Gone", "status": "True", "lastTransitionTime": OLD},
    ]
    still = Finding("False", "B", "another message")
    found = told(before, BrokerReady=still, RouteReady=HOLDS)
    times = {type_: each["lastTransitionTime"] for type_, each in found.items()}
    assert times == {"BrokerReady": OLD, "RouteReady": NOW, "Ready": NOW}


def test_false_has_a_reason():
    """A failure that says nothing is a bug."""
    with pytest.raises(AssertionError):
        told(BrokerReady=Finding("False"))
