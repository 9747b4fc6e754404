"""What the receiver answers to whole requests."""

import zlib

import pytest

from distributary.core.errors import LogUnavailableError, RecordTooLargeError
from distributary.core.event import Event, record
from distributary.server.ingest import IngestSettings, partition_key, partition_of
from distributary.server.ingest._limits import RECORD_BYTES_MIN


def test_an_event_is_answered_202_without_a_body(client, event):
    """202 with length 0 and a date; the log got the event."""
    (answer,) = client.send(event(b'{"a":1}'))
    assert (answer.status, answer.body) == (202, b"")
    assert answer.fields == {b"date": b"Thu, 01 Jan 2026 00:00:00 GMT", b"content-length": b"0"}
    (received,) = client.appends.received
    assert (received.event_count, received.partition_key) == (1, None)
    (stored,) = record.decode(received.body)
    assert stored.attributes["id"] == "1"
    assert stored.data == b'{"a":1}'


def test_nothing_is_answered_before_the_event_is_durable(client, event):
    """The answer waits for the log."""
    client.appends.held = True
    assert client.send(event()) == []
    assert client.connection._context.counters.appends_in_flight == 1
    client.appends.settle()
    assert [answer.status for answer in client.answers()] == [202]
    assert client.connection._context.counters.appends_in_flight == 0


def test_both_names_of_the_default_broker_take_events(client, event):
    """``/brokers/default/default`` is ``/events``; a query changes nothing."""
    for path in (b"/brokers/default/default", b"/events?x=1"):
        assert client.statuses(event().replace(b"/events", path, 1)) == [202]


def test_a_batch_is_one_append(client, post):
    """Structured batches go to the log as one record with their count."""
    body = (
        b'[{"specversion":"1.0","id":"1","source":"/s","type":"t"},'
        b'{"specversion":"1.0","id":"2","source":"/s","type":"t","partitionkey":"k"}]'
    )
    fields = b"host: localhost\r\ncontent-type: application/cloudevents-batch+json\r\n"
    assert client.statuses(post(b"content-length: %d\r\n" % len(body), fields=fields) + body) == [
        202
    ]
    (received,) = client.appends.received
    assert received.event_count == 2


@pytest.mark.parametrize(("count", "status"), [(1, 202), (2, 202), (3, 400)])
def test_a_batch_larger_than_the_operator_allows_is_refused_whole(connect, post, count, status):
    """``batch_events_max``: at the limit, below and above it."""
    client = connect(settings=IngestSettings(batch_events_max=2))
    event = '{"specversion":"1.0","id":"%d","source":"/s","type":"t"}'
    body = f"[{','.join(event % number for number in range(count))}]".encode()
    fields = b"host: localhost\r\ncontent-type: application/cloudevents-batch+json\r\n"
    head = post(b"content-length: %d\r\n" % len(body), fields=fields)
    assert client.statuses(head + body) == [status]
    assert [one.event_count for one in client.appends.received] == [count] * (status == 202)


def test_an_empty_batch_is_accepted_and_appends_nothing(client, post):
    """``[]`` is a valid batch: 202, nothing to keep."""
    fields = b"host: localhost\r\ncontent-type: application/cloudevents-batch+json\r\n"
    assert client.statuses(post(b"content-length: 2\r\n", fields=fields) + b"[]") == [202]
    assert client.appends.received == []


def test_every_fault_of_an_event_is_named_with_its_place(client, post):
    """400 problem details list each fault by header name."""
    fields = b"host: localhost\r\nce-specversion: 1.0\r\nce-id: \r\nce-type: t\r\n"
    (answer,) = client.send(post(b"content-length: 0\r\n", fields=fields))
    assert answer.status == 400
    assert answer.problem["code"] == "malformed-event"
    assert answer.problem["status"] == 400
    assert {fault["path"] for fault in answer.problem["faults"]} == {"ce-id", "ce-source"}
    assert not client.ended


@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"PATCH"])
def test_other_methods_on_the_events_path_are_405(client, method):
    """405 names what is allowed; the connection goes on."""
    (answer,) = client.send(method + b" /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert (answer.status, answer.fields[b"allow"]) == (405, b"GET, HEAD, POST, OPTIONS")
    assert not client.ended


def test_head_is_answered_without_a_body(client, event):
    """HEAD gets the header alone (here nobody searches events), and the next answer follows."""
    client.connection.data_received(b"HEAD /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    (answer,) = client.answers(head=True)
    assert (answer.status, answer.body) == (404, b"")
    assert int(answer.fields[b"content-length"]) > 0
    assert client.statuses(event()) == [202]


@pytest.mark.parametrize(
    "method", [b"TRACE / HTTP/1.1", b"CONNECT h:80 HTTP/1.1", b"FROB / HTTP/1.1"]
)
def test_methods_that_no_resource_knows_are_405_and_the_end(client, method):
    """CONNECT, TRACE and made-up methods are refused (H9)."""
    (answer,) = client.send(method + b"\r\nhost: localhost\r\n\r\n")
    assert answer.status == 405
    assert b"POST" in answer.fields[b"allow"]
    assert client.ended


def test_options_says_what_is_allowed(client):
    """Without the handshake's question there is no permission in the answer."""
    (answer,) = client.send(b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert (answer.status, answer.fields[b"allow"]) == (200, b"GET, HEAD, POST, OPTIONS")
    assert b"webhook-allowed-origin" not in answer.fields


def test_options_grants_permission_to_who_asks(client):
    """CloudEvents http-webhook 4.2: origin and rate are granted, rate asked for or not."""
    (answer,) = client.send(
        b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\nWebHook-Request-Origin: e.example\r\n\r\n"
    )
    assert answer.status == 200
    assert answer.fields[b"webhook-allowed-origin"] == b"*"
    assert answer.fields[b"webhook-allowed-rate"] == b"*"


def test_options_of_the_server_as_a_whole(client):
    """``OPTIONS *`` is about the server."""
    (answer,) = client.send(b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert answer.status == 200
    assert b"DELETE" in answer.fields[b"allow"]


def test_other_paths_are_404_where_there_is_no_control_process(client):
    """Without a control socket only the events path answers."""
    assert client.statuses(b"GET /subscriptions HTTP/1.1\r\nhost: localhost\r\n\r\n") == [404]


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"identity, gzip", b"x"])
def test_coded_bodies_are_415(client, event, coding):
    """No Content-Encoding is undone (H8): 415 says that identity is taken."""
    (answer,) = client.send(event(more=b"content-encoding: %s\r\n" % coding))
    assert (answer.status, answer.fields[b"accept-encoding"]) == (415, b"identity")
    assert client.appends.received == []


def test_identity_is_no_coding(client, event):
    """``Content-Encoding: identity`` changes nothing."""
    assert client.statuses(event(more=b"content-encoding: Identity\r\n")) == [202]


@pytest.mark.parametrize("content_type", [b"application/cloudevents+avro", b"application/json"])
def test_unknown_formats_are_415(client, post, content_type):
    """Neither structured JSON nor ce- headers: not a format that we know."""
    fields = b"host: localhost\r\ncontent-type: %s\r\n" % content_type
    (answer,) = client.send(post(b"content-length: 2\r\n", fields=fields) + b"{}")
    assert answer.status == 415
    assert b"accept-encoding" not in answer.fields


def test_a_log_that_is_behind_is_503_with_retry_after(connect, event):
    """Nothing is read into memory that cannot be kept; the connection goes on."""
    first = connect(settings=IngestSettings(body_bytes_max=1000, held_bytes_max=1000))
    first.appends.held = True
    first.send(event())
    client = connect(context=first.context)
    (answer,) = client.send(event())
    assert (answer.status, answer.fields[b"retry-after"]) == (503, b"1")
    assert answer.problem["code"] == "unavailable"
    first.appends.held = False
    first.appends.settle()
    assert client.statuses(event()) == [202]


def test_a_closed_log_is_503(client, event):
    """Disk full or failed fsync: 503 until the log takes events again."""
    client.appends.open = False
    (answer,) = client.send(event())
    assert answer.problem["code"] == "log-unavailable"


def test_a_failed_append_is_503_never_2xx(client, event):
    """What the log did not keep is not acknowledged, and why is not told to strangers."""
    client.appends.error = LogUnavailableError("/secret/path: no space")
    (answer,) = client.send(event())
    assert (answer.status, answer.fields[b"retry-after"]) == (503, b"1")
    assert b"secret" not in answer.body
    assert client.connection._context.counters.accepted_events == 0


def test_too_many_appends_in_flight_are_503(connect, event):
    """However small they are: each counts a kilobyte more. It is free again after the answers."""
    client = connect(settings=IngestSettings(body_bytes_max=9, held_bytes_max=2 * RECORD_BYTES_MIN))
    client.appends.held = True
    client.send(event(), event(), event())
    client.appends.held = False
    client.appends.settle()
    client.appends.settle()
    assert [answer.status for answer in client.answers()] == [202, 202, 503]
    assert client.statuses(event()) == [202]


def test_counters_say_what_was_done(client, event):
    """Events, answers by status and code, bytes, ack times."""
    sent = event() + b"PUT /events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    client.send(sent)
    counters = client.connection._context.counters
    assert (counters.accepted_events, counters.accepted_requests) == (1, 1)
    assert dict(counters.answers_by_status) == {202: 1, 405: 1}
    assert dict(counters.refusals_by_code) == {"method-not-allowed": 1}
    assert counters.received_bytes == len(sent)
    assert (sum(counters.ack_buckets), counters.ack_buckets[0]) == (1, 1)
    assert counters.held_bytes == 0


def test_ack_times_are_counted_in_buckets(client, event):
    """An append that took 3 ms lies in the bucket up to 5 ms."""
    client.appends.held = True
    client.send(event())
    client.clock.now_s += 0.003
    client.appends.settle()
    counters = client.connection._context.counters
    assert counters.ack_buckets[3] == 1
    assert counters.ack_seconds == pytest.approx(0.003)


def test_a_key_chooses_its_partition():
    """The same key, the same partition, by CRC-32."""
    assert partition_of("key", 4) == zlib.crc32(b"key") % 4
    assert partition_of("ключ", 2) == zlib.crc32("ключ".encode()) % 2


@pytest.mark.parametrize(
    ("value", "key"), [("a", "a"), (7, "7"), (True, "true"), (None, None)], ids=str
)
def test_the_partition_key_is_the_first_events(value, key):
    """``partitionkey`` of the first event in canonical form speaks for its batch."""
    attributes = {"id": "1"} if value is None else {"id": "1", "partitionkey": value}
    events = [Event(attributes, None), Event({"id": "2", "partitionkey": "other"}, None)]
    assert partition_key(events) == key


def test_what_no_record_holds_is_413(client, event):
    """For good: who is told to come back would send it for ever."""
    client.appends.error = RecordTooLargeError("a record of 17 MiB")
    (answer,) = client.send(event())
    assert (answer.status, answer.problem["code"]) == (413, "content-too-large")
    client.appends.error = None
    assert client.statuses(event()) == [202]
