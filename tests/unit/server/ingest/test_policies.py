"""EventPolicies at the receiver: who may send what, and what a refusal says."""

import msgspec
import pytest
from tests.unit.server.ingest.conftest import event
from tests.unit.server.ingest.test_gate import SNAPSHOT, shown

from distributary.access import AccessSnapshot, PolicyRecord
from distributary.core import filter as filter_room


@pytest.fixture
def guarded(client):
    """A receiver that asks who its clients are."""
    client.context.gate.replace(SNAPSHOT)
    return client


def of_policies(*policies: PolicyRecord) -> AccessSnapshot:
    """The snapshot of these tests, with *policies* for the Broker ``default``."""
    return msgspec.structs.replace(SNAPSHOT, policies=policies)


def policy(*subjects: str, filters: tuple = ()) -> PolicyRecord:
    """A policy of the Broker ``default``."""
    return PolicyRecord(
        name="default/p",
        targets=("brokers/default/default",),
        subjects=subjects,
        filters=filters,
    )


def test_a_policy_lets_in_whom_it_names(guarded):
    """At once, also on a connection that has published before."""
    guarded.context.gate.replace(of_policies(policy("key:till")))
    for _ in range(5):
        assert guarded.statuses(event(more=shown("till"))) == [202]
    guarded.context.gate.replace(of_policies(policy("key:other")))
    (answer,) = guarded.send(event(more=shown("till")))
    assert (answer.status, answer.problem["code"]) == (403, "forbidden")
    assert "no EventPolicy lets key:till send" in answer.problem["detail"]


def test_a_policy_lets_events_pass_that_its_filters_do(guarded):
    """Every event is asked, whatever passed before; a batch is refused whole."""
    only = policy("key:till", filters=({"exact": {"type": "t"}},))
    guarded.context.gate.replace(of_policies(only))
    for _ in range(5):
        assert guarded.statuses(event(more=shown("till"))) == [202]
    accepted = len(guarded.appends.received)
    other = event(more=shown("till")).replace(b"ce-type: t\r\n", b"ce-type: u\r\n")
    (answer,) = guarded.send(other)
    assert (answer.status, answer.problem["code"]) == (403, "forbidden")
    assert [fault["code"] for fault in answer.problem["faults"]] == ["policy"]
    both = [
        {"specversion": "1.0", "id": "1", "source": "/s", "type": kind} for kind in ("t", "u", "t")
    ]
    body = msgspec.json.encode(both)
    batch = (
        b"POST /events HTTP/1.1\r\nhost: localhost\r\n%scontent-length: %d\r\n"
        b"content-type: application/cloudevents-batch+json\r\n\r\n" % (shown("till"), len(body))
    )
    (answer,) = guarded.send(batch + body)
    assert answer.status == 403
    assert [fault["path"] for fault in answer.problem["faults"]] == ["$[1]"]
    assert len(guarded.appends.received) == accepted


def test_a_refusal_names_each_policy_once_and_few_of_them(guarded):
    """However many events and policies there are: the response stays short."""
    policies = [
        msgspec.structs.replace(
            policy("key:till", filters=({"exact": {"type": "t"}},)), name=f"default/p{number}"
        )
        for number in range(100)
    ]
    guarded.context.gate.replace(of_policies(*policies))
    one = {"specversion": "1.0", "id": "1", "source": "/s", "type": "u"}
    body = msgspec.json.encode([one] * 500)
    batch = (
        b"POST /events HTTP/1.1\r\nhost: localhost\r\n%scontent-length: %d\r\n"
        b"content-type: application/cloudevents-batch+json\r\n\r\n" % (shown("till"), len(body))
    )
    (answer,) = guarded.send(batch + body)
    assert answer.status == 403
    assert len(answer.problem["faults"]) == 500
    told = ", ".join(f"default/p{number}" for number in range(5))
    assert f"{told} and 95 more" in answer.problem["detail"]
    assert answer.body.count(b"default/p") == 5


def batch(*events: dict) -> bytes:
    """A request with *events*, by who may publish."""
    body = msgspec.json.encode(events)
    return (
        b"POST /events HTTP/1.1\r\nhost: localhost\r\n%scontent-length: %d\r\n"
        b"content-type: application/cloudevents-batch+json\r\n\r\n" % (shown("till"), len(body))
    ) + body


@pytest.mark.parametrize("subject", ["", "x" * 20_000], ids=["many", "long"])
def test_the_filter_work_of_a_request_is_limited(guarded, subject):
    """Nothing of a larger request is looked at or accepted; halves of it are, and single events.

    So a receiver is not held up by one sender, and no event passes unasked.
    """
    count = 20 if subject else 1_000
    each = [{"suffix": {"source": f"{number}"}} for number in range(490)]
    policies = [policy("key:till", filters=({"any": each},))] * (2 if subject else 10)
    one = {"specversion": "1.0", "id": "1", "source": "/1", "type": "t", "subject": subject or "x"}
    guarded.context.gate.replace(of_policies(*policies))
    (answer,) = guarded.send(batch(*[one] * count))
    assert (answer.status, answer.problem["code"]) == (413, "content-too-large")
    assert guarded.appends.received == []
    assert guarded.statuses(batch(*[one] * (count // 2))) == [202]
    refused = [one] * (count // 2 - 1) + [{**one, "source": "/none"}]
    assert guarded.statuses(batch(*refused)) == [403]
    guarded.context.gate.replace(of_policies(*policies * 40))
    assert guarded.statuses(batch(one)) == [202]
    assert guarded.statuses(batch({**one, "source": "/none"})) == [403]


def test_an_event_costs_nothing_of_the_texts_of_filters(guarded, monkeypatch):
    """Of however many policies: they are compiled once, and no event encodes or hashes them."""
    policies = [
        policy("key:till", filters=({"sql": f"type <> '{number}{'x' * 1_000}'"},))
        for number in range(300)
    ]
    guarded.context.gate.replace(of_policies(*policies))
    assert guarded.statuses(event(more=shown("till"))) == [202]
    monkeypatch.setattr(filter_room, "compile", lambda _filters: pytest.fail("compiled again"))
    monkeypatch.setattr(msgspec.json, "encode", lambda _value: pytest.fail("encoded"))
    for _ in range(5):
        assert guarded.statuses(event(more=shown("till"))) == [202]


def test_policies_count_for_nobody_where_none_is_asked(client):
    """As the condition of an EventPolicy says."""
    snapshot = msgspec.structs.replace(of_policies(policy()), required=False)
    client.context.gate.replace(snapshot)
    for _ in range(3):
        assert client.statuses(event()) == [202]
