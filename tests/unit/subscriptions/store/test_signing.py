"""Keys that sign deliveries: made once, shown once, kept, rotated, sealed."""

import base64
import json
import re
import sqlite3
from contextlib import closing

import pytest

from distributary.core.database import sqlite_url
from distributary.core.errors import ConflictError, NotFoundError, ResourceError, StoreError
from distributary.subscriptions.resource import SIGNING_KEYS_MAX, Rotation, public_key
from distributary.subscriptions.store import Directory, Keys, Sealer
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Delete, Precondition, Put, Rotate

V1, V1A = {"signature": {"scheme": "v1"}}, {"signature": {"scheme": "v1a"}}
HOUR_MS = 3_600_000


def put(store, spec, now_ms=5):
    """Create or replace the subscription ``a``."""
    (outcome,) = store.apply([Put("a", spec, "u1")], now_ms)
    assert isinstance(outcome, Applied), outcome
    return outcome


def rotate(store, now_ms=5, precondition=None, **how):
    """Rotate its key; returns the result or the refusal."""
    change = Rotate("a", Rotation(**how), precondition or Precondition())
    (outcome,) = store.apply([change], now_ms)
    return outcome


def answered(applied):
    """``protocolsettings.signature`` of an answer."""
    return applied.answer().to_json()["protocolsettings"]["signature"]


def keys(directory):
    """What a reader signs with."""
    directory.refresh()
    return directory.spec("u1").secrets.signing.keys


def secret_of(applied):
    """The secret in an answer, as bytes."""
    kind, _, text = answered(applied)["secret"].partition("_")
    assert kind == "whsec"
    return base64.b64decode(text, validate=True)


def test_a_secret_is_in_the_answer_that_made_it_alone(store, spec, kept, directory):
    """32 random bytes; every later answer shows when it was made."""
    made = put(store, spec(protocolsettings=V1))
    secret = secret_of(made)
    assert len(secret) == 32
    assert keys(directory)[0].value == secret
    stored = store.find("a").to_json()["protocolsettings"]["signature"]
    shown = [{"scheme": "v1", "created": "1970-01-01T00:00:00.005Z"}]
    assert stored == {"scheme": "v1", "keys": shown}
    again = put(store, kept(protocolsettings={"signature": stored}, types=["b"]))
    assert "secret" not in answered(again)
    assert keys(directory)[0].value == secret


def test_a_private_key_is_never_shown_and_its_public_key_always(store, spec, directory):
    """Nobody but the server needs it."""
    made = put(store, spec(protocolsettings=V1A))
    (key,) = keys(directory)
    for signature in (answered(made), store.find("a").to_json()["protocolsettings"]["signature"]):
        assert set(signature) == {"scheme", "keys"}
        assert signature["keys"][0]["publickey"] == public_key(key)
    assert re.fullmatch(r"whpk_[A-Za-z0-9+/]{43}=", public_key(key))


def test_every_subscription_has_a_key_of_its_own(store, spec):
    """Also those of one batch."""
    changes = [Put(name, spec(protocolsettings=V1), name) for name in "abc"]
    assert len({secret_of(each) for each in store.apply(changes, 5)}) == 3


@pytest.mark.parametrize("settings", [{}, V1A], ids=["none", "other-scheme"])
def test_without_a_signature_or_by_another_scheme_the_key_is_gone(
    store, spec, kept, directory, settings
):
    """A PUT replaces the whole; a later signature has a new key."""
    secret = secret_of(put(store, spec(protocolsettings=V1)))
    put(store, kept(protocolsettings=settings))
    directory.refresh()
    signing = directory.spec("u1").secrets.signing
    assert signing is None or [key.scheme for key in signing.keys] == ["v1a"]
    assert secret_of(put(store, kept(protocolsettings=V1))) != secret


@pytest.mark.parametrize(
    ("sink", "stays"),
    [
        ("http://127.0.0.1:9/other?a=b", True),
        ("https://127.0.0.1:9/", True),
        ("http://127.0.0.1:10/", False),
        ("http://127.0.0.2:9/", False),
    ],
)
def test_a_key_is_for_one_origin(store, spec, kept, sink, stays):
    """Another party gets another key, which the answer shows."""
    secret = secret_of(put(store, spec(protocolsettings=V1)))
    moved = put(store, kept(sink=sink, protocolsettings=V1))
    assert ("secret" in answered(moved)) is not stays
    if not stays:
        assert secret_of(moved) != secret
        assert len(answered(moved)["keys"]) == 1


def test_both_keys_sign_for_the_overlap(store, spec, directory):
    """The answer has the new secret; the old one ends by the clock."""
    old = secret_of(put(store, spec(protocolsettings=V1)))
    rotated = rotate(store, now_ms=1_000, overlap_s=60.0)
    new = secret_of(rotated)
    assert (rotated.op, rotated.subscription.revision) == ("rotated", 2)
    assert [(key.value, key.until_ms) for key in keys(directory)] == [(new, None), (old, 61_000)]
    assert answered(rotated)["keys"][1]["until"] == "1970-01-01T00:01:01.000Z"
    assert [key.ended(60_999) for key in keys(directory)] == [False, False]
    assert [key.ended(61_000) for key in keys(directory)] == [False, True]


def test_a_change_after_the_overlap_forgets_the_replaced_key(store, spec, kept, directory):
    """What signs no more is not kept."""
    put(store, spec(protocolsettings=V1))
    new = secret_of(rotate(store, now_ms=1_000, overlap_s=60.0))
    put(store, kept(protocolsettings=V1), now_ms=61_000)
    assert [key.value for key in keys(directory)] == [new]


def test_a_rotation_may_change_the_scheme(store, spec, directory):
    """Receivers of either find a signature meanwhile."""
    put(store, spec(protocolsettings=V1))
    rotated = rotate(store, scheme="v1a")
    assert "secret" not in answered(rotated)
    assert [key.scheme for key in keys(directory)] == ["v1a", "v1"]
    assert answered(rotated)["scheme"] == "v1a"


def test_without_overlap_every_other_key_ends_at_once(store, spec, directory):
    """A secret that leaked."""
    put(store, spec(protocolsettings=V1))
    rotate(store)
    newest = secret_of(rotate(store, overlap_s=0.0))
    assert [key.value for key in keys(directory)] == [newest]


def test_no_more_keys_sign_at_once_than_may(store, spec, directory):
    """The refusal says what to do, and changes nothing."""
    put(store, spec(protocolsettings=V1))
    for _ in range(SIGNING_KEYS_MAX - 1):
        rotate(store)
    before = keys(directory)
    refused = rotate(store)
    assert isinstance(refused, ResourceError)
    assert [fault.code for fault in refused.faults] == ["too-many"]
    assert "PT0S" in refused.faults[0].message
    assert keys(directory) == before
    assert len(keys(directory)) == SIGNING_KEYS_MAX


def test_a_rotation_holds_the_condition_of_its_sender(store, spec):
    """So that two people do not both rotate."""
    etag = put(store, spec(protocolsettings=V1)).subscription.etag
    condition = Precondition(if_match=frozenset((etag,)))
    assert isinstance(rotate(store, precondition=condition), Applied)
    assert isinstance(rotate(store, precondition=condition), ConflictError)


def test_what_is_not_signed_or_not_there_is_not_rotated(store, spec):
    """Nothing changes."""
    assert isinstance(rotate(store), NotFoundError)
    put(store, spec())
    refused = rotate(store)
    assert isinstance(refused, ResourceError)
    assert refused.faults[0].path == "$.protocolsettings.signature"
    assert store.find("a").revision == 1


def test_a_rotation_leaves_the_rest_as_it_is(store, spec, directory):
    """Credential, secret headers, and the timer."""
    account = {"credentialType": "PLAIN", "identifier": "me", "secret": "hunter22"}
    settings = {**V1, "headers": {"X-Api-Key": "k"}}
    put(store, spec(protocolsettings=settings, sinkCredential=account))
    before = store.find("a").to_json()
    rotate(store)
    after = store.find("a").to_json()
    before["protocolsettings"].pop("signature")
    after["protocolsettings"].pop("signature")
    assert after == before
    directory.refresh()
    assert directory.spec("u1").settings.headers == (("X-Api-Key", "k"),)
    assert directory.credential("u1").secret == "hunter22"


def test_keys_survive_a_restart_and_a_deletion_ends_them(url, spec, directory):
    """They are in the store, sealed."""
    store = Store(url)
    secret = secret_of(put(store, spec(protocolsettings=V1)))
    store.close()
    store = Store(url)
    assert keys(directory)[0].value == secret
    store.apply([Delete("a")], 5)
    (again,) = store.apply([Put("a", spec(protocolsettings=V1), "u2")], 5)
    assert secret_of(again) != secret
    store.close()


def test_no_file_of_the_store_holds_a_key(tmp_path, spec):
    """In no form in which it is written anywhere."""
    store = Store(sqlite_url(tmp_path / "control.db"))
    secrets = [secret_of(put(store, spec(protocolsettings=V1)))]
    secrets.append(secret_of(rotate(store)))
    for secret in secrets:
        for form in (secret, base64.b64encode(secret), secret.hex().encode()):
            for file in tmp_path.iterdir():
                assert form not in file.read_bytes()
    assert not any("whsec_" in json.dumps(each.to_json()) for each in store.page("", 10))
    store.close()


def test_nothing_is_sent_without_the_key(store, spec, url, tmp_path):
    """Unsigned deliveries would teach a receiver to accept them."""
    put(store, spec(protocolsettings=V1))
    other = Directory(url, Sealer(Keys(tmp_path / "other.key")))
    other.refresh()
    with pytest.raises(StoreError, match="sealed by another key"):
        other.spec("u1")
    other.close()


def test_a_key_that_stands_beside_another_sink_signs_nothing(store, spec, url, directory):
    """Whatever changed the row: the origin is sealed with the key."""
    put(store, spec(protocolsettings=V1))
    with closing(sqlite3.connect(url.database)) as database, database:
        database.execute(
            "UPDATE api_subscription SET spec_json = replace(spec_json, '127.0.0.1', '127.0.0.2')"
        )
    directory.refresh()
    with pytest.raises(StoreError, match="for another sink"):
        directory.spec("u1")


def test_a_rotation_does_not_move_a_timer(store, spec, url):
    """Its beats go on where they were, and no number is given out twice."""
    put(store, spec(protocolsettings=V1, config={"interval": 60}))

    def schedule():
        with closing(sqlite3.connect(url.database)) as database, database:
            return database.execute("SELECT * FROM schedule").fetchall()

    before = schedule()
    assert isinstance(rotate(store, now_ms=30_000), Applied)
    assert len(before) == 1
    assert schedule() == before
