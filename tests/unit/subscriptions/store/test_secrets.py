"""Whom a stored secret is for, and settings that are secrets: sealed, masked, kept, refused."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from distributary.core.database import sqlite
from distributary.core.deliver.credential import Credential
from distributary.core.errors import ResourceError, StoreError
from distributary.subscriptions.resource import ApiSubscriptionSpec, SecretSettings
from distributary.subscriptions.store import Directory, Keys, Sealer
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


def put(store: Store, spec: ApiSubscriptionSpec, uid: str = "u1") -> Applied:
    """Create or replace the subscription ``a``."""
    (outcome,) = store.apply([Put("a", spec, uid)], 5)
    assert isinstance(outcome, Applied), outcome
    return outcome


def seen(directory: Directory, uid: str = "u1") -> Credential | None:
    """The credential that a reader has after a look."""
    directory.refresh()
    return directory.credential(uid)


def test_what_one_batch_makes_and_deletes_leaves_no_secret(store, spec, url):
    """As what a later batch deletes."""
    made, gone = store.apply([Put("a", spec(sinkCredential=PLAIN), "u1"), Delete("a")], 5)
    assert isinstance(made, Applied)
    assert isinstance(gone, Applied)
    with closing(sqlite3.connect(url.database)) as connection:
        assert connection.execute("SELECT uid FROM credential").fetchall() == []


# -- whom a secret is for ---------------------------------------------------------------------

KEEP = {"credentialType": "PLAIN", "identifier": "me"}


@pytest.mark.parametrize(
    "sinks",
    [
        ("http://127.0.0.1:9/", "http://127.0.0.1:10/"),
        ("http://127.0.0.1/", "http://127.0.0.2/"),
        ("https://127.0.0.1/", "http://127.0.0.1/"),
        ("http://127.0.0.1/", "https://127.0.0.1:444/"),
        ("http://127.0.0.1/", "https://127.0.0.1.example.com/"),
    ],
)
def test_a_secret_is_not_kept_for_another_origin(store, spec, kept, directory, sinks):
    """Who may change a subscription cannot have its secret sent to himself."""
    before, now = sinks
    put(store, spec(sink=before, sinkCredential=PLAIN))
    moved = kept(sink=now, sinkCredential=KEEP)
    (refused,) = store.apply([Put("a", moved, "u2")], 5)
    assert isinstance(refused, ResourceError)
    (fault,) = refused.faults
    assert (fault.path, fault.code) == ("$.sinkCredential.secret", "missing")
    assert "send the secrets again" in fault.message
    assert "canary" not in fault.message
    seen(directory)
    assert directory.get("u1").spec.sink == before


@pytest.mark.parametrize(
    "sinks",
    [
        ("http://127.0.0.1:9/a?b", "http://127.0.0.1:9/c"),
        ("http://LOCALHOST/", "http://localhost.:80/"),
        ("http://[::1]:80/", "http://[0::1]/"),
        ("http://127.0.0.1/", "https://127.0.0.1/"),
        ("http://127.0.0.1:9/", "https://127.0.0.1:9/"),
    ],
)
def test_a_secret_is_kept_at_its_origin_and_where_tls_is_added(store, spec, kept, directory, sinks):
    """Path and query are the same party's; so is the port that speaks TLS."""
    before, now = sinks
    put(store, spec(sink=before, sinkCredential=PLAIN))
    put(store, kept(sink=now, sinkCredential=KEEP))
    credential = seen(directory)
    assert credential is not None
    assert credential.secret == "canary"


def test_tls_that_was_added_is_not_taken_away_again(store, spec, kept):
    """The secret belongs to the newest origin that it was kept for."""
    put(store, spec(sink="http://127.0.0.1/", sinkCredential=PLAIN))
    put(store, kept(sink="https://127.0.0.1/", sinkCredential=KEEP))
    back = kept(sink="http://127.0.0.1/", sinkCredential=KEEP)
    (refused,) = store.apply([Put("a", back, "u2")], 5)
    assert isinstance(refused, ResourceError)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://example.org/token",
        "https://example.com:8443/token",
        "http://localhost/token",
        "https://example.com.example.org/token",
    ],
)
def test_a_refresh_token_is_not_kept_for_another_endpoint(store, spec, kept, endpoint):
    """It would be posted there at the next refresh."""
    put(store, spec(sinkCredential=REFRESH))
    moved = {"credentialType": "REFRESHTOKEN", "refreshTokenEndpoint": endpoint}
    (refused,) = store.apply([Put("a", kept(sinkCredential=moved), "u2")], 5)
    assert isinstance(refused, ResourceError)
    assert [fault.path for fault in refused.faults] == [
        "$.sinkCredential.accessToken",
        "$.sinkCredential.refreshToken",
    ]
    assert all("refreshTokenEndpoint" in fault.message for fault in refused.faults)


def test_a_refresh_token_that_had_no_endpoint_is_not_kept_for_one(store, spec, kept):
    """Nobody said that it may be sent anywhere."""
    bare = {name: value for name, value in REFRESH.items() if name != "refreshTokenEndpoint"}
    put(store, spec(sinkCredential=bare))
    named = {"credentialType": "REFRESHTOKEN", "refreshTokenEndpoint": "https://example.com/"}
    (refused,) = store.apply([Put("a", kept(sinkCredential=named), "u2")], 5)
    assert isinstance(refused, ResourceError)


def test_another_path_of_the_endpoint_keeps_the_refresh_token(store, spec, kept, directory):
    """The origin is the same."""
    put(store, spec(sinkCredential=REFRESH))
    moved = {"credentialType": "REFRESHTOKEN", "refreshTokenEndpoint": "https://EXAMPLE.com:443/v2"}
    put(store, kept(sinkCredential=moved))
    credential = seen(directory)
    assert credential is not None
    assert (credential.refresh_token, credential.refresh_token_endpoint) == (
        "canary-too",
        "https://EXAMPLE.com:443/v2",
    )


def test_readers_do_not_use_a_credential_for_another_sink(store, spec, directory, url):
    """However the sink came to stand beside it: the origin is sealed with the secret."""
    put(store, spec(sinkCredential=PLAIN))
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("UPDATE api_subscription SET spec_json = replace(spec_json, ':9/', '/')")
    with pytest.raises(StoreError, match="another origin of the sink"):
        seen(directory)


def downgrade(url, *, plain: str) -> None:
    """Make the store what version 3 wrote: *plain* where masks stand, and no origin sealed."""
    sealer = Sealer(Keys(Path(str(url.database)).with_name("credentials.key")))
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        rows = connection.execute("SELECT uid, sealed FROM credential WHERE sealed <> x''")
        for uid, sealed in rows.fetchall():
            bare = dataclasses.replace(sealer.open(uid, sealed), origin=None)
            connection.execute("UPDATE credential SET sealed = ?", (sealer.seal(uid, bare),))
        connection.execute("DELETE FROM credential WHERE sealed = x''")
        connection.execute("ALTER TABLE credential DROP COLUMN settings")
        connection.execute(
            "UPDATE api_subscription SET spec_json = replace(spec_json, '***', ?)", (plain,)
        )
        connection.execute("UPDATE control_schema SET version = 3")
        connection.execute("PRAGMA user_version = 0")


def test_a_credential_without_an_origin_is_for_the_sink_that_it_stood_with(
    store, spec, kept, url, directory
):
    """A version without origins sealed it: it is bound when the store is opened."""
    put(store, spec(sinkCredential=PLAIN))
    store.close()
    downgrade(url, plain="")
    store = Store(url)
    assert seen(directory) == Credential("PLAIN", identifier="me", secret="canary")
    moved = kept(sink="http://127.0.0.1:10/", sinkCredential=KEEP)
    (refused,) = store.apply([Put("a", moved, "u2")], 5)
    assert isinstance(refused, ResourceError)
    put(store, kept(sink="http://127.0.0.1:9/other", sinkCredential=KEEP))
    credential = seen(directory)
    assert credential is not None
    assert credential.secret == "canary"
    store.close()


# -- secret settings --------------------------------------------------------------------------

HEADERS = {"X-Api-Key": "canary-key", "X-Plain": "plain", "Cookie": "canary-cookie"}
MASKED = {"X-Api-Key": "***", "X-Plain": "plain", "Cookie": "***"}


def headers_of(store: Store) -> dict[str, str]:
    """What a client is shown."""
    settings = store.find("a").to_json()["protocolsettings"]
    assert isinstance(settings["headers"], dict)
    return settings["headers"]


def sent(directory: Directory, uid: str = "u1") -> dict[str, str]:
    """What a sink is sent."""
    directory.refresh()
    return dict(directory.spec(uid).settings.headers)


def files_with(url, what: bytes) -> list[str]:
    """Files of the store that hold *what*."""
    paths = [Path(str(url.database) + suffix) for suffix in ("", "-wal")]
    return [path.name for path in paths if path.exists() and what in path.read_bytes()]


def test_secret_headers_are_masked_where_shown_and_sent_as_they_are(store, spec, directory, url):
    """By their names; the store holds them sealed alone."""
    made = put(store, spec(protocolsettings={"headers": HEADERS}))
    assert headers_of(store) == MASKED
    assert b"canary" not in made.record + made.subscription.encode()
    assert sent(directory) == HEADERS
    assert files_with(url, b"canary") == []
    assert "canary" not in repr(directory.spec("u1"))


@pytest.mark.parametrize(
    "change",
    [{}, {"sink": "http://127.0.0.1:9/other"}, {"sink": "https://127.0.0.1:9/"}],
    ids=["the same", "another path", "TLS added"],
)
def test_a_mask_that_is_sent_back_keeps_the_stored_value(store, spec, kept, directory, change):
    """What GET gave can be put back; the case of a header's name says nothing."""
    put(store, spec(protocolsettings={"headers": HEADERS}))
    again = {"x-api-key": "***", "Cookie": "canary-new", "X-Plain": "***"}
    put(store, kept(protocolsettings={"headers": again}, **change))
    assert sent(directory) == {
        "x-api-key": "canary-key",
        "Cookie": "canary-new",
        "X-Plain": "***",
    }


def test_a_mask_without_a_stored_value_for_this_sink_is_a_fault(store, spec, kept, directory):
    """Each with its place: a new name, another origin, and both kinds of sink at once."""
    letters = {"sink": "http://127.0.0.1:8/", "protocolsettings": {"headers": {"token": "canary"}}}
    settings = {"headers": HEADERS, "delivery": {"deadLetterSink": letters}}
    put(store, spec(protocolsettings=settings))
    moved = {"sink": "http://127.0.0.1:7/", "protocolsettings": {"headers": {"token": "***"}}}
    settings = {
        "headers": {"X-Api-Key": "***", "X-Secret": "***"},
        "delivery": {"deadLetterSink": moved},
    }
    (refused,) = store.apply([Put("a", kept(protocolsettings=settings), "u2")], 5)
    assert isinstance(refused, ResourceError)
    dead = "$.protocolsettings.delivery.deadLetterSink.protocolsettings.headers.token"
    assert [(fault.path, fault.code) for fault in refused.faults] == [
        ('$.protocolsettings.headers["X-Secret"]', "missing"),
        (dead, "missing"),
    ]
    assert sent(directory) == HEADERS
    there = kept(sink="http://127.0.0.1:7/", protocolsettings={"headers": {"X-Api-Key": "***"}})
    (refused,) = store.apply([Put("a", there, "u2")], 5)
    assert isinstance(refused, ResourceError)
    assert "another origin" in refused.faults[0].message


def test_a_create_cannot_mask(spec):
    """Nothing is stored that the mask could stand for."""
    with pytest.raises(ResourceError) as caught:
        spec(protocolsettings={"headers": {"X-Api-Key": "***", "X-Plain": "***"}})
    assert [fault.path for fault in caught.value.faults] == [
        '$.protocolsettings.headers["X-Api-Key"]'
    ]


def test_a_value_beside_a_credential_is_kept_with_it(store, spec, kept, directory, rows):
    """A renewal of the token changes nothing about the settings."""
    put(store, spec(sinkCredential=REFRESH, protocolsettings={"headers": {"X-Key": "canary-key"}}))
    used = rows.open(rows.find("u1"))
    assert rows.renew("u1", used, dataclasses.replace(used, access_token="new"))
    assert sent(directory) == {"X-Key": "canary-key"}
    credential = seen(directory)
    assert credential is not None
    assert credential.access_token == "new"
    put(store, kept(sinkCredential={"credentialType": "REFRESHTOKEN"}))
    assert sent(directory) == {}


def test_readers_do_not_send_a_secret_setting_to_another_sink(store, spec, directory, url):
    """The origin is sealed with it."""
    put(store, spec(protocolsettings={"headers": HEADERS}))
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("UPDATE api_subscription SET spec_json = replace(spec_json, ':9/', '/')")
    with pytest.raises(StoreError, match="another origin of the sink"):
        sent(directory)


def test_settings_that_an_older_version_wrote_in_the_clear_are_sealed(store, spec, url):
    """When the store is opened; nothing readable is left in its files, and the tag stays."""
    letters = {"sink": "http://127.0.0.1:8/", "protocolsettings": {"headers": {"token": "a"}}}
    settings = {"headers": {"X-Key": "a", "X-Plain": "b"}, "delivery": {"deadLetterSink": letters}}
    put(store, spec(sinkCredential=PLAIN, protocolsettings=settings))
    etag = store.find("a").etag
    store.close()
    downgrade(url, plain="canary-plain")
    assert files_with(url, b"canary-plain") != []
    store = Store(url)
    assert headers_of(store) == {"X-Key": "***", "X-Plain": "b"}
    assert store.find("a").etag == etag
    assert files_with(url, b"canary-plain") == []
    directory = Directory(url)
    assert sent(directory) == {"X-Key": "canary-plain", "X-Plain": "b"}
    dead = directory.spec("u1").dead_letter
    assert dead is not None
    assert dict(dead.settings.headers) == {"token": "canary-plain"}
    assert seen(directory) == Credential("PLAIN", identifier="me", secret="canary")
    directory.close()
    store.close()
    with closing(Store(url)) as again:
        assert again.find("a").etag == etag


@pytest.mark.parametrize("damage", ['{"sink":', "[]", '{"protocol": "HTTP"}'])
def test_a_damaged_subscription_keeps_no_older_store_from_opening(store, spec, url, damage):
    """It was of no use before either; those beside it are sealed and sent."""
    put(store, spec(protocolsettings={"headers": {"X-Key": "a"}}))
    (other,) = store.apply([Put("b", spec(sinkCredential=PLAIN), "u2")], 5)
    assert isinstance(other, Applied)
    store.close()
    downgrade(url, plain="canary-plain")
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("UPDATE api_subscription SET spec_json = ? WHERE uid = 'u2'", (damage,))
    Store(url).close()
    directory = Directory(url)
    assert sent(directory) == {"X-Key": "canary-plain"}
    with pytest.raises(StoreError, match="damaged"):
        directory.spec("u2")
    directory.close()


def test_a_store_that_could_not_be_scrubbed_is_scrubbed_at_the_next_start(
    store, spec, url, monkeypatch
):
    """A reader kept the write-ahead log; the mark in the file stays until it is empty."""
    put(store, spec(protocolsettings={"headers": {"X-Key": "a"}}))
    store.close()
    downgrade(url, plain="canary-plain")
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 10)
    reader = sqlite3.connect(str(url.database))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM api_subscription").fetchone()
    Store(url).close()
    assert files_with(url, b"canary-plain") != []
    reader.close()
    Store(url).close()
    assert files_with(url, b"canary-plain") == []


def test_the_lost_key_of_a_credential_keeps_no_older_store_from_opening(url, spec, tmp_path):
    """Secret settings are sealed by the new key; the credential waits for its own."""
    store = Store(url)
    put(store, spec(sinkCredential=PLAIN, protocolsettings={"headers": {"X-Key": "a"}}))
    store.close()
    downgrade(url, plain="canary-plain")
    (tmp_path / "credentials.key").rename(tmp_path / "lost")
    Store(url).close()
    directory = Directory(url)
    assert sent(directory) == {"X-Key": "canary-plain"}
    with pytest.raises(StoreError, match="another key"):
        seen(directory)
    (tmp_path / "lost").rename(tmp_path / "credentials.key")
    back = Directory(url)
    assert seen(back) == Credential("PLAIN", identifier="me", secret="canary")
    directory.close()
    back.close()


def test_an_older_version_is_told_of_a_newer_store(url, store):
    """It would send masks in place of secrets."""
    store.close()
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        (version,) = connection.execute("SELECT version FROM control_schema").fetchone()
        assert version >= 4
        connection.execute("UPDATE control_schema SET version = version + 1")
    with pytest.raises(StoreError, match="upgrade distributary"):
        Store(url)


BROKERS = {
    "MQTT5": ("mqtt://127.0.0.1/", {"topicname": "t"}, "userproperties", "canary"),
    "AMQP": ("amqp://127.0.0.1/", {"address": "q"}, "linkproperties", 4242),
}


@pytest.mark.parametrize("protocol", BROKERS)
def test_secret_properties_are_of_one_account_at_one_broker(store, spec, kept, directory, protocol):
    """Another account there is another party, to which they were not given."""
    sink, settings, member, value = BROKERS[protocol]
    wanted = {"sink": sink, "protocol": protocol, "sinkCredential": PLAIN}
    put(store, spec(**wanted, protocolsettings=settings | {member: {"api-token": value, "a": "b"}}))
    shown = store.find("a").to_json()["protocolsettings"]
    assert shown[member] == {"api-token": "***", "a": "b"}
    directory.refresh()
    assert dict(getattr(directory.spec("u1").settings, member)) == {"api-token": value, "a": "b"}
    put(store, kept(**wanted | {"sinkCredential": KEEP}, protocolsettings=shown))
    directory.refresh()
    assert dict(getattr(directory.spec("u1").settings, member))["api-token"] == value
    other = wanted | {"sinkCredential": PLAIN | {"identifier": "you"}}
    (refused,) = store.apply([Put("a", kept(**other, protocolsettings=shown), "u2")], 5)
    assert isinstance(refused, ResourceError)
    assert [fault.path for fault in refused.faults] == [f'$.protocolsettings.{member}["api-token"]']


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            (name, True)
            for name in ("Authorization", "COOKIE", "x-api-key", "X-Vault-Token", "PWD")
        ),
        *((name, True) for name in ("X-Auth", "sig", "hub-signature-256", "user.pass", "Passwort")),
        *((name, False) for name in ("Author", "X-Bypass", "X-Design", "Accept", "X-Request-Id")),
    ],
)
def test_a_secret_is_told_by_its_name(spec, name, secret):
    """By words that stand for secrets, in any case; the short ones between separators alone."""
    shown = spec(protocolsettings={"headers": {name: "value"}}).to_json()["protocolsettings"]
    assert shown["headers"] == {name: "***" if secret else "value"}


def test_a_new_key_seals_secret_settings_anew(url, spec, tmp_path):
    """Beside a credential and alone; then the old key can go."""
    old, new = ("A" * 43 + "=", "B" * 42 + "A=")
    store = Store(url, sealer=Sealer(Keys(tmp_path / "none", old)))
    settings = {"headers": {"X-Key": "canary-key"}}
    put(store, spec(sinkCredential=PLAIN, protocolsettings=settings))
    store.apply([Put("b", spec(protocolsettings=settings), "u2")], 5)
    store.close()
    rows = CredentialRows(url, Sealer(Keys(tmp_path / "none", f"{new},{old}")))
    assert rows.reseal() == (2, None)
    assert rows.reseal() == (0, None)
    rows.close()
    directory = Directory(url, Sealer(Keys(tmp_path / "none", new)))
    assert sent(directory, "u1") == sent(directory, "u2") == {"X-Key": "canary-key"}
    assert seen(directory) == Credential("PLAIN", identifier="me", secret="canary")
    directory.close()


def test_sealed_settings_are_no_credential(tmp_path):
    """Each is bound to its place: what was moved within a row opens as nothing."""
    sealer = Sealer(Keys(tmp_path / "none", "A" * 43 + "="))
    with pytest.raises(StoreError, match="damaged"):
        sealer.open_settings("u1", sealer.seal("u1", Credential("PLAIN", secret="canary")))
    with pytest.raises(StoreError, match="damaged"):
        sealer.open("u1", sealer.seal_settings("u1", SecretSettings()))
