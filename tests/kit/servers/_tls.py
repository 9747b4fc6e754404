"""A certificate authority for one test run, and the certificates that it gives out."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NAMES: Final = ("localhost",)
ADDRESSES: Final = ("127.0.0.1", "::1")
"""What the certificates of a server are for."""


class Certificate(NamedTuple):
    """Files of one certificate, PEM.

    Attributes:
        certificate: The certificate.
        key: Its private key, PKCS 8, without a password.
    """

    certificate: Path
    key: Path


class Authority:
    """Gives out certificates that are trusted by whoever trusts ``ca_certs``.

    Args:
        folder: Where the files go.

    Attributes:
        ca_certs: PEM of the authority's own certificate.
        ca_file: The same as a file.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
        certificate = (
            self._builder(self._name, self._key.public_key(), days=30)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        self.ca_certs = pem.decode()
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(pem)

    def server(
        self,
        file_name: str = "server",
        *,
        names: tuple[str, ...] = NAMES,
        addresses: tuple[str, ...] = ADDRESSES,
        days: int = 30,
    ) -> Certificate:
        """A certificate for a server.

        Args:
            file_name: Of its files.
            names: DNS names that it is for.
            addresses: IP addresses that it is for.
            days: How long it is valid; negative: it expired so many days ago.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, file_name)])
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        certificate = (
            self._builder(subject, key.public_key(), days)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = Certificate(self._folder / f"{file_name}.pem", self._folder / f"{file_name}.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        # Brokers that run as another user must read them; they are worth nothing elsewhere.
        files.key.chmod(0o644)
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        end = now + dt.timedelta(days=days)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, end) - dt.timedelta(days=1))
            .not_valid_after(end)
        )
