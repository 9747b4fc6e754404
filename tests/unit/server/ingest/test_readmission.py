"""Keys that are revoked between the head of a request and the end of its body."""

import random

import msgspec
import pytest
from tests.unit.server.ingest.conftest import event

from distributary.access import AccessSnapshot, Grant, KeyRecord, Verb, make_key

KEYS = [make_key(random.Random(name).randbytes) for name in ("first", "second")]
SNAPSHOT = AccessSnapshot(
    required=True,
    keys=tuple(
        KeyRecord(
            id=key.id,
            name=key.id,
            sha256=key.sha256,
            grants=(Grant(may=(Verb.PUBLISH, Verb.WRITE), namespaces=("default",)),),
        )
        for key in KEYS
    ),
)
SHOWN = b"authorization: Bearer " + KEYS[0].text.encode() + b"\r\n"


@pytest.mark.parametrize("required", [True, False], ids=["revoked", "nobody was asked"])
def test_a_key_that_is_revoked_while_the_body_comes_publishes_nothing(client, required):
    """A body may take half a minute; what counts is when the event would be taken."""
    client.context.gate.replace(SNAPSHOT if required else AccessSnapshot())
    whole = event(b"x" * 100, SHOWN)
    assert client.send(whole[:-10]) == []
    client.context.gate.replace(AccessSnapshot(required=True))
    (answer,) = client.send(whole[-10:])
    assert (answer.status, answer.problem["code"]) == (403, "forbidden")
    assert client.appends.received == []
    assert client.statuses(event(more=SHOWN)) == [401]


def test_a_key_that_stays_publishes_although_others_are_revoked_meanwhile(client):
    """With all that it sent before."""
    client.context.gate.replace(SNAPSHOT)
    whole = event(b"x" * 100, SHOWN)
    assert client.send(whole[:-10]) == []
    client.context.gate.replace(msgspec.structs.replace(SNAPSHOT, keys=SNAPSHOT.keys[:1]))
    assert client.statuses(whole[-10:]) == [202]


def test_a_key_that_is_revoked_while_the_body_comes_changes_nothing(client, control):
    """The control process does not hear of it."""
    client.context.gate.replace(SNAPSHOT)
    fields = b"content-type: application/json\r\ncontent-length: 20\r\n" + SHOWN
    head = b"PUT /subscriptions/x HTTP/1.1\r\nhost: localhost\r\n" + fields + b"\r\n"
    whole = head + b"{" + b" " * 18 + b"}"
    assert client.send(whole[:-10]) == []
    client.context.gate.replace(AccessSnapshot(required=True))
    assert client.statuses(whole[-10:]) == [401]
    assert control.upstreams == []
