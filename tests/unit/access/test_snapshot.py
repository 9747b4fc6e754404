"""Snapshots that follow one another: a change costs what has changed."""

import random

import msgspec
import pytest

from distributary.access import (
    AccessSnapshot,
    CertificateRecord,
    Grant,
    KeyRecord,
    PolicyRecord,
    SnapshotReader,
    Verb,
    decode_snapshot,
    make_key,
)

SHOP = Grant(may=(Verb.PUBLISH,), namespaces=("shop",))


def key(name: str) -> KeyRecord:
    """The record of a key."""
    made = make_key(random.Random(name).randbytes)
    return KeyRecord(id=made.id, name=name, sha256=made.sha256, grants=(SHOP,))


def policy(name: str, *subjects: str) -> PolicyRecord:
    """A policy with filters."""
    return PolicyRecord(
        name=name,
        targets=("brokers/shop/*",),
        subjects=subjects,
        filters=({"exact": {"type": "\u00f6"}}, {"not": {"sql": "a = 'b'"}}),
    )


SNAPSHOT = AccessSnapshot(
    number=7,
    required=True,
    internal="ab",
    keys=(key("a"), key("b")),
    certificates=(CertificateRecord(pattern="uri:spiffe://shop/till", grants=(SHOP,)),),
    policies=(policy("shop/p", "key:a"), policy("shop/q"), policy("bank/p", "*")),
    stored=1,
)


@pytest.mark.parametrize("snapshot", [AccessSnapshot(), SNAPSHOT], ids=["empty", "full"])
def test_it_says_the_same_when_it_is_read(snapshot):
    """It is the JSON of its parts: another version of the server reads it too."""
    assert decode_snapshot(snapshot.encode()) == snapshot
    assert msgspec.json.decode(snapshot.encode(), type=AccessSnapshot) == snapshot
    assert decode_snapshot(msgspec.json.encode(snapshot)) == snapshot
    assert decode_snapshot(b"{}") == AccessSnapshot()


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b'{"policies":[{}]}', b'{"keys":3}', b'{"policies":[{"name":1}]}']
)
def test_damage_is_told(damaged):
    """Wherever it is."""
    with pytest.raises(msgspec.DecodeError):
        decode_snapshot(damaged)


def test_what_is_as_before_is_not_read_again():
    """Neither policies of others, when one has changed, nor keys, nor policies with a key."""
    reader = SnapshotReader()
    first = reader.read(SNAPSHOT.encode())
    assert reader.changed == first.policies == SNAPSHOT.policies
    newer = (policy("shop/q", "key:b"), SNAPSHOT.policies[0], SNAPSHOT.policies[2])
    second = reader.read(msgspec.structs.replace(SNAPSHOT, number=8, policies=newer).encode())
    assert second.policies == newer
    assert reader.changed == newer[:1]
    assert second.policies[1] is first.policies[0]
    assert second.policies[2] is first.policies[2]
    assert second.keys is first.keys
    fewer = msgspec.structs.replace(SNAPSHOT, number=9, keys=(key("c"),), policies=newer)
    third = reader.read(fewer.encode())
    assert third == fewer
    assert reader.changed == ()
    assert third.policies[0] is second.policies[0]


def test_a_policy_that_was_away_is_new_again():
    """Nothing is kept of what is gone."""
    reader = SnapshotReader()
    reader.read(SNAPSHOT.encode())
    assert reader.read(AccessSnapshot().encode()) == AccessSnapshot()
    reader.read(SNAPSHOT.encode())
    assert reader.changed == SNAPSHOT.policies
