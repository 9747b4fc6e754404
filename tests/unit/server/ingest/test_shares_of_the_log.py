"""What one tenant leaves to the others while events wait for a log that does not answer."""

import json

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.server.ingest import IngestSettings
from distributary.server.ingest._limits import RECORD_BYTES_MIN

PATHS = {
    "namespaces/shop/events": "@shop",
    "brokers/shop/b": "uid-b",
    "channels/shop/c": "uid-c",
    "namespaces/till/events": "@till",
}
ROOM = IngestSettings(body_bytes_max=4_000, held_bytes_max=64 * RECORD_BYTES_MIN)
HALF = ROOM.held_bytes_max // 2
BODY = b'"' + b"x" * 998 + b'"'


@pytest.fixture
def first(connect):
    """A receiver of two tenants, whose log is held."""
    client = connect(settings=ROOM)
    client.context.learn(PATHS)
    client.appends.held = True
    return client


@pytest.fixture
def waiting(connect, first, event):
    """Publishes, one connection an event, until one is refused; returns the clients before it."""

    def waiting(path, request=None):
        clients = []
        while True:
            client = connect(context=first.context)
            sent = (request or event(BODY)).replace(b"/events", path, 1)
            answers = client.send(sent)
            if answers:
                assert [answer.status for answer in answers] == [503]
                return clients, answers[0]
            clients.append(client)

    return waiting


def settled(first, clients, error=None):
    """The log goes on: what each client is answered."""
    while first.appends.waiting:
        first.appends.settle(error=error)
    return [[answer.status for answer in client.answers()] for client in clients]


def share_of(client, address):
    """The bytes that the namespace of *address* has here."""
    return client.context.bodies.by_address[address].bytes


def structured(*, batch):
    """The same event in JSON, alone or in a batch."""
    one = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": "x" * 900}
    body = json.dumps([one] if batch else one).encode()
    form = b"cloudevents-batch" if batch else b"cloudevents"
    return (
        b"POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/%s+json\r\n"
        b"content-length: %d\r\n\r\n%s" % (form, len(body), body)
    )


@pytest.mark.parametrize("path", ["namespaces/shop/events", "brokers/shop/b", "channels/shop/c"])
@pytest.mark.parametrize("form", ["binary", "structured", "batch"])
def test_a_tenant_whose_events_wait_leaves_room_to_others(first, waiting, path, form):
    """It is refused at its share; the other's events are taken, and acknowledged with its own."""
    request = None if form == "binary" else structured(batch=form == "batch")
    shop, refused = waiting(b"/" + path.encode(), request)
    one = len(first.appends.received[0].body) + RECORD_BYTES_MIN
    assert share_of(first, "@shop") == len(shop) * one
    assert HALF <= len(shop) * one < HALF + one
    assert refused.problem["code"] == "unavailable"
    assert refused.fields[b"retry-after"] == b"1"
    assert refused.problem["detail"] == (
        "Too many bytes of the namespace shop arrive or wait for the log."
        " At most 32768 may, and 16384 once half of all 65536 are taken."
    )
    till, refused = waiting(b"/namespaces/till/events", request)
    assert HALF // 2 <= share_of(first, "@till") < HALF // 2 + 2 * one
    assert "namespace till" in refused.problem["detail"]
    assert settled(first, shop + till) == [[202]] * len(shop + till)
    assert_nothing_is_held(first.context)


def test_all_paths_of_a_namespace_have_one_share(first, waiting):
    """A Channel is no way around it."""
    shop, _ = waiting(b"/namespaces/shop/events")
    assert waiting(b"/channels/shop/c")[0] == waiting(b"/brokers/shop/b")[0] == []
    assert settled(first, shop) == [[202]] * len(shop)


@pytest.mark.parametrize("slow", ["/events", "/namespaces/shop/events"])
def test_the_namespace_default_is_a_tenant_beside_others(first, waiting, slow):
    """Each leaves room to the other."""
    other = "/events" if slow != "/events" else "/namespaces/shop/events"
    assert len(waiting(slow.encode())[0]) > len(waiting(other.encode())[0]) > 0
    settled(first, ())


def test_a_tenant_alone_has_all(waiting, first):
    """Where no other namespace has an address, no room is left for any."""
    first.context.learn({"brokers/default/b": "uid-d"})
    assert len(waiting(b"/events")[0]) in (31, 32)
    settled(first, ())
    assert first.context.counters.held_bytes == 0


def test_a_namespace_that_comes_finds_the_counts_right(first, waiting):
    """What was there before it counts for nobody, and leaves nothing behind."""
    first.context.learn({})
    alone, _ = waiting(b"/events")
    first.context.learn(PATHS)
    settled(first, alone)
    assert_nothing_is_held(first.context)
    waiting(b"/namespaces/shop/events")
    first.context.learn({})
    first.context.learn(PATHS)
    assert waiting(b"/namespaces/shop/events")[0] == []
    settled(first, ())
    assert_nothing_is_held(first.context)


def test_arriving_and_waiting_are_one_share(connect, first, waiting, event):
    """Who has events that wait for the log begins no further body."""
    shop, _ = waiting(b"/namespaces/shop/events")
    late = connect(context=first.context)
    begun = event(BODY).replace(b"/events", b"/namespaces/shop/events", 1)[:-1]
    assert late.statuses(begun) == [503]
    till = connect(context=first.context)
    sent = event(BODY).replace(b"/events", b"/namespaces/till/events", 1)
    assert till.statuses(sent[:-1]) == []
    assert share_of(first, "@till") == len(BODY) - 1
    at_append = []
    take = first.appends.submit

    def submit(received, done):
        at_append.append(share_of(first, "@till"))
        take(received, done)

    first.appends.submit = submit
    till.send(sent[-1:])
    record = first.appends.received[-1].body
    assert at_append == [len(record) + RECORD_BYTES_MIN] == [share_of(first, "@till")]
    assert settled(first, [*shop, till]) == [[202]] * (len(shop) + 1)
    assert_nothing_is_held(first.context)


def test_bodies_that_are_begun_together_have_no_more_than_half(connect, first, event):
    """Each was admitted while nothing was here; then all come at once."""
    sent = event(b'"' + b"x" * 3_900 + b'"').replace(b"/events", b"/namespaces/shop/events", 1)
    clients = [connect(context=first.context) for _ in range(20)]
    assert [client.statuses(sent[:-3_000]) for client in clients] == [[]] * 20
    statuses = [client.statuses(sent[-3_000:]) for client in clients]
    refused = statuses.count([503])
    assert statuses.count([]) == 20 - refused
    assert 0 < refused < 20
    one = len(first.appends.received[0].body) + RECORD_BYTES_MIN
    assert share_of(first, "@shop") <= HALF + one
    till = connect(context=first.context)
    assert till.statuses(sent.replace(b"shop", b"till", 1)) == []
    taken = [client for client, found in zip(clients, statuses, strict=True) if not found]
    assert settled(first, [*taken, till]) == [[202]] * (len(taken) + 1)
    assert_nothing_is_held(first.context)
    assert clients[-1].statuses(sent) == []  # it was refused, and goes on


def test_an_append_that_fails_frees_its_share(first, waiting):
    """And the tenant may send again."""
    shop, _ = waiting(b"/namespaces/shop/events")
    assert settled(first, shop, LogUnavailableError("no space")) == [[503]] * len(shop)
    assert_nothing_is_held(first.context)
    assert len(waiting(b"/namespaces/shop/events")[0]) == len(shop)
    settled(first, ())


@pytest.mark.parametrize("splits", [False, True])
def test_each_record_of_a_batch_counts(first, splits):
    """One where it stays a record, and one an event where each is looked for by its id."""
    first.appends.splits = splits
    one = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    body = json.dumps([one] * 5).encode()
    first.send(
        b"POST /namespaces/shop/events HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/cloudevents-batch+json\r\ncontent-length: %d\r\n\r\n%s"
        % (len(body), body)
    )
    (received,) = first.appends.received
    records = 5 if splits else 1
    held = len(received.body) + records * RECORD_BYTES_MIN
    assert share_of(first, "@shop") == held
    settled(first, ())
    assert_nothing_is_held(first.context)


def assert_nothing_is_held(context):
    """All counts are back at zero."""
    assert context.counters.held_bytes == context.counters.appends_in_flight == 0
    assert {share.bytes for share in context.bodies.by_address.values()} == {0}
