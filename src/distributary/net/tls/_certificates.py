"""The server's certificate, key and client authorities: read, checked, made into contexts.

Callers: ``server.processes``, which reads the files in one process alone and hands their content to
the others. A context is never changed: a new certificate makes a new one, so that a connection has
one or the other.
"""

import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from distributary.core.errors import SettingsError

FILE_BYTES_MAX: Final = 1024 * 1024
"""Largest of the three files, bytes: a bundle with hundreds of authorities has less."""

HTTP_ONLY: Final = ("http/1.1",)
"""What a client that offers HTTP/2 too is told to speak (ALPN, RFC 7301)."""

ClientCertificates = Literal["off", "optional", "required"]
"""Whether clients are asked for certificates, and may go on without one."""


class TlsFiles(NamedTuple):
    """Where the certificates are, from the settings.

    Attributes:
        certificate: PEM: the server's certificate, then its intermediate ones.
        key: PEM: its private key, not encrypted.
        client_ca: PEM: authorities of clients' certificates; None: clients are not asked.
        client_certs: Whether clients are asked, and must have one.
    """

    certificate: Path
    key: Path
    client_ca: Path | None
    client_certs: ClientCertificates

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return tuple(path for path in (self.certificate, self.key, self.client_ca) if path)


class ServerCertificates(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the files. Crosses processes in memory alone, since it holds the key.

    Attributes:
        chain: PEM of the certificate and its intermediate ones.
        key: PEM of the private key: a secret.
        client_ca: PEM of the clients' authorities; None: clients are not asked.
        required: Whether a client without a certificate is refused.
        not_after_s: When the certificate expires, seconds since 1970.
    """

    chain: str
    key: str
    client_ca: str | None
    required: bool
    not_after_s: float

    def __repr__(self) -> str:
        """Without the key."""
        return f"ServerCertificates(not_after_s={self.not_after_s:.0f})"


def read_certificates(files: TlsFiles) -> ServerCertificates:
    """Read the files and check that they fit together.

    Raises:
        SettingsError: A line for each fault, with the setting and what to do. Never quotes a file.
    """
    faults: list[str] = []
    chain = _read("tls_cert_file", files.certificate, faults)
    key = _read("tls_key_file", files.key, faults)
    asked = files.client_certs != "off" and files.client_ca is not None
    authorities = ""
    if asked and files.client_ca is not None:
        authorities = _read("tls_client_ca_file", files.client_ca, faults)
    not_after_s = 0.0
    if not faults:
        try:
            not_after_s = _end_of(chain)
        except ValueError:
            faults.append(f"tls_cert_file {files.certificate}: holds no certificate in PEM form")
    found = ServerCertificates(
        chain=chain,
        key=key,
        client_ca=authorities if asked else None,
        required=files.client_certs == "required",
        not_after_s=not_after_s,
    )
    faults = faults or check_certificates(found, files)
    if faults:
        raise SettingsError("\n".join(faults))
    return found


def _read(setting: str, path: Path, faults: list[str]) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        faults.append(
            f"{setting} {path}: {error.strerror or error}."
            " Name a file that the user who runs the server may read"
        )
        return ""
    if len(content) > FILE_BYTES_MAX or not content.isascii():
        faults.append(f"{setting} {path}: is no PEM file")
        return ""
    return content.decode("ascii")


def _end_of(chain: str) -> float:
    """When the first certificate in *chain* expires; raises ``ValueError`` if there is none."""
    # Loading it takes memory, and receivers get certificates that are read already.
    from cryptography import x509  # noqa: PLC0415 - see above

    return x509.load_pem_x509_certificates(chain.encode())[0].not_valid_after_utc.timestamp()


def check_certificates(found: ServerCertificates, files: TlsFiles) -> list[str]:
    """Returns a line for each reason why *found*, from *files*, cannot be used; empty: usable."""
    try:
        make_context(found)
    except _AuthorityError:
        return [f"tls_client_ca_file {files.client_ca}: holds no certificate in PEM form"]
    except ssl.SSLError as error:
        return [_fault(error, files)]
    except ValueError:  # from the callback that stands for a password
        return [f"tls_key_file {files.key}: is encrypted. Store it without a password (mode 0600)"]
    return []


def _fault(error: ssl.SSLError, files: TlsFiles) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return (
            f"tls_key_file {files.key}: is not the key of the certificate in {files.certificate}."
            " Replace both together"
        )
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return (
        f"tls_cert_file {files.certificate} and tls_key_file {files.key}: no usable certificate and"
        f" key in PEM form ({reason}). Replace them"
    )


class _AuthorityError(ValueError):
    """The clients' authorities cannot be used."""


def _no_password() -> str:
    raise ValueError


def make_context(
    found: ServerCertificates, *, alpn: Sequence[str] = (), ask_clients: bool = True
) -> ssl.SSLContext:
    """Make a context for new connections: TLS 1.2 or newer.

    Args:
        found: Certificate, key and authorities.
        alpn: Protocols of the listener (RFC 7301); empty: it negotiates none.
        ask_clients: Whether clients are asked for certificates, as *found* says.

    Raises:
        ssl.SSLError: The parts do not fit together.
        ValueError: The key is encrypted, or the authorities are not in PEM form.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if alpn:
        context.set_alpn_protocols(list(alpn))
    # ``ssl`` reads keys from files alone: this one is in memory, and gone when it is closed.
    fd = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.write(fd, f"{found.key}\n{found.chain}\n".encode())
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=_no_password)
    finally:
        os.close(fd)
    if ask_clients and found.client_ca is not None:
        try:
            context.load_verify_locations(cadata=found.client_ca)
        except (ssl.SSLError, ValueError) as error:
            raise _AuthorityError from error
        context.verify_mode = ssl.CERT_REQUIRED if found.required else ssl.CERT_OPTIONAL
        # A resumed session would not present the certificate again, whatever became of it.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context
