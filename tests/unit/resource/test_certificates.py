"""Certificates are compared by what OpenSSL would trust, not by how they are written."""

import base64
import ssl

import pytest

from distributary.resource import adds_trust, fingerprints_in
from kit.certificates import Authority
from kit.little_work import little_work

ONE, TWO = (Authority(name).pem.decode() for name in ("One", "Two"))
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def body(pem):
    """The Base64 of one certificate, on one line."""
    return "".join(pem.replace(BEGIN, "").replace(END, "").split())


@pytest.mark.parametrize(
    "text",
    [
        ONE.replace("\n", "\r\n"),
        f"subject=CN = One\n{ONE}\nthat was all",
        ONE + ONE,
        f"{BEGIN}\n{body(ONE)}\n{END}",
    ],
    ids=["line ends", "words around it", "twice", "one line"],
)
def test_the_same_certificate_is_the_same_however_it_is_written(text):
    """A text says nothing about trust."""
    assert fingerprints_in(text) == fingerprints_in(ONE)


def test_several_certificates_are_a_set():
    """Their order does not count; each of them does."""
    both = fingerprints_in(ONE + TWO)
    assert both == fingerprints_in(TWO + ONE)
    assert len(both) == 2
    assert not adds_trust(fingerprints_in(ONE), both)
    assert adds_trust(both, fingerprints_in(ONE))


@pytest.mark.parametrize("filling", [" ", "A", "A "], ids=["blanks", "letters", "both"])
def test_a_text_without_an_end_takes_no_time(filling):
    """Whoever writes a Secret chooses it, and consumers that read it serve all."""
    with little_work():
        assert fingerprints_in(ONE + BEGIN + "\n" + filling * 200_000) is None
        assert fingerprints_in((BEGIN + " ") * 5_000 + filling * 100_000) is None


def test_what_is_not_known_adds_trust():
    """And nothing adds none."""
    assert adds_trust(None, fingerprints_in(ONE))
    assert not adds_trust((), ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no certificate",
        ONE + TWO.replace("CERTIFICATE", "X509 CERTIFICATE"),
        ONE + TWO.replace("CERTIFICATE", "TRUSTED CERTIFICATE"),
        ONE + TWO.replace(END, ""),
        f"{ONE}-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        f"{BEGIN}\nProc-Type: 4,ENCRYPTED\n\n{body(ONE)}\n{END}",
        f"{BEGIN}\nQQ==\n{body(ONE)}\n{END}",
        f"{BEGIN}\n{body(ONE)[:-1]}\n{END}",
        f"{BEGIN}{END}",
    ],
    ids=[
        "empty",
        "words",
        "another label",
        "a trusted one",
        "no end",
        "a key",
        "a header",
        "two encodings in one",
        "no padding",
        "nothing in it",
    ],
)
def test_what_openssl_could_read_otherwise_is_not_compared(text):
    """It might trust a certificate that was not seen here."""
    assert fingerprints_in(text) is None


def test_a_certificate_with_something_behind_it_is_another_one():
    """OpenSSL passes over bytes after the end; they are no reason to take it for the same."""
    raw = ssl.PEM_cert_to_DER_cert(ONE) + ssl.PEM_cert_to_DER_cert(TWO)
    text = f"{BEGIN}\n{base64.b64encode(raw).decode()}\n{END}\n"
    assert adds_trust(fingerprints_in(text), fingerprints_in(ONE + TWO))


def test_no_certificate_that_openssl_loads_is_missed():
    """Whatever stands between them: one that is no authority counts as well."""
    leaf = Authority().server("a.example").certificate.decode()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    text = f"{ONE}words {BEGIN}\n{leaf}{TWO}"
    assert fingerprints_in(text) is None
    text = f"{ONE}words\n{leaf}{TWO}"
    context.load_verify_locations(cadata=text)
    assert context.cert_store_stats()["x509"] == len(fingerprints_in(text)) == 3
