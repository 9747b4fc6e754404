"""A certificate authority for one test run: files of its certificates, as servers want them."""

import ipaddress
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509

from kit import certificates

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
        self._authority = certificates.Authority()
        self.ca_certs = self._authority.pem.decode()
        self.ca_file = self._authority.write(folder / "ca.pem")

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
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        signed = self._authority.sign(alternatives, common_name=file_name, days=days)
        files = Certificate(self._folder / f"{file_name}.pem", self._folder / f"{file_name}.key")
        files.certificate.write_bytes(signed.certificate)
        files.key.write_bytes(signed.key)
        # Brokers that run as another user must read them; they are worth nothing elsewhere.
        files.key.chmod(0o644)
        return files
