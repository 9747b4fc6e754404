"""Passes through Brokers: counted down at ingest, taken out of the event, refused at the end."""

import json

import pytest

from distributary.core.event import record
from distributary.core.flow import TTL_ATTRIBUTE, TTL_DEFAULT, RecordKind, decode_addressed
from kit.little_work import little_work

BATCH = b"host: localhost\r\ncontent-type: application/cloudevents-batch+json\r\n"
STRUCTURED = b"host: localhost\r\ncontent-type: application/cloudevents+json\r\n"

VALUES = [
    ("abc", TTL_DEFAULT),
    ("1.5", TTL_DEFAULT),
    ("+5", TTL_DEFAULT),
    ("true", TTL_DEFAULT),
    ("0x10", TTL_DEFAULT),
    ("٣", TTL_DEFAULT),
    ("2", 1),
    ("002", 1),
    ("32", 31),
    ("33", 32),
    ("255", TTL_DEFAULT),
    ("9" * 5000, TTL_DEFAULT),
    ("1", None),
    ("0", None),
    ("000", None),
    ("-0", None),
    ("-1", None),
    ("-" + "9" * 5000, None),
]
"""What the attribute says -> the passes left after this one; None: refused."""

NUMBERS = [
    (True, TTL_DEFAULT),
    (False, TTL_DEFAULT),
    (2, 1),
    (32, 31),
    (33, 32),
    (2**31 - 1, TTL_DEFAULT),
    (1, None),
    (0, None),
    (-1, None),
    (-(2**31), None),
]


def body_of(*values, **more):
    """A batch with an event for each of *values*; None: without the attribute."""
    return json.dumps(
        [
            {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", **more}
            | ({} if value is None else {TTL_ATTRIBUTE: value})
            for number, value in enumerate(values)
        ]
    ).encode()


def sent(client, post, fields, body):
    """The answer to *body*."""
    (answer,) = client.send(post(b"content-length: %d\r\n" % len(body), fields=fields) + body)
    return answer


def kept(client):
    """Address, passes and events of the one record that the log got."""
    (received,) = client.appends.received
    assert received.kind == RecordKind.ADDRESSED
    return decode_addressed(received.body)


@pytest.mark.parametrize(("value", "left"), [*VALUES, *NUMBERS], ids=lambda value: str(value)[:8])
def test_a_structured_event_has_one_pass_less(client, post, value, left):
    """As a text or a JSON number; what is no integer counts as absent."""
    answer = sent(client, post, STRUCTURED, body_of(value)[1:-1])
    if left is None:
        assert answer.status == 400
        assert client.appends.received == []
        return
    assert answer.status == 202
    found = kept(client)
    assert (found.address, found.ttls) == ("", (left,))
    assert TTL_ATTRIBUTE not in found.events[0].attributes
    assert found.events[0].attributes["id"] == "0"


def test_a_long_text_that_is_no_integer_takes_no_time(client, post):
    """A publisher chooses it, and the receiver serves all: no digit is looked at twice."""
    long = ["0" * 60_000 + "x", "-" + "0" * 60_000 + "x", "9" * 60_000 + "x"]
    with little_work():
        assert sent(client, post, BATCH, body_of(*long * 5)).status == 202
    assert kept(client).ttls == (TTL_DEFAULT,) * 15


@pytest.mark.parametrize(("value", "left"), [("2", 1), ("999", TTL_DEFAULT), ("x", TTL_DEFAULT)])
def test_a_binary_event_has_one_pass_less(client, event, value, left):
    """The header's name has no case."""
    assert client.statuses(event(more=b"CE-KnativeBrokerTTL: %s\r\n" % value.encode())) == [202]
    found = kept(client)
    assert found.ttls == (left,)
    assert list(found.events[0].attributes) == [
        *("specversion", "id", "source", "type", "datacontenttype")
    ]
    assert found.events[0].data == b"{}"


def test_a_binary_event_without_passes_is_refused_by_the_header(client, event):
    """With a code of its own, which is counted; the connection goes on."""
    answers = client.send(event(more=b"ce-knativebrokerttl: 1\r\n"), event())
    assert [answer.status for answer in answers] == [400, 202]
    assert answers[0].problem["code"] == "hop-limit"
    (fault,) = answers[0].problem["faults"]
    assert (fault["path"], fault["code"]) == ("ce-knativebrokerttl", "hop-limit")
    assert client.context.counters.refusals_by_code["hop-limit"] == 1


def test_a_structured_event_is_refused_by_its_member(client, post):
    """A header of that name beside it says nothing, as any ``ce-`` header there."""
    fields = STRUCTURED + b"ce-knativebrokerttl: 7\r\n"
    answer = sent(client, post, fields, body_of(0)[1:-1])
    assert [fault["path"] for fault in answer.problem["faults"]] == ["$.knativebrokerttl"]


def test_a_batch_with_used_up_events_is_refused_whole_and_names_them_all(client, post):
    """Nothing of it is kept."""
    answer = sent(client, post, BATCH, body_of(5, 1, None, "0", "x"))
    assert (answer.status, answer.problem["code"]) == (400, "hop-limit")
    paths = [fault["path"] for fault in answer.problem["faults"]]
    assert paths == ["$[1].knativebrokerttl", "$[3].knativebrokerttl"]
    assert client.appends.received == []


def test_a_batch_keeps_the_passes_of_each_event(client, post):
    """Also of those that say nothing; the key of its partition as before."""
    assert sent(client, post, BATCH, body_of(None, 7, "x", partitionkey="k")).status == 202
    assert kept(client).ttls == (TTL_DEFAULT, 6, TTL_DEFAULT)
    assert client.appends.received[0].partition_key == "k"


def test_two_headers_are_refused_as_any_double_attribute(client, event):
    """Nobody knows which of them counts."""
    (answer,) = client.send(event(more=b"ce-knativebrokerttl: 9\r\nce-knativebrokerttl: 8\r\n"))
    assert (answer.status, answer.problem["code"]) == (400, "malformed-event")


def test_faults_of_the_event_come_first(client, post):
    """A batch that is no batch of events is told that, not its passes."""
    answer = sent(client, post, BATCH, body_of(0, id=""))
    assert answer.problem["code"] == "malformed-event"


def test_a_broker_counts_its_own_passes(client, event):
    """Address and passes stand in one record."""
    client.context.addresses.learn({"brokers/a/b": "uid"})
    request = event(more=b"ce-knativebrokerttl: 3\r\n").replace(b"/events", b"/brokers/a/b", 1)
    assert client.statuses(request) == [202]
    found = kept(client)
    assert (found.address, found.ttls) == ("uid", (2,))


def test_an_event_without_the_attribute_is_kept_as_it_came(client, event):
    """The record of the default broker is the events alone."""
    client.send(event())
    (received,) = client.appends.received
    assert received.kind == RecordKind.EVENTS
    assert len(record.decode(received.body)) == 1
