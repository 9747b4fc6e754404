"""What a client shows of itself: a header field, and the certificate of its connection."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from distributary.access.identity import Grant, Identity, IdentityKind


class PeerCertificate(NamedTuple):
    """A client's certificate, verified by TLS.

    Attributes:
        names: Its names with their kind, such as ``uri:spiffe://shop/till`` and ``dns:till.shop``;
            ``cn:till`` where it has no alternative name (RFC 5280 section 4.2.1.6).
        until_ms: Wall-clock time at which it expires, in milliseconds.
    """

    names: tuple[str, ...]
    until_ms: int


class Credentials(NamedTuple):
    """What a request shows.

    Attributes:
        authorization: Value of the header field; empty: there is none.
        certificate: Certificate of the connection; None: there is none.
    """

    authorization: bytes
    certificate: PeerCertificate | None = None


class CertificateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Whose certificates are accepted, and what they may do.

    Attributes:
        pattern: A name as in ``PeerCertificate.names``; with ``*`` at its end, what begins so.
        grants: What its holder may do.
    """

    pattern: str
    grants: tuple[Grant, ...]

    def covers(self, name: str) -> bool:
        """Whether *name* is meant."""
        if self.pattern.endswith("*"):
            return name.startswith(self.pattern[:-1])
        return name == self.pattern


def holder_of(
    certificate: PeerCertificate, records: Iterable[CertificateRecord]
) -> Identity | None:
    """Who holds *certificate*: its first name that any of *records* covers; None: a stranger."""
    accepted = tuple(records)
    for name in certificate.names:
        grants = tuple(
            grant for record in accepted if record.covers(name) for grant in record.grants
        )
        if grants:
            return Identity(
                name=f"certificate:{name}",
                how=IdentityKind.CERTIFICATE,
                grants=grants,
                subject=name,
                until_ms=certificate.until_ms,
            )
    return None
