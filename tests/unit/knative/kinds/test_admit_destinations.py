"""Destinations and delivery options, wherever they stand."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.kinds import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER, admit

REF = {"apiVersion": "v1", "kind": "Service", "name": "sink"}
S = "spec.subscriber"
D = "spec.delivery"


def ref(**members):
    """A reference with some members changed; ``...``: left out."""
    whole = {**REF, **members}
    return {"ref": {name: value for name, value in whole.items() if value is not ...}}


GOOD = {
    "a URI": {"uri": "https://sink.example:8443/a?b=c"},
    "a loopback address": {"uri": "http://127.0.0.1:9000"},
    "a metadata address, judged later": {"uri": "http://169.254.169.254/"},
    "a reference": {"ref": REF},
    "a reference elsewhere": ref(namespace="other"),
    "a reference with an empty namespace": ref(namespace=""),
    "a reference to what is unknown here": ref(apiVersion="flows.example/v2beta1", kind="Sequence"),
    "relative to a reference": {"ref": REF, "uri": "/path/to?x=y"},
    "a relative path without a slash": {"ref": REF, "uri": "path"},
    "absolute beside a reference": {"ref": REF, "uri": "http://other.example/"},
    "another authority beside a reference": {"ref": REF, "uri": "//other.example/a"},
    "an audience": {"ref": REF, "audience": "urn:sink"},
}

BAD = {
    "neither": ({"audience": "a"}, (S, "Required")),
    "ref without apiVersion": (ref(apiVersion=...), (f"{S}.ref.apiVersion", "Required")),
    "ref without kind": (ref(kind=""), (f"{S}.ref.kind", "Required")),
    "ref without name": (ref(name=None), (f"{S}.ref.name", "Required")),
    "ref no object": ({"ref": "sink"}, (f"{S}.ref", "TypeInvalid")),
    "apiVersion odd": (ref(apiVersion="a/b/v1"), (f"{S}.ref.apiVersion", "Invalid")),
    "kind odd": (ref(kind="my-kind"), (f"{S}.ref.kind", "Invalid")),
    "name odd": (ref(name="Sink_1"), (f"{S}.ref.name", "Invalid")),
    "namespace odd": (ref(namespace="a.b"), (f"{S}.ref.namespace", "Invalid")),
    "uri relative, alone": ({"uri": "/path"}, (f"{S}.uri", "Invalid")),
    "uri empty": ({"uri": ""}, (f"{S}.uri", "Invalid")),
    "uri not text": ({"uri": 1}, (f"{S}.uri", "TypeInvalid")),
    "uri of another scheme": ({"uri": "kafka://a/b"}, (f"{S}.uri", "Invalid")),
    "uri with a secret": ({"uri": "http://me:pw@a.example"}, (f"{S}.uri", "Invalid")),
    "uri with a fragment": ({"uri": "http://a.example/#x"}, (f"{S}.uri", "Invalid")),
    "uri with a space": ({"ref": REF, "uri": "/a b"}, (f"{S}.uri", "Invalid")),
    "uri with a newline": ({"ref": REF, "uri": "/a\nb"}, (f"{S}.uri", "Invalid")),
    "uri with an open bracket": ({"ref": REF, "uri": "//[::1/"}, (f"{S}.uri", "Invalid")),
    "uri of another scheme beside ref": ({"ref": REF, "uri": "ftp://a"}, (f"{S}.uri", "Invalid")),
    "uri too long": ({"uri": "http://a/" + "a" * 5000}, (f"{S}.uri", "TooLong")),
    "no certificates": ({"ref": REF, "CACerts": "-----BEGIN"}, (f"{S}.CACerts", "Invalid")),
    "certificates not ASCII": ({"ref": REF, "CACerts": "é"}, (f"{S}.CACerts", "Invalid")),
    "certificates too long": ({"ref": REF, "CACerts": "a" * 70_000}, (f"{S}.CACerts", "TooLong")),
    "audience not text": ({"ref": REF, "audience": []}, (f"{S}.audience", "TypeInvalid")),
    "audience too long": ({"ref": REF, "audience": "a" * 1_025}, (f"{S}.audience", "TooLong")),
}

BAD_DELIVERY = {
    "retry negative": ({"retry": -1}, (f"{D}.retry", "Invalid")),
    "retry beyond the bound": ({"retry": 1001}, (f"{D}.retry", "Invalid")),
    "retry a fraction": ({"retry": 1.5}, (f"{D}.retry", "TypeInvalid")),
    "retry a boolean": ({"retry": True}, (f"{D}.retry", "TypeInvalid")),
    "policy unknown": ({"backoffPolicy": "fixed"}, (f"{D}.backoffPolicy", "NotSupported")),
    "delay no duration": ({"backoffDelay": "1s"}, (f"{D}.backoffDelay", "Invalid")),
    "delay not text": ({"backoffDelay": 1}, (f"{D}.backoffDelay", "TypeInvalid")),
    "delay too long": ({"backoffDelay": "P8D"}, (f"{D}.backoffDelay", "Invalid")),
    "ceiling below the delay": (
        {"backoffDelay": "PT2S", "backoffMax": "PT1S"},
        (f"{D}.backoffMax", "Invalid"),
    ),
    "timeout zero": ({"timeout": "PT0S"}, (f"{D}.timeout", "Invalid")),
    "timeout too long": ({"timeout": "PT11M"}, (f"{D}.timeout", "Invalid")),
    "format unknown": ({"format": "avro"}, (f"{D}.format", "NotSupported")),
    "dead letter sink empty": ({"deadLetterSink": {}}, (f"{D}.deadLetterSink", "Required")),
    "dead letter sink wrong": (
        {"deadLetterSink": {"uri": "x"}},
        (f"{D}.deadLetterSink.uri", "Invalid"),
    ),
}


@pytest.mark.parametrize("subscriber", GOOD.values(), ids=GOOD)
def test_takes(subscriber, make, causes_of):
    """Destinations that can be resolved, or may be one day."""
    assert causes_of(TRIGGER, make(TRIGGER, subscriber=subscriber)) == []


@pytest.mark.parametrize(("subscriber", "cause"), BAD.values(), ids=BAD)
def test_refuses(subscriber, cause, make, causes_of):
    """Destinations that no event can ever be sent to."""
    assert causes_of(TRIGGER, make(TRIGGER, subscriber=subscriber)) == [cause]


@pytest.mark.parametrize(
    "kind", [BROKER, TRIGGER, CHANNEL, SUBSCRIPTION], ids=lambda kind: kind.kind
)
@pytest.mark.parametrize(("delivery", "cause"), BAD_DELIVERY.values(), ids=BAD_DELIVERY)
def test_refuses_delivery_options(kind, delivery, cause, make, causes_of):
    """The same options stand in four kinds, and are held to the same bounds."""
    assert causes_of(kind, make(kind, delivery=delivery)) == [cause]


def test_takes_every_delivery_option(make, causes_of):
    """All options of the schema at once."""
    options = {
        "deadLetterSink": {"ref": REF, "uri": "dead"},
        "retry": 1000,
        "backoffPolicy": "linear",
        "backoffDelay": "PT0S",
        "backoffMax": "PT1H",
        "timeout": "PT10M",
        "format": "json",
    }
    assert causes_of(CHANNEL, make(CHANNEL, delivery=options)) == []


def test_a_message_never_repeats_a_uri(make, rules):
    """A URI may hold what its writer believes to be safe there."""
    with pytest.raises(StatusError) as caught:
        admit(TRIGGER, make(TRIGGER, subscriber={"uri": "http://me:secret@a/"}), None, rules)
    assert "secret" not in str(caught.value)


def test_takes_certificates(make, causes_of):
    """PEM, several in one text as well."""
    subscriber = {"ref": REF, "CACerts": _pem() + _pem()}
    assert causes_of(TRIGGER, make(TRIGGER, subscriber=subscriber)) == []


def _pem() -> str:
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(day)
        .not_valid_after(day + dt.timedelta(days=1))
        .sign(secret, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
