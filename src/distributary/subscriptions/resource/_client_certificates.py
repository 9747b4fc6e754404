"""``protocolsettings.clientcertificate``: what the server shows a sink of itself by TLS.

Called by ``_settings``, and by the store where a stored key is kept for another certificate. The
key is a secret setting: sealed, shown as a mask, and for one origin.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from distributary.resource.certificates import certificates_in
from distributary.resource.faults import Faults
from distributary.resource.schema import Schema, closed
from distributary.subscriptions.resource._certificates import CERTIFICATES
from distributary.subscriptions.resource._secret_settings import (
    CLIENT_CERTIFICATE,
    MASK,
    SecretSettings,
    SecretValues,
)

if TYPE_CHECKING:  # ``distributary filter`` needs none of it, and may lack it
    from cryptography import x509

CLIENT_KEY_CHARS_MAX: Final = 16 * 1024
"""Longest private key in PEM: that of RSA with 16,384 bits, more than anybody uses, has 13,000."""

_NO_KEY: Final = "expected one private key in PEM, without a password"


def _key_alone(faults: Faults, path: str, text: str) -> str | None:
    """Check that *text* is a private key, or the mask."""
    if text != MASK and _public_of(text) is None:
        faults.add(path, "value", _NO_KEY)
        return None
    return text


def _pair(faults: Faults, path: str, pair: dict[str, Any]) -> dict[str, Any]:
    if pair["key"] != MASK:
        check_pair(faults, path, pair)
    return pair


CLIENT_CERTIFICATES: Final[Schema] = closed(
    {
        "certificate": CERTIFICATES
        | {"description": "PEM: the certificate, then those that lead to its authority."},
        "key": {
            "type": "string",
            "minLength": 1,
            "maxLength": CLIENT_KEY_CHARS_MAX,
            "pattern": r"-----BEGIN [A-Z ]*PRIVATE KEY-----|^\*\*\*$",
            "description": "PEM of its private key, without a password; shown as ***.",
            "x-expected": _NO_KEY,
            "x-rule": _key_alone,
        },
    },
    required=["certificate", "key"],
) | {"description": "Shown to the sink by TLS, if it asks for one.", "x-rule": _pair}


def check_pair(faults: Faults, path: str, pair: Mapping[str, Any]) -> None:
    """Note a private key that does not belong to the first certificate of *pair*."""
    first = _first(pair["certificate"])
    if first is None or _bytes_of(first.public_key()) != _public_of(pair["key"]):
        faults.add(f"{path}.key", "value", "does not belong to the first certificate")


def check_expiry(faults: Faults, path: str, pair: Mapping[str, Any], wall_ms: int) -> None:
    """Note a new certificate of *pair* that has expired: no sink would take it."""
    first = _first(pair["certificate"])
    now = datetime.fromtimestamp(wall_ms / 1000, UTC)
    if pair["key"] != MASK and first is not None and first.not_valid_after_utc <= now:
        faults.add(f"{path}.certificate", "value", "the first certificate has expired")


def kept_pairs(
    faults: Faults, realized: Mapping[str, Any], new: SecretSettings, found: SecretSettings
) -> None:
    """Check each pair of *realized* whose key is a mask in *new*, and a stored one in *found*."""
    settings = realized["protocolsettings"]
    path = "$.protocolsettings"
    places = [("certificate", path, settings)]
    dead = settings["delivery"].get("deadLetterSink")
    if isinstance(dead, Mapping):
        inner = f"{path}.delivery.deadLetterSink.protocolsettings"
        places.append(("dead_letter_certificate", inner, dead["protocolsettings"]))
    for which, where, holder in places:
        wanted: SecretValues | None = getattr(new, which)
        held: SecretValues | None = getattr(found, which)
        if wanted is not None and held is not None and held.complete and not wanted.complete:
            pair = holder[CLIENT_CERTIFICATE] | {"key": held.values["key"]}
            check_pair(faults, f"{where}.{CLIENT_CERTIFICATE}", pair)


def _first(pem: str) -> "x509.Certificate | None":
    from cryptography import x509  # noqa: PLC0415 - see above

    found = certificates_in(pem)
    try:
        return None if found is None else x509.load_pem_x509_certificates(found.encode())[0]
    except ValueError:  # OpenSSL is more lenient than this library
        return None


def _public_of(pem: str) -> bytes | None:
    """The public key of a private one; None: *pem* is none that can be used."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above

    try:
        return _bytes_of(serialization.load_pem_private_key(pem.encode(), None).public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it needs a password
        return None


def _bytes_of(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above

    form = serialization.PublicFormat.SubjectPublicKeyInfo
    found: bytes = key.public_bytes(serialization.Encoding.DER, form)
    return found
