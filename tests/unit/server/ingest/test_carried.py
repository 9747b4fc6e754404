"""Header fields of a request that go along with its events, and those that are nobody else's."""

import pytest

from distributary.core.event import carried
from distributary.core.flow import TTL_DEFAULT, RecordKind, decode_addressed

CANARY = b"must-never-leave"
SECRETS = b"".join(
    name + b": " + CANARY + b"\r\n"
    for name in (b"Authorization", b"Cookie", b"Proxy-Authorization", b"X-Api-Key", b"X-Anything")
)
ALONG = (
    b"Knative-Hello:  world\r\nX-Request-Id: r1\r\ntraceparent: 00-ab-cd-01\r\nX-B3-Flags: 1\r\n"
)
LINES = b"knative-hello: world\r\nx-request-id: r1\r\ntraceparent: 00-ab-cd-01\r\nx-b3-flags: 1\r\n"


@pytest.mark.parametrize(
    ("path", "address"),
    [
        (b"/brokers/shop/orders", "uid-1"),
        (b"/channels/shop/orders", "uid-2"),
        (b"/events", ""),
    ],
)
def test_knative_and_tracing_fields_are_logged_with_the_events(client, event, path, address):
    """Wherever they are published; nothing else of the request's header is."""
    client.context.addresses.learn(
        {"brokers/shop/orders": "uid-1", "channels/shop/orders": "uid-2"}
    )
    assert client.statuses(event(more=ALONG + SECRETS).replace(b"/events", path, 1)) == [202]
    (received,) = client.appends.received
    assert received.kind == RecordKind.CARRIED
    found = decode_addressed(received.body)
    assert (found.address, found.ttls, found.carried) == (address, (TTL_DEFAULT,), LINES)
    assert found.events[0].attributes["id"] == "1"
    assert CANARY not in received.body


def test_a_request_without_such_fields_makes_the_record_that_it_always_made(client, event):
    """The usual event costs no byte more."""
    assert client.statuses(event(more=SECRETS)) == [202]
    (received,) = client.appends.received
    assert received.kind == RecordKind.EVENTS
    assert CANARY not in received.body


def test_more_of_them_than_is_carried_is_refused(client, event):
    """With the limits; nothing is kept, and the connection goes on."""
    most = b"".join(b"knative-%d: x\r\n" % n for n in range(carried.CARRIED_COUNT_MAX + 1))
    (answer,) = client.send(event(more=most))
    assert answer.status == 431
    assert str(carried.CARRIED_COUNT_MAX) in answer.problem["detail"]
    assert client.appends.received == []
    assert client.statuses(event()) == [202]
