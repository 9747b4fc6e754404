"""Requests without an identity, or without a grant: refused with the head, before the body."""

import gc
import random
import tracemalloc

import msgspec
import pytest
from tests.unit.server.ingest.conftest import EVENT_FIELDS, event

from distributary.access import (
    AccessSnapshot,
    Grant,
    KeyRecord,
    Verb,
    make_key,
)
from distributary.server.ingest._needs import need_of

KEYS = {
    name: make_key(random.Random(name).randbytes) for name in ("till", "reader", "watcher", "other")
}
GRANTS = {
    "till": Grant(may=(Verb.PUBLISH,), namespaces=("default",)),
    "reader": Grant(may=(Verb.READ,), namespaces=("default",)),
    "watcher": Grant(may=(Verb.OBSERVE,), namespaces=("*",)),
    "other": Grant(may=(Verb.ADMIN,), namespaces=("shop",)),
}
SNAPSHOT = AccessSnapshot(
    required=True,
    keys=tuple(
        KeyRecord(id=key.id, name=name, sha256=key.sha256, grants=(GRANTS[name],))
        for name, key in KEYS.items()
    ),
)
ADMITTED = 503  # no control process is there to answer


def shown(name: str) -> bytes:
    """The header line of a key."""
    return b"authorization: Bearer " + KEYS[name].text.encode() + b"\r\n"


@pytest.fixture
def guarded(client):
    """A receiver that asks who its clients are."""
    client.context.gate.replace(SNAPSHOT)
    return client


@pytest.mark.parametrize("times", [1, 5], ids=["parsed", "plain"])
def test_who_may_publish_publishes(guarded, times):
    """Through the parser, and in plain form."""
    for _ in range(times):
        assert guarded.statuses(event(more=shown("till"))) == [202]
    assert [received.by for received in guarded.appends.received] == ["key:till"] * times


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        (b"", 401, "unauthenticated"),
        (b"authorization: Basic eDp5\r\n", 401, "unauthenticated"),
        (b"authorization: Bearer dk_x\r\n", 401, "invalid-credentials"),
        (shown("reader"), 403, "forbidden"),
        (shown("other"), 403, "forbidden"),
        (shown("till") + shown("till"), 400, "bad-request"),
    ],
)
def test_who_may_not_is_refused(guarded, more, status, code):
    """Also after the same connection was used by somebody who may, in plain form."""
    for _ in range(4):
        assert guarded.statuses(event(more=shown("till"))) == [202]
    (answer,) = guarded.send(event(more=more))
    assert (answer.status, answer.problem["code"]) == (status, code)
    assert len(guarded.appends.received) == 4


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("byte", [0x00, 0x01, 0x0B, 0x7F])
def test_a_field_that_http_does_not_allow_is_refused_in_plain_form_too(client, required, byte):
    """Also inside of a credential, which the plain form takes without a look at its bytes."""
    client.context.gate.replace(SNAPSHOT if required else AccessSnapshot())
    for _ in range(4):
        assert client.statuses(event(more=shown("till"))) == [202]
    more = shown("till").replace(b"dk_", b"dk_%c" % byte)
    assert client.statuses(event(more=more)) == [400]


def test_a_challenge_goes_with_each_401(guarded):
    """RFC 9110 section 15.5.2."""
    (answer,) = guarded.send(event())
    assert answer.fields[b"www-authenticate"] == b'Bearer realm="distributary"'


def test_the_body_is_not_read_first(guarded):
    """The head alone brings the answer."""
    head = b"POST /events HTTP/1.1\r\n" + EVENT_FIELDS + b"content-length: 1000000\r\n\r\n"
    (answer,) = guarded.send(head)
    assert answer.status == 401
    assert guarded.context.counters.held_bytes == 0


def test_a_revoked_key_is_refused_at_once(guarded):
    """In plain form too."""
    for _ in range(4):
        guarded.send(event(more=shown("till")))
    guarded.context.gate.replace(AccessSnapshot(required=True))
    assert guarded.statuses(event(more=shown("till"))) == [401]


def test_a_key_that_expires_is_refused_within_a_sweep(guarded, connect):
    """In plain form too, where nobody looks at its time, and which others keep in use."""
    until_ms = guarded.clock.wall_ms() + 5_000
    till, reader, *_ = SNAPSHOT.keys
    keys = (
        msgspec.structs.replace(till, until_ms=until_ms),
        msgspec.structs.replace(reader, grants=till.grants),
    )
    guarded.context.gate.replace(msgspec.structs.replace(SNAPSHOT, keys=keys))
    lasting = connect(context=guarded.context)
    for _ in range(4):
        assert guarded.statuses(event(more=shown("till"))) == [202]
    guarded.wait(5)
    for _ in range(4):
        assert lasting.statuses(event(more=shown("reader"))) == [202]
    assert guarded.statuses(event(more=shown("till"))) == [401]


def test_who_is_not_known_is_not_refused_for_good_while_keys_may_have_been_made_unheard(guarded):
    """A node that does not hear of keys says 503; it takes those that nobody can revoke."""
    stored = SNAPSHOT.keys[-1]
    known = msgspec.structs.replace(SNAPSHOT, keys=(*SNAPSHOT.keys[:-1], stored), stored=1)
    assert known.configured_alone().keys == SNAPSHOT.keys[:-1]
    guarded.context.gate.replace(AccessSnapshot(required=True))
    guarded.context.stale = True
    (answer,) = guarded.send(event(more=shown("till")))
    assert (answer.status, answer.problem["code"]) == (503, "unavailable")
    assert b"retry-after" in answer.fields
    guarded.context.stale = False
    assert guarded.statuses(event(more=shown("till"))) == [401]


def test_brokers_that_may_be_gone_are_answered_503_and_events_go_on(client):
    """A node that does not hear of deletions."""
    client.context.learn({"brokers/default/shop": "uid"})
    broker = event().replace(b"/events", b"/brokers/default/shop")
    assert client.statuses(broker) == [202]
    client.context.addresses.forget()
    assert client.statuses(broker) == [503]
    assert client.statuses(event()) == [202]


def get(path: bytes, more: bytes = b"", method: bytes = b"GET") -> bytes:
    """A request without a body."""
    return b"%s %s HTTP/1.1\r\nhost: localhost\r\n%s\r\n" % (method, path, more)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (b"/subscriptions", {"reader"}),
        (b"/subscriptions/x/status", {"reader"}),
        (b"/events", {"reader"}),
        (b"/events/0-1-0", {"reader"}),
        (b"/%65vents", {"reader"}),
        (b"/namespaces/shop/events", {"other"}),
        (b"/namespaces/shop/events/0-1-0", {"other"}),
        (b"/dead-letters", {"reader"}),
        (b"/%73ubscriptions", {"reader"}),
        (b"/namespaces/shop/subscriptions", {"other"}),
        (b"/namespaces/default/subscriptions", {"reader"}),
        (b"/keys", {"other"}),
        (b"/keys/some-id", {"other"}),
        (b"/k%65ys", {"other"}),
        (b"/whoami", set(KEYS)),
        (b"/can?verb=publish&resource=events", set(KEYS)),
        (b"/metrics", {"watcher", "other"}),
        (b"/%6detrics", {"watcher", "other"}),
        (b"/cluster", {"watcher"}),
        (b"/apis/eventing.knative.dev/v1/namespaces/shop/triggers", {"other"}),
        (b"/apis/eventing.knative.dev/v1/triggers", set()),
        (b"/apis/eventing.knative.dev/v1/watch/namespaces/shop/triggers", {"other"}),
        (b"/api/v1/namespaces", set()),
        (b"/api/v1/namespaces/shop", {"other"}),
        (b"/api/v1/n%61mespaces/shop", {"other"}),
        (b"/apis", set(KEYS)),
        (b"/version", set(KEYS)),
        (b"/", set(KEYS)),
        (b"/nowhere", set(KEYS)),
    ],
)
def test_a_path_asks_for_its_verb_in_its_namespace(guarded, path, allowed):
    """Whatever way it is spelt."""
    guarded.context.dial = lambda _relay, failed, _path: failed()
    assert guarded.statuses(get(path)) == [401]
    for name in KEYS:
        expected = ADMITTED if name in allowed else 403
        assert guarded.statuses(get(path, shown(name))) == [expected], name


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz", b"/docs", b"/openapi.json"])
def test_some_paths_are_open_to_all(guarded, path):
    """Also to who shows something that is not valid."""
    guarded.context.dial = lambda _relay, failed, _path: failed()
    for more in (b"", b"authorization: Bearer x\r\n", shown("till")):
        assert guarded.statuses(get(path, more)) == [ADMITTED]


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH", b"DELETE", b"PURGE"])
def test_what_is_no_reading_is_writing(method):
    """Unknown methods too."""
    need = need_of(method, b"/namespaces/shop/subscriptions/x")
    assert need.permission == (Verb.WRITE, "shop", "")


def test_a_broker_is_named_by_its_path():
    """And /events is the Broker ``default`` of the namespace ``default``."""
    assert need_of(b"POST", b"/events").permission == (Verb.PUBLISH, "default", "brokers/default")
    assert need_of(b"POST", b"/brokers/shop/till").permission == (
        Verb.PUBLISH,
        "shop",
        "brokers/till",
    )
    assert need_of(b"POST", b"/channels/a/b").permission == (Verb.PUBLISH, "a", "channels/b")


def test_a_status_tells_clients_of_the_kubernetes_api(guarded):
    """They understand nothing else."""
    (answer,) = guarded.send(get(b"/apis/eventing.knative.dev/v1/triggers"))
    assert (answer.status, answer.fields[b"content-type"]) == (401, b"application/json")
    assert b'"reason":"Unauthorized"' in answer.body


WATCH = b"/apis/eventing.knative.dev/v1/namespaces/default/triggers?watch=1"


@pytest.mark.parametrize(
    ("snapshot", "ends"),
    [
        (SNAPSHOT, False),
        (AccessSnapshot(required=False), False),
        (AccessSnapshot(required=True), True),
        (
            AccessSnapshot(
                required=True,
                keys=tuple(
                    msgspec.structs.replace(key, grants=(GRANTS["till"],)) for key in SNAPSHOT.keys
                ),
            ),
            True,
        ),
    ],
    ids=["the same", "auth off", "key revoked", "grant taken"],
)
def test_a_watch_ends_with_the_access_of_its_sender(guarded, control, snapshot, ends):
    """Within a sweep, which is a second; in order, so that the client asks again."""
    guarded.send(get(WATCH, shown("reader")))
    control.answer(b"HTTP/1.1 200 OK\r\n\r\n", b"{}\n")
    guarded.context.gate.replace(snapshot)
    guarded.connection.sweep(guarded.clock.now_s + 1)
    assert guarded.transport.written.endswith(b"\r\n0\r\n\r\n") is ends
    assert control.upstreams[-1].aborted is ends


@pytest.mark.parametrize("name", [b"default", b"nothing"])
def test_options_tell_nobody_which_brokers_another_tenant_has(guarded, name):
    """Who may not publish there gets the same answer whether there is one or not."""
    (answer,) = guarded.send(get(b"/brokers/default/" + name, shown("reader"), b"OPTIONS"))
    assert answer.status == 403


@pytest.mark.parametrize("asked", [b"", b"webhook-request-origin: example.com\r\n"])
@pytest.mark.parametrize("there", [True, False])
def test_options_tell_nobody_which_namespaces_others_have(guarded, asked, there):
    """The same answer whether somebody may publish there or not."""
    guarded.context.learn({"namespaces/bank/events": "uid"} if there else {})
    path = b"/namespaces/bank/events"
    assert guarded.statuses(get(path, shown("till") + asked, b"OPTIONS")) == [403]


def test_a_subscription_may_be_called_events(guarded, control):
    """Its path ends as those do to which events are published."""
    path = b"/namespaces/shop/subscriptions/events"
    guarded.send(get(path, shown("other"), b"DELETE"))
    control.answer(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert [answer.status for answer in guarded.answers()] == [204]


def test_a_long_list_ends_with_the_access_of_its_sender(guarded, control):
    """Its client may read it as slowly as it likes; cut off, it is not taken for a whole one."""
    guarded.send(get(b"/subscriptions", shown("reader")))
    control.answer(b"HTTP/1.1 200 OK\r\n\r\n", b"[1,")
    guarded.connection.pause_writing()  # the client does not read
    guarded.connection.sweep(guarded.clock.now_s + 1)
    assert not control.upstreams[-1].aborted
    guarded.context.gate.replace(AccessSnapshot(required=True))
    guarded.connection.sweep(guarded.clock.now_s + 1)
    assert control.upstreams[-1].aborted
    assert guarded.transport.aborted
    assert not guarded.transport.written.endswith(b"0\r\n\r\n")


def test_what_is_open_to_all_goes_on(guarded, control):
    """Nobody has lost any access to it."""
    guarded.send(get(b"/docs"))
    control.answer(b"HTTP/1.1 200 OK\r\n\r\n", b"<p>")
    guarded.connection.sweep(guarded.clock.now_s + 1)
    assert not control.upstreams[-1].aborted


def test_a_watch_ends_when_authentication_begins_to_be_required(client, control):
    """It was admitted without a question."""
    client.send(get(WATCH))
    control.answer(b"HTTP/1.1 200 OK\r\n\r\n", b"{}\n")
    client.connection.sweep(client.clock.now_s + 1)
    assert not control.upstreams[-1].aborted
    client.context.gate.replace(SNAPSHOT)
    client.connection.sweep(client.clock.now_s + 1)
    assert control.upstreams[-1].aborted


def test_a_refused_change_is_recorded(guarded):
    """Who, what, from where, with what result; reads and events are not."""
    found = []
    guarded.context.refused = found.append
    guarded.send(get(b"/subscriptions/x", shown("reader"), b"DELETE"))
    guarded.send(get(b"/namespaces/bank/subscriptions/x", method=b"PUT"))
    guarded.send(get(b"/apis/g/v1/namespaces/bank/triggers/x", b"authorization: x\r\n", b"PATCH"))
    guarded.send(get(b"/keys/x", shown("reader"), b"DELETE"))
    guarded.send(get(b"/subscriptions"), event(), get(b"/nowhere", method=b"POST"))
    told = [(one.sender.name, one.operation, one.object, one.origin, one.status) for one in found]
    assert told == [
        ("key:reader", "DELETE", "/subscriptions/x", "127.0.0.1", 403),
        ("nobody", "PUT", "/namespaces/bank/subscriptions/x", "127.0.0.1", 401),
        ("nobody", "PATCH", "/apis/g/v1/namespaces/bank/triggers/x", "127.0.0.1", 401),
        ("key:reader", "DELETE", "/keys/x", "127.0.0.1", 403),
    ]


def test_a_flood_of_refusals_is_recorded_in_part(guarded):
    """A disk is no match for it; the next second has its own."""
    found = []
    guarded.context.refused = found.append
    requests = [get(b"/subscriptions/x", method=b"DELETE")] * 60
    guarded.send(*requests)
    assert len(found) == 50
    guarded.context.sweep()
    guarded.send(*requests[:3])
    assert len(found) == 53


@pytest.mark.parametrize("more", [b"", shown("till")], ids=["refused", "accepted"])
def test_an_idle_connection_holds_nothing_of_what_it_sent(connect, more):
    """Bodies of a thousand strangers fill no memory, nor do those of publishers."""
    body = b"x" * 60_000
    first = connect()
    first.context.gate.replace(SNAPSHOT)
    clients = [connect(context=first.context) for _ in range(50)]
    tracemalloc.start()
    try:
        for client in clients:
            client.send(bytes(bytearray(event(body, more))))
            first.appends.received.clear()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < len(clients) * len(body) / 2


FRAMINGS = {
    "length": b"content-length: 1048576\r\n\r\n",
    "chunked": b"transfer-encoding: chunked\r\n\r\n100000\r\n",
    "expected": b"content-length: 1048576\r\nexpect: 100-continue\r\n\r\n",
    "too long": b"content-length: 9048576\r\n\r\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("framing", FRAMINGS)
def test_long_bodies_of_strangers_fill_no_memory(connect, framing):
    """Less than 20 MiB for 1,000 connections with 1 MiB each, in whatever form; a fifth of them.

    Also once they have ended: what a connection leaves behind waits for the cycle collector.
    """
    head = b"POST /events HTTP/1.1\r\n" + EVENT_FIELDS + FRAMINGS[framing]
    first = connect()
    first.context.gate.replace(SNAPSHOT)
    piece = b"x" * 65_536
    tracemalloc.start()
    gc.disable()
    try:
        clients = [connect(context=first.context) for _ in range(200)]
        statuses = {tuple(client.statuses(bytes(bytearray(head + piece)))) for client in clients}
        for client in clients:
            client.send(*[piece] * 15)
            client.transport.close()
        _, most = tracemalloc.get_traced_memory()
    finally:
        gc.enable()
        tracemalloc.stop()
    assert statuses in ({(401,)}, {(413,)})
    assert most < 20 * 1024 * 1024 / 5


@pytest.mark.parametrize(
    "path",
    [
        b"/%61pis/eventing.knative.dev/v1/namespaces/default/triggers?watch=1",
        b"/apis/eventing.knative.dev/v1/%77atch/namespaces/default/triggers",
    ],
)
def test_a_watch_is_one_however_its_path_is_spelt(guarded, control, path):
    """It counts as a watch, and ends with the access of its sender."""
    guarded.send(get(path, shown("reader")))
    control.answer(b"HTTP/1.1 200 OK\r\n\r\n", b"{}\n")
    assert guarded.context.counters.watches_in_flight == 1
    guarded.context.gate.replace(AccessSnapshot(required=True))
    guarded.connection.sweep(guarded.clock.now_s + 1)
    assert control.upstreams[-1].aborted


def test_strangers_hold_few_requests_and_none_of_others(guarded, connect):
    """Nobody's requests to open paths have a share of their own, and so have probes."""
    context = guarded.context
    context.dial = lambda _relay, _failed, _path: None  # never answers

    def ask(path: bytes, more: bytes = b"") -> list[int]:
        return connect(context=context).statuses(get(path, more))

    assert [ask(b"/docs") for _ in range(32)] == [[]] * 32
    assert ask(b"/openapi.json") == [503]
    assert [ask(b"/readyz") for _ in range(32)] == [[]] * 32
    assert ask(b"/healthz") == [503]
    assert ask(b"/subscriptions", shown("reader")) == []
    assert ask(b"/docs", shown("reader")) == []


@pytest.mark.parametrize("path", [b"/healthz", b"/docs"])
def test_a_stranger_sends_no_large_body_to_an_open_path(guarded, path):
    """It is refused by its head, and holds nothing."""
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\n" % path
    (answer,) = guarded.send(head + b"content-length: 4097\r\n\r\n")
    assert answer.status == 413
    assert guarded.context.counters.held_bytes == 0
