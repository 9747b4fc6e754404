"""``protocolsettings.clientcertificate``: checked, sealed, masked, kept for one origin."""

import pytest
from cryptography.hazmat.primitives import serialization

from distributary.core.database import sqlite_url
from distributary.core.deliver.credential import ClientCertificate
from distributary.core.errors import ResourceError
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Put
from kit.servers import Authority

SINK = "https://127.0.0.1:9/"
PATH = "$.protocolsettings.clientcertificate"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Makes a pair by name; the days that it is valid may be negative."""
    authority = Authority(tmp_path_factory.mktemp("authority"))

    def make(name="own", days=30):
        files = authority.server(name, days=days)
        certificate, key = files.certificate.read_text(), files.key.read_text()
        return {"certificate": certificate, "key": key}

    return make


def faults_of(act):
    """Path and code of each fault."""
    with pytest.raises(ResourceError) as caught:
        act()
    assert "PRIVATE" not in str(caught.value)
    return [(fault.path, fault.code) for fault in caught.value.faults]


def put(store, spec):
    """Create or replace the subscription ``a``; raises why it is refused."""
    (outcome,) = store.apply([Put("a", spec, "u1")], 5)
    if not isinstance(outcome, Applied):
        raise outcome
    return outcome


def settings(pair, **more):
    """A proposal with this pair."""
    return {"sink": SINK, "protocolsettings": {"clientcertificate": pair, **more}}


def test_the_key_is_sealed_and_shown_as_a_mask(store, spec, kept, directory, pairs):
    """What is sent back keeps it; deliveries have it."""
    pair = pairs()
    made = put(store, spec(**settings(pair))).answer().to_json()
    assert made["protocolsettings"]["clientcertificate"]["key"] == "***"
    shown = made["protocolsettings"]["clientcertificate"]
    put(store, kept(**settings(shown), types=["b"]))
    directory.refresh()
    found = directory.spec("u1").client_certificate
    assert found == ClientCertificate(shown["certificate"], pair["key"])
    assert found.certificate.strip() == pair["certificate"].strip()
    assert "PRIVATE" not in repr(directory.spec("u1"))


def test_no_file_of_the_store_holds_the_key(tmp_path, spec, pairs):
    """In the clear."""
    pair = pairs()
    store = Store(sqlite_url(tmp_path / "control.db"))
    put(store, spec(**settings(pair)))
    line = pair["key"].splitlines()[1].encode()
    assert all(line not in file.read_bytes() for file in tmp_path.iterdir())
    store.close()


@pytest.mark.parametrize("sink", ["https://127.0.0.1:10/", "https://127.0.0.2:9/"])
def test_the_key_is_for_one_origin(store, spec, kept, pairs, sink):
    """Another party would learn who we are to the first."""
    pair = pairs()
    put(store, spec(**settings(pair)))
    masked = {**pair, "key": "***"}
    moved = kept(**{**settings(masked), "sink": sink})
    assert faults_of(lambda: put(store, moved)) == [(f"{PATH}.key", "missing")]


def test_a_key_that_is_kept_belongs_to_the_certificate(store, spec, kept, pairs):
    """A renewed certificate of the same key is fine, another one is not."""
    put(store, spec(**settings(pairs())))
    other = {**pairs("other"), "key": "***"}
    change = kept(**settings(other))
    assert faults_of(lambda: put(store, change)) == [(f"{PATH}.key", "value")]


def test_a_dead_letter_sink_may_have_one_of_its_own(store, spec, kept, directory, pairs):
    """Each is kept by itself; the short form has the sink's at its own origin alone."""
    own, dead = pairs("own"), pairs("dead")

    target = {"sink": "https://127.0.0.1:8/", "protocolsettings": {"clientcertificate": dead}}
    made = put(store, spec(**settings(own, delivery={"deadLetterSink": target}))).subscription
    realized = made.to_json()
    realized.pop("id")
    put(store, kept(**realized))
    directory.refresh()
    found = directory.spec("u1")
    assert found.client_certificate.key == own["key"]
    assert found.dead_letter.client_certificate.key == dead["key"]
    for uri, key in (("https://127.0.0.1:9/dead", own["key"]), ("https://127.0.0.1:8/", None)):
        put(store, spec(**settings(own, delivery={"deadLetterSink": uri})))
        directory.refresh()
        certificate = directory.spec("u1").dead_letter.client_certificate
        assert (None if certificate is None else certificate.key) == key


def test_what_cannot_be_shown_is_refused(spec, pairs):
    """Each with its place, and no word of the key."""
    own, other = pairs("own"), pairs("other")
    key = serialization.load_pem_private_key(own["key"].encode(), None)
    password = serialization.BestAvailableEncryption(b"x")
    pkcs8 = serialization.PrivateFormat.PKCS8
    locked = key.private_bytes(serialization.Encoding.PEM, pkcs8, password).decode()
    for pair, found in (
        ({**own, "key": other["key"]}, [(f"{PATH}.key", "value")]),
        ({**own, "key": locked}, [(f"{PATH}.key", "value")]),
        ({**own, "key": "canary"}, [(f"{PATH}.key", "value")]),
        ({**own, "key": "***"}, [(f"{PATH}.key", "missing")]),
        ({"certificate": own["certificate"]}, [(f"{PATH}.key", "missing")]),
        ({**own, "certificate": own["key"]}, [(f"{PATH}.certificate", "value")]),
        ({**own, "password": "x"}, [(f"{PATH}.password", "unknown")]),
        (pairs("old", days=-1), [(f"{PATH}.certificate", "value")]),
        ("x", [(PATH, "type")]),
    ):
        assert faults_of(lambda pair=pair: spec(**settings(pair))) == found
    plain = {"sink": "http://127.0.0.1:9/", "protocolsettings": {"clientcertificate": own}}
    assert faults_of(lambda: spec(**plain)) == [(PATH, "not-applicable")]
