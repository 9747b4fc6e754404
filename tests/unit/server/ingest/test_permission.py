"""The handshake of web hooks at our own paths: who may publish is permitted, in a name."""

import random

import pytest

from distributary.access import AccessSnapshot, Grant, KeyRecord, Verb, make_key

GRANTS = {
    "till": Grant(may=(Verb.PUBLISH,), namespaces=("default",)),
    "narrow": Grant(may=(Verb.PUBLISH,), namespaces=("default",), names=("brokers/other",)),
    "reader": Grant(may=(Verb.READ,), namespaces=("default",)),
    "other": Grant(may=(Verb.ADMIN,), namespaces=("shop",)),
}
KEYS = {name: make_key(random.Random(name).randbytes) for name in GRANTS}
SNAPSHOT = AccessSnapshot(
    required=True,
    keys=tuple(
        KeyRecord(id=key.id, name=name, sha256=key.sha256, grants=(GRANTS[name],))
        for name, key in KEYS.items()
    ),
)
ASKS = b"webhook-request-origin: shop.example.com\r\n"
ORIGIN, RATE = b"webhook-allowed-origin", b"webhook-allowed-rate"


def options(path=b"/events", more=ASKS, key=None):
    """The question."""
    line = b"" if key is None else b"authorization: Bearer " + KEYS[key].text.encode() + b"\r\n"
    return b"OPTIONS %b HTTP/1.1\r\nhost: localhost\r\n%b%b\r\n" % (path, more, line)


@pytest.fixture
def guarded(client):
    """A receiver that asks who its clients are."""
    client.context.gate.replace(SNAPSHOT)
    return client


def test_everybody_is_permitted_where_everybody_may_publish(client):
    """Any origin, any rate."""
    (answer,) = client.send(options())
    assert (answer.status, answer.fields[ORIGIN], answer.fields[RATE]) == (200, b"*", b"*")


def test_who_may_publish_is_permitted_in_its_own_name(guarded):
    """Not in all names: another sender shows another credential."""
    (answer,) = guarded.send(options(key="till"))
    assert (answer.status, answer.fields[ORIGIN]) == (200, b"shop.example.com")
    assert answer.fields[RATE] == b"*"
    assert answer.fields[b"allow"] == b"GET, HEAD, POST, OPTIONS"


@pytest.mark.parametrize(
    ("key", "status", "code"),
    [
        (None, 401, "unauthenticated"),
        ("reader", 403, "forbidden"),
        ("other", 403, "forbidden"),
        ("narrow", 403, "forbidden"),
    ],
)
def test_who_may_not_publish_is_not_permitted(guarded, key, status, code):
    """The answer is that to an event, and holds no permission for anybody to read into it."""
    (answer,) = guarded.send(options(key=key))
    assert (answer.status, answer.problem["code"]) == (status, code)
    assert ORIGIN not in answer.fields
    assert RATE not in answer.fields


def test_a_question_without_an_origin_permits_nobody(guarded):
    """``OPTIONS`` alone says what the path can do, to whoever shows an identity."""
    (answer,) = guarded.send(options(more=b"", key="reader"))
    assert (answer.status, answer.fields[b"allow"]) == (200, b"GET, HEAD, POST, OPTIONS")
    assert ORIGIN not in answer.fields


@pytest.mark.parametrize(
    "more",
    [
        b"webhook-request-origin: \r\n",
        b"webhook-request-origin: a b\r\n",
        b"webhook-request-origin: *\r\n",
        b"webhook-request-origin: a, b\r\n",
        b"webhook-request-origin: " + b"x" * 300 + b"\r\n",
        ASKS + b"webhook-request-origin: other.example.com\r\n",
    ],
    ids=["empty", "two words", "all", "a list", "long", "two fields"],
)
def test_an_origin_that_is_no_name_is_not_permitted(guarded, more):
    """Nothing is repeated that another reader could take for something else."""
    (answer,) = guarded.send(options(more=more, key="till"))
    assert answer.status == 200
    assert ORIGIN not in answer.fields


def test_a_question_publishes_nothing(guarded):
    """And a body with it is none of an event."""
    head = b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n" + ASKS
    key = b"authorization: Bearer " + KEYS["till"].text.encode() + b"\r\n"
    (answer,) = guarded.send(head + key + b"\r\n{}")
    assert answer.status == 200
    assert guarded.appends.received == []


def test_other_paths_permit_nothing(guarded):
    """Neither the server as a whole, nor what is not for events."""
    (answer,) = guarded.send(options(b"*", key="till"))
    assert (answer.status, ORIGIN in answer.fields) == (200, False)
