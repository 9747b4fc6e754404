"""A stored secret is for a sink as it was trusted: other certificates take the secret again."""

import dataclasses

import msgspec
import pytest
import sqlalchemy as sa

from distributary.core import database
from distributary.core.errors import ResourceError, StoreError
from distributary.routes import tables
from distributary.subscriptions.resource import SecretSettings
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.stored import Applied, Put
from kit.certificates import Authority

SINK = "https://127.0.0.1:9/"
PLAIN = {"credentialType": "PLAIN", "identifier": "me", "secret": "canary"}
KEEP = {"credentialType": "PLAIN", "identifier": "me"}
AUTHORITIES = [Authority(name) for name in ("Ours", "Theirs")]
OURS, THEIRS = (each.pem.decode() for each in AUTHORITIES)
OTHERS = pytest.mark.parametrize(
    "change",
    [(None, OURS), (OURS, THEIRS), (OURS, OURS + THEIRS)],
    ids=["some where none were", "others", "one more"],
)
FEWER = pytest.mark.parametrize(
    "change",
    [(OURS + THEIRS, f"theirs:\n{THEIRS}"), (OURS, OURS.replace("\n", "\r\n")), (OURS, None)],
    ids=["one less", "in other words", "none any more"],
)


def body(cacerts, **members):
    """A subscription whose sink is trusted by *cacerts*, and by the system's."""
    settings = members.pop("settings", {})
    trust = {} if cacerts is None else {"cacerts": cacerts}
    return {"sink": SINK, "protocolsettings": settings | trust, **members}


def put(store, spec):
    """Create or replace the subscription ``a``."""
    (outcome,) = store.apply([Put("a", spec, "u1")], 5)
    assert isinstance(outcome, Applied), outcome
    return outcome


def refused(store, spec):
    """The faults of what would replace it."""
    (outcome,) = store.apply([Put("a", spec, "u2")], 5)
    assert isinstance(outcome, ResourceError)
    assert "canary" not in str(outcome)
    return outcome.faults


def password(directory):
    """What the sink is shown."""
    directory.refresh()
    return directory.credential("u1").secret


def headers(directory):
    """What the sink is sent."""
    directory.refresh()
    return dict(directory.spec("u1").settings.headers)


@OTHERS
def test_a_credential_is_not_kept_for_other_certificates(store, spec, kept, directory, change):
    """Who may change a subscription, and can answer at its sink, does not get the secret."""
    before, now = change
    put(store, spec(**body(before, sinkCredential=PLAIN)))
    for member in ("sinkCredential", "sinkcredential"):
        (fault,) = refused(store, kept(**body(now, **{member: KEEP})))
    assert (fault.path, fault.code) == ("$.sinkCredential.secret", "missing")
    assert (
        "a sink that is trusted by other certificates (cacerts): send the secrets" in fault.message
    )
    assert password(directory) == "canary"
    put(store, spec(**body(now, sinkCredential=PLAIN | {"secret": "canary-again"})))
    assert password(directory) == "canary-again"


@FEWER
def test_a_credential_is_kept_where_no_certificate_is_new(store, spec, kept, directory, change):
    """Nobody else can answer; and what was taken away is new when it comes again."""
    before, now = change
    put(store, spec(**body(before, sinkCredential=PLAIN)))
    put(store, kept(**body(now, sinkCredential=KEEP)))
    assert password(directory) == "canary"
    if now is None or THEIRS in now:
        assert refused(store, kept(**body(before, sinkCredential=KEEP)))


@OTHERS
def test_a_masked_header_is_not_kept_for_other_certificates(store, spec, kept, directory, change):
    """Neither of the sink nor of a dead letter sink with certificates of its own."""
    before, now = change
    value, mask = {"headers": {"X-Api-Key": "canary"}}, {"headers": {"X-Api-Key": "***"}}
    put(store, spec(**body(before, settings=value)))
    (fault,) = refused(store, kept(**body(now, settings=mask)))
    assert fault.path == '$.protocolsettings.headers["X-Api-Key"]'
    assert "trusted by other certificates (cacerts): send the value again" in fault.message
    assert headers(directory) == {"X-Api-Key": "canary"}
    letters = {"delivery": {"deadLetterSink": body(before, settings=value)}}
    put(store, spec(**body(None, settings=letters)))
    letters = {"delivery": {"deadLetterSink": body(now, settings=mask)}}
    (fault,) = refused(store, kept(**body(None, settings=letters)))
    assert fault.path.endswith('deadLetterSink.protocolsettings.headers["X-Api-Key"]')


@FEWER
def test_a_masked_header_is_kept_where_no_certificate_is_new(store, spec, kept, directory, change):
    """As a credential."""
    before, now = change
    put(store, spec(**body(before, settings={"headers": {"X-Api-Key": "canary"}})))
    put(store, kept(**body(now, settings={"headers": {"X-Api-Key": "***"}})))
    assert headers(directory) == {"X-Api-Key": "canary"}


def test_keys_that_no_sink_is_sent_stay(store, spec, kept, directory):
    """The private key of a client certificate, and those that sign."""
    pair = AUTHORITIES[0].client()
    shown = {"certificate": pair.certificate.decode(), "key": pair.key.decode()}
    settings = {"clientcertificate": shown, "signature": {"scheme": "v1"}}
    put(store, spec(**body(OURS, settings=settings)))
    directory.refresh()
    signing = directory.spec("u1").secrets.signing
    masked = settings | {"clientcertificate": shown | {"key": "***"}}
    put(store, kept(**body(THEIRS, settings=masked)))
    directory.refresh()
    found = directory.spec("u1")
    assert found.client_certificate.key == shown["key"]
    assert found.secrets.signing.keys == signing.keys


def change_rows(url, statement):
    """Write to the store, as nobody should."""
    engine = database.open_writer(url, "test")
    with database.writing(engine) as connection:
        connection.execute(statement)
    engine.dispose()


def test_readers_send_no_secret_by_certificates_that_came_otherwise(store, spec, directory, url):
    """However they came to stand beside it: what it was given for is sealed with it."""
    settings = {"headers": {"X-Api-Key": "canary"}}
    made = put(store, spec(**body(OURS, sinkCredential=PLAIN, settings=settings)))
    realized = msgspec.json.decode(made.subscription.encode())
    realized["protocolsettings"]["cacerts"] = THEIRS
    table = tables.api_subscription
    text = msgspec.json.encode(realized).decode()
    change_rows(url, sa.update(table).where(table.c.uid == "u1").values(spec_json=text))
    with pytest.raises(StoreError, match="trusted by other certificates"):
        password(directory)
    with pytest.raises(StoreError, match="trusted by other certificates"):
        headers(directory)


@pytest.fixture
def older(url, tmp_path):
    """A function that makes of the sealed secrets of ``a`` what an earlier version sealed."""

    def change():
        sealer = Sealer(Keys(tmp_path / "credentials.key"))
        table = tables.credential
        engine = database.open_reader(url, "test")
        with database.reading(engine) as connection:
            row = connection.execute(sa.select(table.c.sealed, table.c.settings)).one()
        engine.dispose()
        credential = dataclasses.replace(sealer.open("u1", row.sealed), trusted_by=None)
        values = sealer.open_settings("u1", row.settings).sink
        settings = SecretSettings(sink=dataclasses.replace(values, trusted_by=None))
        sealed = {
            "sealed": sealer.seal("u1", credential),
            "settings": sealer.seal_settings("u1", settings),
        }
        change_rows(url, sa.update(table).values(**sealed))

    return change


def test_what_an_earlier_version_sealed_is_for_the_certificates_that_it_stood_with(
    store, spec, kept, directory, older
):
    """It goes on, and is kept for these alone."""
    value, mask = {"headers": {"X-Api-Key": "canary"}}, {"headers": {"X-Api-Key": "***"}}
    put(store, spec(**body(OURS, sinkCredential=PLAIN, settings=value)))
    older()
    assert password(directory) == "canary"
    assert headers(directory) == {"X-Api-Key": "canary"}
    faults = refused(store, kept(**body(THEIRS, sinkCredential=KEEP, settings=mask)))
    assert [fault.path for fault in faults] == [
        "$.sinkCredential.secret",
        '$.protocolsettings.headers["X-Api-Key"]',
    ]
    put(store, kept(**body(OURS, sinkCredential=KEEP, settings=mask)))
    assert password(directory) == "canary"
    assert headers(directory) == {"X-Api-Key": "canary"}
