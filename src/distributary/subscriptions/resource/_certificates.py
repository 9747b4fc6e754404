"""``protocolsettings.cacerts``: certificates to trust a sink by, besides the system's."""

import re
from typing import Any, Final

from distributary.resource.certificates import certificates_in
from distributary.resource.faults import Faults
from distributary.resource.schema import Schema

CA_CERTS_CHARS_MAX: Final = 64 * 1024
"""Longest ``cacerts``: some thirty certificates, where a sink needs one or two."""

_BEGIN = re.compile(r"-----BEGIN ([^-]*)-----")


def _certificates(faults: Faults, path: str, text: Any) -> str | None:
    """Return only the certificates of the PEM *text*.

    Any reader of the subscription sees them, so a private key pasted among them is refused, and
    never repeated.
    """
    if any(label != "CERTIFICATE" for label in _BEGIN.findall(text)):
        message = "there is something else than certificates in it; keys never belong here"
        faults.add(path, "value", message)
        return None
    certificates = certificates_in(text)
    if certificates is None:
        faults.add(path, "value", "expected one or more X.509 certificates in PEM")
    return certificates


CERTIFICATES: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": CA_CERTS_CHARS_MAX,
    "pattern": "-----BEGIN CERTIFICATE-----",
    "description": "PEM certificates to trust the sink by, besides the system's.",
    "x-expected": "expected one or more X.509 certificates in PEM; keys never belong here",
    "x-rule": _certificates,
}
