"""Paths of Brokers and Channels: which take events, whose they become, and what others answer."""

import pytest

from distributary.core.event import record
from distributary.core.flow import TTL_DEFAULT, RecordKind, decode_addressed
from distributary.server.ingest._event_paths import EventPaths

PATHS = {
    "brokers/default/default": "",
    "brokers/shop/orders": "uid-1",
    "channels/shop/orders": "uid-2",
}


@pytest.fixture
def shop(client):
    """A client of a receiver that knows some Brokers and Channels."""
    client.context.addresses.learn(PATHS)
    return client


def to(event, path, method=b"POST"):
    """An event on its way to *path*."""
    return event().replace(b"POST /events", method + b" " + path, 1)


@pytest.mark.parametrize(
    ("path", "address"),
    [
        (b"/brokers/shop/orders", "uid-1"),
        (b"/channels/shop/orders", "uid-2"),
        (b"/brokers/shop/orders?x=1", "uid-1"),
        (b"http://192.0.2.1/channels/shop/orders", "uid-2"),
    ],
)
def test_events_are_logged_for_the_broker_or_channel_of_their_path(shop, event, path, address):
    """With all their passes, and the key of their partition."""
    keyed = event(more=b"ce-partitionkey: k\r\n").replace(b"/events", path, 1)
    assert shop.statuses(keyed) == [202]
    (received,) = shop.appends.received
    assert (received.kind, received.event_count, received.partition_key) == (
        RecordKind.ADDRESSED,
        1,
        "k",
    )
    found = decode_addressed(received.body)
    assert (found.address, found.ttls) == (address, (TTL_DEFAULT,))
    assert found.events[0].attributes["id"] == "1"


@pytest.mark.parametrize("path", [b"/events", b"/brokers/default/default"])
def test_events_of_the_default_broker_say_nothing_of_it(shop, event, path):
    """The record is what it was before there were others: the hot path stays."""
    assert shop.statuses(to(event, path)) == [202]
    (received,) = shop.appends.received
    assert received.kind == RecordKind.EVENTS
    assert len(record.decode(received.body)) == 1


@pytest.mark.parametrize(
    "path",
    [
        b"/brokers/shop/others",
        b"/brokers/shop/orders/",
        b"/brokers/shop/orders/x",
        b"/brokers/shop/ORDERS",
        b"/brokers/shop/orde%72s",
        b"/brokers/shop",
        b"/brokers/",
        b"/channels/shop/default",
    ],
)
@pytest.mark.parametrize("method", [b"POST", b"GET", b"OPTIONS", b"DELETE"])
def test_what_is_no_broker_or_channel_is_not_found_and_not_passed_on(
    shop, event, path, method, monkeypatch
):
    """By whatever method; the control process has nothing there. The connection goes on."""
    monkeypatch.setattr(shop.context, "dial", pytest.fail)
    answers = shop.send(to(event, path, method), event())
    assert [answer.status for answer in answers] == [404, 202]
    assert answers[0].problem["code"] == "notfound"
    assert len(shop.appends.received) == 1


def test_a_broker_answers_options_and_refuses_other_methods_as_the_events_path(shop):
    """With the methods that it knows."""
    line = b" /brokers/shop/orders HTTP/1.1\r\nhost: localhost\r\n"
    (asked,) = shop.send(b"OPTIONS" + line + b"webhook-request-origin: o\r\n\r\n")
    assert (asked.status, asked.fields[b"allow"]) == (200, b"POST, OPTIONS")
    assert asked.fields[b"webhook-allowed-origin"] == b"*"
    (refused,) = shop.send(b"GET" + line + b"\r\n")
    assert (refused.status, refused.fields[b"allow"]) == (405, b"POST, OPTIONS")


def test_a_broker_that_is_deleted_takes_nothing_more_and_the_events_path_goes_on(shop, event):
    """Even the default broker's own object may be deleted."""
    shop.context.addresses.learn({"channels/shop/orders": "uid-2"})
    statuses = [
        shop.statuses(to(event, path))[0]
        for path in (b"/brokers/shop/orders", b"/brokers/default/default", b"/events")
    ]
    assert statuses == [404, 404, 202]


def test_a_namespace_without_subscriptions_says_what_makes_it_take_events(shop, event):
    """Who was given a key for it would look for a wrong path."""
    answer = shop.send(to(event, b"/namespaces/nobody/events"))[0]
    assert answer.status == 404
    assert "make a subscription in it" in answer.problem["detail"]


def test_a_recreated_broker_gets_what_comes_from_then_on(shop, event):
    """A request that was under way belongs to the Broker that stands when it is whole."""
    whole = event(b"x" * 10).replace(b"/events", b"/brokers/shop/orders", 1)
    assert shop.send(whole[:-5]) == []
    shop.context.addresses.learn({**PATHS, "brokers/shop/orders": "uid-9"})
    assert shop.statuses(whole[-5:], to(event, b"/brokers/shop/orders")) == [202, 202]
    addresses = [decode_addressed(one.body).address for one in shop.appends.received]
    assert addresses == ["uid-9", "uid-9"]


def test_a_broker_that_is_deleted_while_the_body_comes_takes_nothing(shop, event):
    """The sender is told, nothing is kept, and the connection goes on."""
    whole = event(b"x" * 10).replace(b"/events", b"/brokers/shop/orders", 1)
    assert shop.send(whole[:-5]) == []
    shop.context.addresses.learn({})
    assert shop.statuses(whole[-5:], event()) == [404, 202]
    assert len(shop.appends.received) == 1


def test_brokers_that_are_not_known_yet_are_no_broker_that_is_not_there(client, event):
    """Until the store could be read: come again later. ``/events`` needs no store."""
    client.context.addresses = EventPaths()
    answers = client.send(to(event, b"/brokers/shop/orders"), event())
    assert [answer.status for answer in answers] == [503, 202]
    assert answers[0].problem["code"] == "unavailable"


def test_what_is_seen_of_types_is_seen_of_every_broker(shop, event):
    """The service description names them all."""
    shop.send(to(event, b"/brokers/shop/orders"))
    assert shop.context.seen.names.types == ("t",)


@pytest.mark.parametrize("method", [b"POST", b"GET", b"PUT"])
def test_nobody_publishes_to_the_broker_of_the_server(shop, event, method):
    """Neither where there are other Brokers, nor in a namespace that nobody knows."""
    for path in (b"/brokers/shop/lifecycle", b"/brokers/elsewhere/lifecycle"):
        assert shop.statuses(to(event, path, method)) == [403]
    assert shop.statuses(to(event, b"/channels/shop/lifecycle")) == [404]
    assert shop.appends.received == []


def test_a_broker_of_that_name_from_an_earlier_version_goes_on(client, event):
    """Its owner made it before the name was the server's."""
    client.context.addresses.learn({"brokers/shop/lifecycle": "uid-3"})
    assert client.statuses(to(event, b"/brokers/shop/lifecycle")) == [202]
