"""Certificates for tests of TLS: an authority, and what it signs.

Callers: tests of listeners, end-to-end tests, the benchmark of TLS. Hides ``cryptography``.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "Pair", "write_pair"]

DAY = dt.timedelta(days=1)
_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
# Python 3.13 and newer check authorities as RFC 5280 has it: these usages, and identifiers of keys.
_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


class Pair(NamedTuple):
    """A certificate and its key, in PEM.

    Attributes:
        certificate: With nothing else.
        key: Not encrypted.
    """

    certificate: bytes
    key: bytes


def write_pair(folder: Path, name: str, pair: Pair) -> tuple[Path, Path]:
    """Write *pair* below *folder*; returns the paths of certificate and key.

    An existing pair is replaced by renaming, as certbot and Kubernetes do.
    """
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    for path, content in zip(paths, pair, strict=True):
        new = path.with_suffix(".new")
        new.write_bytes(content)
        new.chmod(0o600)
        new.replace(path)
    return paths


class Authority:
    """A certificate authority with a key of its own.

    Args:
        name: Its common name.

    Attributes:
        pem: Its certificate.
    """

    def __init__(self, name: str = "Test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 365 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS, critical=True)
            .add_extension(self._key_id(), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem: bytes = self._certificate.public_bytes(serialization.Encoding.PEM)

    def _key_id(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def write(self, path: Path) -> Path:
        """Write the certificate to *path*."""
        path.write_bytes(self.pem)
        return path

    def server(self, *names: str, days: float = 30) -> Pair:
        """A server's certificate for host names and addresses."""
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return self.sign(_host_names(names), common_name=names[0], days=days, usage=usage)

    def client(
        self,
        common_name: str = "till",
        *,
        uris: Sequence[str] = (),
        dns: Sequence[str] = (),
        emails: Sequence[str] = (),
        days: float = 30,
    ) -> Pair:
        """A client's certificate; *days* below 0: it has expired so long ago."""
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(name) for name in dns]
        names += [x509.RFC822Name(name) for name in emails]
        return self.sign(names, common_name=common_name, days=days, usage=_CLIENT)

    def sign(
        self,
        names: Sequence[x509.GeneralName],
        *,
        common_name: str,
        days: float,
        usage: x509.ObjectIdentifier | None = None,
    ) -> Pair:
        """A certificate with alternative *names*, which ends in *days*; for any *usage* if None."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Shop"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
        end = dt.datetime.now(dt.UTC) + days * DAY
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_id())
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - 90 * DAY)
            .not_valid_after(end)
            .add_extension(issuer, critical=False)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(
            signed.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )


def _host_names(names: Sequence[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found
