"""Credentials in the store: sealed, kept, renewed, gone; and what readers see of them."""

import base64
import dataclasses
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from distributary.core.database import sqlite_url
from distributary.core.deliver.credential import Credential
from distributary.core.errors import ResourceError, StoreError
from distributary.resource import SinkRule
from distributary.subscriptions.resource import ApiSubscriptionSpec, parse
from distributary.subscriptions.service import rules
from distributary.subscriptions.store import Directory, Keys, Listed, Sealer
from distributary.subscriptions.store.credentials_rows import CredentialRows
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Delete, Put

PLAIN = {"credentialType": "PLAIN", "identifier": "me", "secret": "canary"}
REFRESH = {
    "credentialType": "REFRESHTOKEN",
    "accessToken": "canary",
    "accessTokenType": "Bearer",
    "accessTokenExpiresUtc": "2030-01-31T12:00:00Z",
    "refreshToken": "canary-too",
    "refreshTokenEndpoint": "https://example.com/token",
}


def key_text(number: int = 1) -> str:
    """A key."""
    return base64.b64encode(bytes([number]) * 32).decode()


def put(store: Store, spec: ApiSubscriptionSpec, uid: str = "u1") -> Applied:
    """Create or replace the subscription ``a``."""
    (outcome,) = store.apply([Put("a", spec, uid)], 5)
    assert isinstance(outcome, Applied), outcome
    return outcome


def seen(directory: Directory, uid: str = "u1") -> Credential | None:
    """The credential that a reader has after a look."""
    directory.refresh()
    return directory.credential(uid)


# -- keys -------------------------------------------------------------------------------------


def test_a_key_file_is_made_at_first_need_for_its_owner_alone(tmp_path):
    """Not before: a server without credentials has no key to lose."""
    path = tmp_path / "credentials.key"
    keys = Keys(path)
    keys.check()
    assert keys.current() is None
    assert not path.exists()
    key = keys.sealing()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(base64.b64decode(path.read_text())) == 32
    assert Keys(path).opening(key.id) == key
    assert [found.name for found in tmp_path.iterdir()] == ["credentials.key"]


def test_a_key_file_that_was_half_made_is_made_anew(tmp_path):
    """A process that was killed just then leaves nothing that counts."""
    (tmp_path / "credentials.key.new").write_text("half")
    assert Keys(tmp_path / "credentials.key").sealing()


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o601])
def test_a_key_file_that_others_may_read_is_refused(tmp_path, mode):
    """With what to do about it."""
    path = tmp_path / "credentials.key"
    path.write_text(key_text())
    path.chmod(mode)
    with pytest.raises(StoreError, match="chmod 600"):
        Keys(path).check()


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600])
def test_a_key_file_of_systemd_may_show_an_access_list(tmp_path, mode):
    """The folder is the service's alone: 0440 is how an access list for one user looks there."""
    path = tmp_path / "credentials.key"
    path.write_text(key_text())
    path.chmod(mode)
    Keys.of(path, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).check()


@pytest.mark.parametrize(
    ("mode", "folder"), [(0o444, "."), (0o460, "."), (0o440, ".."), (0o440, "below")]
)
def test_a_key_file_of_systemd_is_no_excuse_for_others(tmp_path, mode, folder):
    """Nor does it hold for rights of everybody, or outside of that very folder."""
    path = tmp_path / "credentials.key"
    path.write_text(key_text())
    path.chmod(mode)
    environ = {"CREDENTIALS_DIRECTORY": str((tmp_path / folder).resolve())}
    with pytest.raises(StoreError, match="chmod 600"):
        Keys.of(path, environ).check()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "canary",
        base64.b64encode(b"canary").decode(),
        key_text() + "canary",
        ",".join([key_text()] * 9),
    ],
)
def test_a_key_that_is_none_is_refused_without_repeating_it(tmp_path, text):
    """The message tells how to make one."""
    keys = Keys(tmp_path / "none", text)
    with pytest.raises(StoreError, match="DISTRIBUTARY_CREDENTIAL_KEY") as caught:
        keys.check()
    assert "canary" not in str(caught.value)
    assert text == "" or text not in str(caught.value)


def test_the_environment_comes_before_the_file(tmp_path):
    """And then no file is looked at, nor made."""
    path = tmp_path / "credentials.key"
    keys = Keys.of(path, {"DISTRIBUTARY_CREDENTIAL_KEY": key_text()})
    assert keys.sealing().value == b"\x01" * 32
    assert not path.exists()
    assert key_text() not in repr(keys.sealing())


def test_a_file_that_got_another_key_is_read_again(tmp_path):
    """A key that is put back counts without a restart."""
    path = tmp_path / "credentials.key"
    old = Keys(path, key_text(1)).sealing()
    keys = Keys(path)
    keys.sealing()
    assert keys.opening(old.id) is None
    path.write_text(f"{path.read_text()}\n{key_text(1)}\n")
    assert keys.opening(old.id) == old


# -- sealing ----------------------------------------------------------------------------------


def test_what_was_sealed_is_opened_by_the_same_key_alone(tmp_path):
    """Another key is told apart, and what to do is said."""
    credential = Credential("PLAIN", identifier="me", secret="canary")
    sealed = Sealer(Keys(tmp_path / "none", key_text(1))).seal("u1", credential)
    assert b"canary" not in sealed
    both = Sealer(Keys(tmp_path / "none", f"{key_text(2)},{key_text(1)}"))
    assert both.open("u1", sealed) == credential
    assert both.outdated(sealed)
    with pytest.raises(StoreError, match="another key") as caught:
        Sealer(Keys(tmp_path / "none", key_text(2))).open("u1", sealed)
    assert "DISTRIBUTARY_CREDENTIAL_KEY" in str(caught.value)


def test_what_was_sealed_is_bound_to_its_subscription(tmp_path):
    """A row that was copied to another subscription authorizes nothing there."""
    sealer = Sealer(Keys(tmp_path / "none", key_text()))
    sealed = sealer.seal("u1", Credential("PLAIN", identifier="me", secret="canary"))
    with pytest.raises(StoreError, match="damaged"):
        sealer.open("u2", sealed)


@pytest.mark.parametrize("at", [0, 1, 9, 21, -1])
def test_a_damaged_byte_anywhere_is_found(tmp_path, at):
    """Nothing is ever sent of what cannot be trusted."""
    sealer = Sealer(Keys(tmp_path / "none", key_text()))
    sealed = bytearray(sealer.seal("u1", Credential("PLAIN", identifier="me", secret="canary")))
    sealed[at] ^= 1
    with pytest.raises(StoreError):
        sealer.open("u1", bytes(sealed))


def test_something_cut_off_is_found(tmp_path):
    """However short."""
    sealer = Sealer(Keys(tmp_path / "none", key_text()))
    sealed = sealer.seal("u1", Credential("PLAIN", identifier="me", secret="canary"))
    for length in range(len(sealed)):
        with pytest.raises(StoreError):
            sealer.open("u1", sealed[:length])


# -- the store --------------------------------------------------------------------------------


def test_a_credential_stands_sealed_beside_its_subscription(store, spec, directory, url):
    """In the same transaction, and nowhere in the clear."""
    made = put(store, spec(sinkCredential=PLAIN))
    assert b"canary" not in made.record
    assert "canary" not in repr(made)
    assert seen(directory) == Credential("PLAIN", identifier="me", secret="canary")
    store.close()
    for suffix in ("", "-wal"):
        path = Path(str(url.database) + suffix)
        assert not path.exists() or b"canary" not in path.read_bytes()


def test_a_replace_without_a_credential_takes_it_away(store, spec, directory, rows):
    """PUT replaces the whole object; nothing sealed is left."""
    put(store, spec(sinkCredential=PLAIN))
    put(store, spec())
    assert seen(directory) is None
    assert rows.find("u1") is None


def test_a_delete_takes_the_credential_with_it(store, spec, rows):
    """The history of changes keeps no secret."""
    put(store, spec(sinkCredential=PLAIN))
    store.apply([Delete("a")], 5)
    assert rows.find("u1") is None


def test_a_credential_without_secrets_keeps_the_stored_ones(store, spec, kept, directory):
    """Where it repeats type and identifier (decision 10)."""
    put(store, spec(sinkCredential=PLAIN))
    again = put(store, kept(sinkCredential={"credentialType": "PLAIN", "identifier": "me"}))
    credential = seen(directory)
    assert credential is not None
    assert credential.secret == "canary"
    assert again.subscription.revision == 2


@pytest.mark.parametrize(
    "case",
    [
        (PLAIN, {"credentialType": "PLAIN", "identifier": "you"}, ["secret"]),
        (PLAIN, {"credentialType": "ACCESSTOKEN"}, ["accessToken"]),
        (None, {"credentialType": "REFRESHTOKEN"}, ["accessToken", "refreshToken"]),
    ],
    ids=["another identifier", "another type", "none is stored"],
)
def test_there_must_be_a_secret_to_keep(store, spec, kept, directory, case):
    """Else the missing members are named, and what stood stands."""
    before, now, missing = case
    members = {"sinkCredential": before} if before else {}
    put(store, spec(**members))
    stood = seen(directory)
    (refused,) = store.apply([Put("a", kept(sinkCredential=now), "u2")], 5)
    assert isinstance(refused, ResourceError)
    assert [f.path for f in refused.faults] == [f"$.sinkCredential.{name}" for name in missing]
    assert seen(directory) == stood
    assert store.find("a").revision == 1


def test_a_create_has_nothing_to_keep(store, kept):
    """Not even where another subscription has that secret."""
    (refused,) = store.apply(
        [Put("b", kept(sinkCredential={"credentialType": "PLAIN", "identifier": "me"}), "u2")], 5
    )
    assert isinstance(refused, ResourceError)
    assert store.live_count() == 0


def test_secrets_are_kept_within_one_batch(store, spec, kept, directory):
    """A change sees what those before it left, sealed or not."""
    store.apply(
        [
            Put("a", spec(sinkCredential=PLAIN), "u1"),
            Put("a", kept(sinkCredential={"credentialType": "PLAIN", "identifier": "me"}), "u2"),
            Put("b", spec(sinkCredential=PLAIN), "u3"),
            Delete("b"),
            Put("b", spec(), "u4"),
        ],
        5,
    )
    credential = seen(directory)
    assert credential is not None
    assert credential.secret == "canary"
    assert directory.credential("u4") is None


def test_members_that_are_left_out_with_the_secrets_are_kept_and_shown(store, spec, kept):
    """So a client need not know what it cannot read."""
    put(store, spec(sinkCredential=REFRESH))
    again = put(store, kept(sinkCredential={"credentialType": "REFRESHTOKEN"}))
    shown = {name: REFRESH[name] for name in REFRESH if name not in ("accessToken", "refreshToken")}
    assert again.subscription.to_json()["sinkCredential"] == shown


def test_an_expiry_that_is_repeated_says_nothing_of_a_renewed_token(
    store, spec, kept, rows, directory
):
    """What a client reads and sends back must not make a fresh token look old, or the reverse."""
    put(store, spec(sinkCredential=REFRESH))
    held = rows.find("u1")
    used = rows.open(held)
    assert rows.renew(
        "u1", used, dataclasses.replace(used, access_token="new", access_token_expires_ms=7)
    )
    read_back = store.find("a").to_json()["sinkCredential"]
    put(store, kept(sinkCredential=read_back))
    credential = seen(directory)
    assert credential is not None
    assert (credential.access_token, credential.access_token_expires_ms) == ("new", 7)
    put(store, kept(sinkCredential=read_back | {"accessTokenExpiresUtc": "1970-01-01T00:00:09Z"}))
    credential = seen(directory)
    assert credential is not None
    assert credential.access_token_expires_ms == 9000


def test_without_a_key_a_change_is_refused_and_others_are_made(url, spec, tmp_path):
    """A key that cannot be used costs those that need it, and nobody else."""
    store = Store(url, sealer=Sealer(Keys(tmp_path / "none", "no key")))
    outcomes = store.apply([Put("a", spec(sinkCredential=PLAIN), "u1"), Put("b", spec(), "u2")], 5)
    assert isinstance(outcomes[0], StoreError)
    assert isinstance(outcomes[1], Applied)
    assert store.live_count() == 1
    store.close()


# -- renewals ---------------------------------------------------------------------------------


def test_a_renewed_token_reaches_readers_without_a_route_change(store, spec, rows, directory):
    """They look at one row, and read what changed."""
    put(store, spec(sinkCredential=REFRESH))
    seen(directory)
    newest, changed = rows.changed(0)
    assert [held.id for held in changed] == ["a"]
    used = rows.open(changed[0])
    renewed = dataclasses.replace(used, access_token="new", refresh_token="rotated")
    assert rows.renew("u1", used, renewed)
    assert len(store.pending(10)) == 1
    assert directory.refresh() is True
    assert directory.renewed() == {"u1"}
    assert directory.renewed() == set()
    assert directory.credential("u1") == renewed
    assert directory.refresh() is False
    assert rows.changed(newest)[1][0].uid == "u1"


def test_a_renewal_of_what_was_replaced_meanwhile_is_dropped(store, spec, rows):
    """The answer belongs to a credential that nobody uses any more."""
    put(store, spec(sinkCredential=REFRESH))
    used = rows.open(rows.find("u1"))
    put(store, spec(sinkCredential=REFRESH | {"refreshToken": "another"}))
    assert not rows.renew("u1", used, dataclasses.replace(used, access_token="new"))
    assert rows.open(rows.find("u1")).access_token == "canary"
    put(store, spec())
    assert not rows.renew("u1", used, used)


def test_a_renewal_survives_a_replace_that_kept_the_secrets(store, spec, kept, rows):
    """Its refresh token may have been rotated: dropping the answer would lose the only one."""
    put(store, spec(sinkCredential=REFRESH))
    used = rows.open(rows.find("u1"))
    put(store, kept(sinkCredential={"credentialType": "REFRESHTOKEN"}))
    assert rows.renew("u1", used, dataclasses.replace(used, refresh_token="rotated"))
    assert rows.find("u1").revision == 2
    assert rows.open(rows.find("u1")).refresh_token == "rotated"


def test_a_new_key_seals_anew_what_the_old_one_sealed(url, spec, tmp_path):
    """Then the old one can be taken away."""
    old, both = key_text(1), f"{key_text(2)},{key_text(1)}"
    store = Store(url, sealer=Sealer(Keys(tmp_path / "none", old)))
    put(store, spec(sinkCredential=PLAIN))
    store.close()
    rows = CredentialRows(url, Sealer(Keys(tmp_path / "none", both)))
    assert rows.reseal() == (1, None)
    assert rows.reseal() == (0, None)
    rows.close()
    directory = Directory(url, Sealer(Keys(tmp_path / "none", key_text(2))))
    assert seen(directory) == Credential("PLAIN", identifier="me", secret="canary")
    directory.close()


def test_sealing_anew_leaves_what_it_cannot_open(url, spec, tmp_path):
    """Its key may come back."""
    store = Store(url, sealer=Sealer(Keys(tmp_path / "none", key_text(1))))
    put(store, spec(sinkCredential=PLAIN))
    store.close()
    rows = CredentialRows(url, Sealer(Keys(tmp_path / "none", key_text(2))))
    assert rows.reseal() == (0, None)
    held = rows.find("u1")
    rows.close()
    assert held is not None
    assert Sealer(Keys(tmp_path / "none", key_text(1))).open("u1", held.sealed).secret == "canary"


# -- readers ----------------------------------------------------------------------------------


def test_a_credential_of_another_revision_is_never_used(store, spec, directory, url):
    """Its secret is for another sink."""
    put(store, spec(sinkCredential=PLAIN))
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("UPDATE credential SET revision = 2, seq = 9")
        connection.execute("UPDATE generation SET credential_seq = 9")
    directory.refresh()
    with pytest.raises(StoreError, match="missing"):
        directory.credential("u1")


def test_a_credential_that_is_lost_is_missed(store, spec, directory, url):
    """Nothing is delivered without it."""
    put(store, spec(sinkCredential=PLAIN))
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("DELETE FROM credential")
    with pytest.raises(StoreError, match="missing"):
        seen(directory)


def test_a_store_of_the_first_version_is_brought_up(url, spec):
    """It gains a table and a column, and keeps what it has."""
    store = Store(url)
    put(store, spec())
    store.close()
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("DROP TABLE credential")
        connection.execute("ALTER TABLE generation DROP COLUMN credential_seq")
        connection.execute("UPDATE control_schema SET version = 1")
    for _ in range(2):
        store = Store(url)
        assert store.find("a").uid == "u1"
        put(store, spec(sinkCredential=PLAIN))
        store.close()
    directory = Directory(url)
    assert seen(directory) is not None
    directory.close()


def test_who_is_held_back_is_told_by_name(store, rows):
    """Credentials that would go to other machines in the clear; only while that is not allowed."""
    account = {"credentialType": "PLAIN", "identifier": "me", "secret": "hunter22"}
    header = {"headers": {"Authorization": "Bearer x"}}
    sinks = {
        "a-remote": {"sink": "http://example.com/", "sinkCredential": account},
        "b-header": {"sink": "http://example.com/", "protocolsettings": header},
        "c-tls": {"sink": "https://example.com/", "sinkCredential": account},
        "d-here": {"sink": "http://localhost/", "sinkCredential": account},
        "e-key": {"sink": "http://example.com/", "protocolsettings": {"headers": {"x-key": "k"}}},
        "f-none": {"sink": "http://example.com/"},
    }
    allowed = rules(SinkRule(local_allowed=True, cleartext_allowed=True))
    for name, members in sinks.items():
        made = parse({"protocol": "HTTP", **members}, allowed)
        store.apply([Put(name, made, name)], 5)
    held_back = ["/subscriptions/a-remote", "/subscriptions/b-header"]
    assert rows.held_back(SinkRule(local_allowed=True)) == held_back
    assert rows.held_back(allowed.sinks) == []


def test_a_name_of_a_secret_is_shown_and_is_no_secret_to_keep(tmp_path: Path) -> None:
    """What was read can be sent back; without it, and without a secret, nothing authorizes."""
    ours = rules(SinkRule(local_allowed=True))
    url = sqlite_url(tmp_path / "state.db")
    store = Store(url)
    named = {"credentialtype": "PLAIN", "identifier": "me", "secretref": {"name": "crm"}}
    body = {"sink": "https://example.com/", "protocol": "HTTP", "sinkCredential": named}
    put(store, parse(body, ours))
    directory = Directory(url)
    directory.refresh()
    listed = directory.get("u1")
    assert isinstance(listed, Listed)
    shown = listed.spec.to_json()["sinkCredential"]
    assert shown == {"credentialType": "PLAIN", "identifier": "me", "secretRef": {"name": "crm"}}
    assert directory.credential("u1") == Credential("PLAIN", identifier="me", secret_ref="crm")
    put(store, parse(body | {"sinkCredential": shown}, ours, secrets_kept=True))
    bare = body | {"sinkCredential": {"credentialType": "PLAIN", "identifier": "me"}}
    spec = parse(bare, ours, secrets_kept=True)
    (answer,) = store.apply([Put("a", spec, "u1")], 6)
    assert isinstance(answer, ResourceError)
    directory.close()
    store.close()
