"""Identities in the configuration file: what is read, and every fault with its place."""

import tomllib
from datetime import UTC, datetime

import pytest

from distributary.access import Grant, KeyRecord, Verb
from distributary.access.tables import key_table, read_certificates, read_keys

HASH = "0" * 64


def key(**members: object) -> dict[str, object]:
    """A table of a key with *members*."""
    table: dict[str, object] = {"name": "till", "id": "a" * 16, "sha256": HASH}
    return {**table, "may": ["publish"], "namespaces": ["shop"], **members}


def test_a_key_is_read():
    """With all its members."""
    until = datetime(2027, 1, 31, tzinfo=UTC)
    found, faults = read_keys([key(names=["brokers/default"], expires=until)])
    assert faults == []
    grant = Grant(may=(Verb.PUBLISH,), namespaces=("shop",), names=("brokers/default",))
    until_ms = int(until.timestamp() * 1000)
    assert found == (
        KeyRecord(id="a" * 16, name="till", sha256=HASH, grants=(grant,), until_ms=until_ms),
    )


def test_a_key_is_written_as_it_is_read():
    """What ``distributary key create --print`` prints."""
    grant = Grant(may=(Verb.PUBLISH, Verb.READ), namespaces=("*",), names=("channels/a",))
    record = KeyRecord(
        id="b" * 16, name="a.b-c", sha256="f" * 64, grants=(grant,), until_ms=1_800_000_000_000
    )
    found, faults = read_keys(tomllib.loads(key_table(record))["keys"])
    assert (found, faults) == ((record,), [])


FAULTY = {
    "name": ["", " ", "a b", 7, None, "x" * 64, "till\n"],
    "id": ["", "A" * 16, "a" * 15, "1" * 16, 3],
    "sha256": ["", "f" * 63, "F" * 64, "g" * 64, [HASH]],
    "may": [[], ["pubish"], "publish", [1], ["publish", ""]],
    "namespaces": [[], ["Shop"], "shop", ["a*"], ["sho p"], [""]],
    "names": [["default"], ["brokers/"], "brokers/x", ["topics/x"], ["brokers/shop/x"]],
    "expires": ["tomorrow", 7, datetime(2027, 1, 1), "2027-01-01T00:00:00"],  # noqa: DTZ001 - so
    "may_": ["x"],
}


@pytest.mark.parametrize(
    ("member", "value"),
    [(member, value) for member, values in FAULTY.items() for value in values],
)
def test_a_fault_is_told_with_its_place(member, value):
    """And without the value."""
    found, faults = read_keys([key(), key(**{"name": "b", "id": "b" * 16, member: value})])
    assert found == ()
    assert [fault.partition(" ")[0] for fault in faults] == [f"keys[1].{member}"]


def test_every_fault_is_told_at_once():
    """Of every table; ids and names are unique."""
    _, faults = read_keys([{}, key(), key()])
    places = [fault.partition(" ")[0] for fault in faults]
    assert places == [
        *(f"keys[0].{member}" for member in ("id", "name", "sha256", "may", "namespaces")),
        "keys[2].id",
        "keys[2].name",
    ]


def test_there_is_a_most():
    """A file with more is refused as a whole."""
    _, faults = read_keys([key()] * 1_001)
    assert faults == ["keys (configuration file): there are at most 1000"]


def test_certificates_are_read():
    """Names with their kind."""
    table = {"name": "uri:spiffe://shop/*", "may": ["write"], "namespaces": ["shop"]}
    found, faults = read_certificates([table])
    assert faults == []
    assert found[0].pattern == "uri:spiffe://shop/*"
    for name in ("spiffe://x", "uri:", "dns:*.shop", "ip:1.2.3.4"):
        assert read_certificates([{**table, "name": name}])[1][0].startswith("certificates[0].name")
