"""The rows of API keys: names, bounds, expiry, last use."""

import pytest

from distributary.access import Grant, KeyRecord, Verb
from distributary.core.errors import ConflictError, RequestError
from distributary.subscriptions.api_keys import ApiKeyStore, StoredKey

NOW_MS = 1_000_000


def key(number: int, name: str = "", *, namespace: str = "shop", until_ms: int | None = None):
    """A key that was made at ``NOW_MS``."""
    grants = (
        Grant(may=(Verb.PUBLISH,), namespaces=(namespace,), names=("brokers/default",)),
        Grant(may=(Verb.READ, Verb.OBSERVE), namespaces=(namespace,)),
    )
    record = KeyRecord(
        id=f"key{number}",
        name=name or f"name{number}",
        sha256=f"{number:064x}",
        grants=grants,
        until_ms=until_ms,
    )
    return StoredKey(record, NOW_MS, "local")


@pytest.fixture
def open_keys(url, store):  # noqa: ARG001 - it makes the tables
    """Open the keys with limits; all are closed at the end."""
    made = []

    def opened(**limits):
        made.append(ApiKeyStore(url, **limits))
        return made[-1]

    yield opened
    for each in made:
        each.close()


def test_what_is_stored_is_read_again_by_name(open_keys):
    """Also by another process."""
    keys = open_keys()
    stored = [key(1, "b", until_ms=NOW_MS + 5), key(2, "a")]
    for each in stored:
        keys.add(each, NOW_MS, ())
    assert open_keys().read_all() == [stored[1], stored[0]]


def test_a_name_is_taken_while_its_key_is_valid(open_keys):
    """In the store, and in the configuration file."""
    keys = open_keys()
    keys.add(key(1, "till", until_ms=NOW_MS + 5), NOW_MS, ())
    for refused, reserved in ((key(2, "till"), ()), (key(2, "press"), ("press",))):
        with pytest.raises(ConflictError, match="has this name already"):
            keys.add(refused, NOW_MS, reserved)
    keys.add(key(2, "till"), NOW_MS + 5, ())
    assert [each.record.id for each in keys.read_all()] == ["key1", "key2"]


def test_a_removed_key_is_gone_and_its_name_free(open_keys):
    """And removing it again changes nothing."""
    keys = open_keys()
    keys.add(key(1, "till"), NOW_MS, ())
    keys.remove("key1")
    keys.remove("key1")
    assert keys.read_all() == []
    keys.add(key(2, "till"), NOW_MS, ())


def test_expired_keys_make_way_and_valid_ones_do_not(open_keys):
    """The one that expired first goes first."""
    keys = open_keys(keys_max=3)
    for number, until_ms in ((1, NOW_MS + 2), (2, NOW_MS + 1), (3, None)):
        keys.add(key(number, until_ms=until_ms), NOW_MS, ())
    with pytest.raises(RequestError, match="there are 3 keys"):
        keys.add(key(4), NOW_MS, ())
    keys.add(key(4), NOW_MS + 2, ())
    assert [each.record.id for each in keys.read_all()] == ["key1", "key3", "key4"]


def test_a_namespace_cannot_use_up_the_keys_of_others(open_keys):
    """It has a bound of its own; expired keys do not count."""
    keys = open_keys(namespace_keys_max=2)
    keys.add(key(1), NOW_MS, ())
    keys.add(key(2, until_ms=NOW_MS + 1), NOW_MS, ())
    with pytest.raises(RequestError, match="namespace shop has 2 keys"):
        keys.add(key(3), NOW_MS, ())
    keys.add(key(3, namespace="farm"), NOW_MS, ())
    keys.add(key(4), NOW_MS + 1, ())


def test_uses_only_move_forward_and_survive_a_restart(open_keys):
    """Keys of the configuration file have no other row."""
    keys = open_keys()
    keys.add(key(1), NOW_MS, ())
    keys.note_uses({"key1": 120_000, "infile": 60_000})
    keys.note_uses({"key1": 60_000, "infile": 180_000})
    keys.note_uses({})
    again = open_keys()
    assert again.uses() == {"key1": 120_000, "infile": 180_000}
    assert [each.used_ms for each in again.read_all()] == [120_000]


def test_uses_of_unknown_keys_are_forgotten(open_keys):
    """And those of a removed key with it."""
    keys = open_keys()
    keys.add(key(1), NOW_MS, ())
    keys.note_uses({"key1": 60_000, "infile": 60_000, "gone": 60_000})
    keys.forget_uses({"key1", "infile"})
    assert set(keys.uses()) == {"key1", "infile"}
    keys.remove("key1")
    assert set(keys.uses()) == {"infile"}
