"""Strict parser of sink URIs: refuses what two parsers could read differently."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from distributary.core.deliver.credential import ClientCertificate
from distributary.core.errors import TransportError
from distributary.core.protocol import Scheme, schemes

_URI_CHARS_MAX: Final = 8_192
"""As for the request line of the receiver."""

_HOST_CHARS_MAX: Final = 253
"""Longest DNS name."""

_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
"""Blanks, control characters and backslashes: parsers disagree about them, and URIs have none."""

_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
_IPV6: Final = re.compile(r"\[[0-9A-Fa-f:.]+\](:[0-9]*)?")


class Endpoint(NamedTuple):
    """A parsed sink URI: the address to dial and the request target.

    Attributes:
        scheme: Such as ``https`` or ``amqp``.
        host: Name or address, ASCII, lower case, without brackets.
        port: 1 to 65,535.
        target: Request target: path and query, ASCII.
        authority: Value of the ``Host`` header.
        dial: Host and port to connect to instead of *host* and *port*, which stay in ``Host`` and
            in the TLS server name; None: those. Of our own listener it may be a Unix socket: its
            path, and port 0.
        own: True for our own listener: address rules do not apply, and *dial* does not use TLS,
            even if the URI does.
        ca_certs: PEM certificates trusted besides the system's; None: none.
        stays_here: Only addresses of loopback are dialled.
        client_certificate: Shown by TLS; None: none.
        private_alone: Addresses that are not private are refused (``Consent.private_alone``).
        tenant: Namespace for which it is dialled: takes turns with others. Empty: for none.
    """

    scheme: str
    host: str
    port: int
    target: bytes
    authority: bytes
    dial: tuple[str, int] | None = None
    own: bool = False
    ca_certs: str | None = None
    stays_here: bool = False
    client_certificate: ClientCertificate | None = None
    private_alone: bool = False
    tenant: str = ""

    @property
    def tls(self) -> bool:
        """Whether the connection begins with a TLS handshake."""
        return schemes()[self.scheme].tls and not (self.own and self.dial is not None)

    @property
    def dialled(self) -> tuple[str, int]:
        """Host and port to connect to."""
        return self.dial or (self.host, self.port)


def parse(uri: str, known: Mapping[str, Scheme]) -> Endpoint:
    """The endpoint of a sink URI.

    Args:
        uri: The URI.
        known: The permitted schemes.

    Raises:
        TransportError: ``blocked-address``, not retryable: a scheme outside *known*, user
            information, port 0, or a host that is neither a name nor an address.
    """
    if len(uri) > _URI_CHARS_MAX:
        raise _blocked(f"it is longer than {_URI_CHARS_MAX} characters")
    if _FORBIDDEN.search(uri):
        raise _blocked("it holds blanks, control characters or backslashes")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise _blocked(str(error)) from error
    if parts.scheme not in known:
        raise _blocked(f"its scheme is not {' or '.join(known)}")
    if "@" in parts.netloc:
        raise _blocked("it holds user information")
    if port == 0:
        raise _blocked("port 0 cannot be dialled")
    host = _host(parts)
    path = parts.path or "/"
    target = f"{path}?{parts.query}" if parts.query else path
    default = known[parts.scheme].port
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port in (None, default) else f"{shown}:{port}"
    return Endpoint(parts.scheme, host, port or default, _ascii(target), authority.encode("ascii"))


UNIX: Final = "unix:"
"""Before the path of a Unix socket, in the ``dial`` of a destination that is our own listener."""


def parse_dial(text: str, *, own: bool = False) -> tuple[str, int]:
    """Host and port of a ``host:port`` (an IPv6 address in brackets).

    Args:
        text: The address.
        own: It is our own listener's: a Unix socket is allowed, such as ``unix:/run/own.sock``.
            Returns its path, and port 0. Nobody but the server itself may name one.

    Raises:
        TransportError: ``blocked-address``, not retryable: *text* is not ``host:port``.
    """
    if own and text.startswith(UNIX + "/"):
        return text.removeprefix(UNIX), 0
    if _FORBIDDEN.search(text):
        raise _blocked("the address to dial holds blanks, control characters or backslashes")
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise _blocked(f"the address to dial: {error}") from error
    if not port or parts.netloc != text or "@" in text:
        raise _blocked("the address to dial must be host:port")
    return _host(parts), port


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if parts.netloc.startswith("["):
        if not _IPV6.fullmatch(parts.netloc):
            raise _blocked("its host is not an IPv6 address without a zone")
        return host
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError as error:
            raise _blocked("its host is not a valid international name") from error
    if len(host) > _HOST_CHARS_MAX or not _HOST.fullmatch(host):
        raise _blocked("its host is neither a name nor an address")
    return host


def _ascii(target: str) -> bytes:
    """The target as bytes, with non-ASCII characters as percent-encoded UTF-8, as in browsers."""
    try:
        raw = target.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _blocked("it holds lone surrogates") from error
    return b"".join(bytes([byte]) if byte < 0x80 else b"%%%02X" % byte for byte in raw)


def _blocked(why: str) -> TransportError:
    return TransportError("blocked-address", f"The sink URI cannot be used: {why}", retryable=False)
