"""A small HTTP/1.1 client: one connection, one request after another.

Ignores proxies in the environment: it connects to the server that was named.

Callers: every command that uses a server. Hides: connecting, keep-alive, parsing, and the ways in
which a response can fail (all are ``TransportError``).
"""

import asyncio
import os
import ssl
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from distributary.cli import _tls
from distributary.core.errors import SettingsError, TransportError
from distributary.net.http1 import ClientConnection

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""Largest response, bytes: a list of 100,000 subscriptions has some 60 MB."""

Headers = Sequence[tuple[str, str]]


class Token(NamedTuple):
    """An API key or a token, which shows a server who asks.

    Attributes:
        text: It.
    """

    text: str

    def __repr__(self) -> str:
        """Without it."""
        return "Token(***)"


class Address(NamedTuple):
    """Address of a server, from its URL, and who asks it.

    Attributes:
        secure: True for https.
        host: Name or address, without brackets.
        port: 1 to 65535.
        prefix: Path before every path of the API, without a slash at its end.
        authority: Value of the Host header.
        socket: Path of its Unix socket, which takes the place of host and port; empty: none.
        token: Shows who asks; None: nothing does.
    """

    secure: bool
    host: str
    port: int
    prefix: str
    authority: str
    socket: str = ""
    token: Token | None = None

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.socket or f"{self.host}:{self.port}"


def parse_address(url: str) -> Address:
    """Parse the URL of a server.

    Raises:
        SettingsError: It is not an absolute http or https URL, has a query or a fragment, or
            holds a password (which would end up in shell histories and process lists).
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # an invalid port, no address in the brackets, or no name for the DNS
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment:
        message = "Expected a URL such as http://127.0.0.1:8080, without a user or a query"
        raise SettingsError(f"{message}; got {url!r}")
    assert parts.hostname is not None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    secure = parts.scheme == "https"
    return Address(secure, parts.hostname, port, parts.path.rstrip("/"), parts.netloc)


class Response(NamedTuple):
    """A response.

    Attributes:
        status: 200 to 599.
        headers: Names in lower case; several values of one name joined by a comma (RFC 9110 5.3).
        body: Complete.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def good(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body as JSON; None where it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    @property
    def brings(self) -> str:
        """What it is, in words, where it says nothing itself."""
        if 300 <= self.status < 400 and "location" in self.headers:
            return f"it leads to {self.headers['location']}"
        if self.good:
            return f"the answer is {self.headers.get('content-type') or 'nothing'}"
        return "the server failed" if self.status >= 500 else "the server refused"

    @property
    def is_page(self) -> bool:
        """Whether it is a page for people: no answer of a server of events."""
        return self.headers.get("content-type", "").lower().startswith("text/html")


class Client:
    """One connection to a server, opened when needed and reopened after it broke."""

    def __init__(self, address: Address, timeout_s: float = 30.0) -> None:
        """Connects with the first request; each has *timeout_s* from connecting to its end."""
        self._address = address
        self._timeout_s = timeout_s
        self._connection: ClientConnection | None = None
        token = address.token
        self._authorization = f"authorization: Bearer {token.text}\r\n" if token else ""

    async def request(
        self, method: str, path: str, headers: Headers = (), body: bytes = b""
    ) -> Response:
        """Send one request and wait for its response.

        Raises:
            TransportError: No response. Reason ``refused``, ``dns`` or ``tls``: the request was
                not sent; any other: it may have been carried out.
        """
        lines = "".join(f"{name}: {text}\r\n" for name, text in headers)
        return await self.request_raw(method, path, lines.encode(), body)

    async def request_raw(self, method: str, path: str, lines: bytes, body: bytes) -> Response:
        """Send a request with header lines already encoded (each ends with CR LF)."""
        address = self._address
        head = (
            f"{method} {address.prefix}{path} HTTP/1.1\r\nhost: {address.authority}\r\n"
            f"user-agent: distributary\r\ncontent-length: {len(body)}\r\n{self._authorization}"
        ).encode()
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._connection is None or self._connection.lost:
                    self._connection = await self._connect()
                answer = await self._connection.send(b"".join((head, lines, b"\r\n", body)))
        except TimeoutError as error:
            self.close()
            raise TransportError("timeout", f"no answer within {self._timeout_s:g} s") from error
        headers: dict[str, str] = {}
        for field in answer.fields:
            name, text = (part.decode("latin-1") for part in field)
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        return Response(answer.status, headers, answer.body)

    async def _connect(self) -> ClientConnection:
        address, loop = self._address, asyncio.get_running_loop()
        context = _tls.chosen().context() if address.secure else None
        try:
            if address.socket:
                _, connection = await loop.create_unix_connection(_reader, address.socket)
            else:
                _, connection = await loop.create_connection(
                    _reader, address.host, address.port, ssl=context
                )
        except ssl.SSLCertVerificationError as error:
            text = f"its certificate is not accepted: {error.verify_message}"
            raise TransportError("tls", text) from error
        except ssl.SSLError as error:
            text = "it speaks no TLS" if error.reason in _NO_TLS else f"TLS failed: {error}"
            raise TransportError("tls", text) from error
        except OSError as error:
            if type(error).__name__ == "gaierror":
                raise TransportError("dns", error.strerror or str(error)) from error
            text = os.strerror(error.errno) if error.errno else str(error)
            raise TransportError("refused", text) from error
        return connection

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
"""What OpenSSL calls an answer in the clear."""


def advice(address: Address, error: TransportError) -> str:
    """What to do where the server at *address* gave no answer; empty: nothing is known."""
    other = f"--url {'http' if address.secure else 'https'}://{address.authority}"
    if isinstance(error.__cause__, ssl.SSLCertVerificationError):
        by = "distributary --ca-file FILE, or DISTRIBUTARY_CA_FILE"
        return f"Name the authorities that sign it: {by}"
    by_reason = {
        "refused": "Start it with: distributary serve",
        "tls": f"If it serves plain HTTP, name it by {other}",
        "dns": "Check the name in --url, or in DISTRIBUTARY_URL",
        "timeout": "",
    }
    cut_off = f"Something listens there. If it serves TLS, name it by {other}"
    if address.secure:
        cut_off = "It may ask for a certificate: distributary --client-cert-file FILE"
    return by_reason.get(error.reason, "" if address.socket else cut_off)


def _reader() -> ClientConnection:
    return ClientConnection(RESPONSE_BYTES_MAX)
