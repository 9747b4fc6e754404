"""What one tenant, or all who are not known, leave to others of the memory for bodies."""

import random

import pytest
from tests.unit.server.ingest.conftest import EVENT_FIELDS

from distributary.access import (
    AccessSnapshot,
    Grant,
    Identity,
    IdentityKind,
    KeyRecord,
    Verb,
    make_key,
)
from distributary.net.http1 import Request
from distributary.server.ingest import IngestSettings
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._event_paths import EventPaths
from distributary.server.ingest._held_bodies import HeldBodies, HeldBody

KEYS = {name: make_key(random.Random(name).randbytes) for name in ("shop", "till", "both")}
NAMESPACES = {"both": ("shop", "till")}
SNAPSHOT = AccessSnapshot(
    required=True,
    keys=tuple(
        KeyRecord(
            id=key.id,
            name=name,
            sha256=key.sha256,
            grants=(Grant(may=(Verb.PUBLISH,), namespaces=NAMESPACES.get(name, (name,))),),
        )
        for name, key in KEYS.items()
    ),
)
LIMITS = IngestSettings(body_bytes_max=1000, held_bytes_max=4000)


def head(namespace: str, by: str, length: int = 1000) -> bytes:
    """The head of a request with a body of *length* bytes."""
    return (
        b"POST /namespaces/%s/events HTTP/1.1\r\n%sauthorization: Bearer %s\r\n"
        b"content-length: %d\r\n\r\n"
    ) % (namespace.encode(), EVENT_FIELDS, KEYS[by].text.encode(), length)


@pytest.fixture
def guarded(connect):
    """Makes connections to one receiver, which asks who its clients are."""
    first = connect(settings=LIMITS)
    first.context.gate.replace(SNAPSHOT)
    first.context.learn({f"namespaces/{name}/events": f"@{name}" for name in ("shop", "till")})
    return lambda: connect(context=first.context)


def arriving(guarded, namespace: str, by: str, most: int = 9) -> list:
    """Connections with half a body each, as many as one after the other are not refused."""
    held = []
    while len(held) < most:
        client = guarded()
        statuses = client.statuses(head(namespace, by), b"x" * 999)
        if statuses:
            assert statuses == [503]
            return held
        held.append(client)
    return held


def test_a_tenant_leaves_memory_to_the_bodies_of_others(guarded):
    """Half of it while nobody else sends; once half is taken, a quarter for each."""
    shop = arriving(guarded, "shop", "shop")
    assert len(shop) == 2
    till = arriving(guarded, "till", "till")
    assert len(till) == 1
    assert [client.statuses(b"x") for client in (*shop, *till)] == [[202]] * 3
    context = shop[0].context
    assert context.counters.held_bytes == 0
    assert [context.bodies.by_address[f"@{name}"].bytes for name in ("shop", "till")] == [0, 0]


def test_events_take_of_the_namespace_that_they_go_to(guarded):
    """Whoever sends them, as with quotas: a key for several namespaces has a share in each."""
    arriving(guarded, "shop", "shop")
    assert len(arriving(guarded, "shop", "both")) == 0
    assert len(arriving(guarded, "till", "both")) == 1


def test_a_tenant_at_its_share_is_refused_before_the_body(guarded):
    """By the head alone; whoever else sends is not."""
    arriving(guarded, "shop", "shop")
    (client,) = arriving(guarded, "till", "till")
    (answer,) = guarded().send(head("shop", "shop"))
    assert answer.status == 503
    assert answer.problem["detail"] == (
        "Too many bytes of the namespace shop arrive or wait for the log."
        " At most 2000 may, and 1000 once half of all 4000 are taken."
    )
    assert client.statuses(b"x") == [202]


def test_one_body_may_be_as_large_as_all(connect):
    """It is never refused for its own bytes: its sender would try for ever."""
    client = connect(settings=IngestSettings(body_bytes_max=1000, held_bytes_max=1000))
    client.context.gate.replace(SNAPSHOT)
    client.context.learn({"namespaces/shop/events": "@shop"})
    assert client.statuses(head("shop", "shop"), b"x" * 999, b"x") == [202]


def test_bodies_of_who_is_not_known_take_no_more_than_a_tenant(guarded):
    """All of them together."""
    consent = b"POST /consent/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"
    guarded().context.dial = lambda *_: None
    held = []
    while True:
        client = guarded()
        statuses = client.statuses(consent, b"x" * 999)
        if statuses:
            assert statuses == [503]
            break
        held.append(client)
    assert len(held) == 2
    assert len(arriving(guarded, "shop", "shop")) == 1


def test_one_connection_holds_for_one_at_a_time():
    """A client may show another key with its next request, half of which came with the first."""
    counters = Counters()
    bodies = HeldBodies(counters, EventPaths())
    held = HeldBody(bodies)
    rng = random.Random(7)
    requests = [request_of(name) for name in ("shop", "till", "*")]
    shares = [bodies.share_of(request) for request in requests[:2]]
    for _ in range(300):
        request = rng.choice(requests)
        size = rng.randrange(3)
        held.hold(request, size)
        if rng.random() < 0.3:
            held.release()
            size = 0
        assert counters.held_bytes == held.bytes == size
        of_request = bodies.share_of(request)
        assert [share.bytes for share in shares if share is not of_request] in ([0], [0, 0])
        assert of_request is None or of_request.bytes == size


def test_keys_for_the_same_namespaces_have_one_share():
    """Beside those of each of them alone; a key for all namespaces takes from what is left."""
    bodies = HeldBodies(Counters(), EventPaths())
    names = (("shop",), ("till",), ("shop", "till"), ("till", "shop"))
    shop, till, both, again = (bodies.share_of(request_of(*each)) for each in names)
    assert both is again
    assert len({shop.whose, till.whose, both.whose}) == 3
    assert both.whose == "the namespaces shop, till"
    assert bodies.share_of(request_of("*")) is None


def request_of(*namespaces):
    """A request of a key for *namespaces*."""
    request = Request()
    grants = (Grant(may=(Verb.PUBLISH,), namespaces=namespaces),)
    request.sender = Identity(name="key:k", how=IdentityKind.KEY, grants=grants)
    return request
