"""A small HTTP/1.1 client: one connection, one request after another.

Proxies in the environment are not looked at: the server is the one that was named.

Callers: every command that talks to a server. Hides: connecting, keep-alive, parsing, and the
ways in which an answer can fail to come (all are ``TransportError``).
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from distributary.errors import SettingsError, TransportError

__all__ = ["Address", "Client", "Response", "parse_address"]

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""Largest answer kept: a list of 100,000 subscriptions has some 60 MB."""

Headers = Sequence[tuple[str, str]]


class Address(NamedTuple):
    """Where a server is.

    Attributes:
        secure: True for https.
        host: Name or address, without brackets.
        port: 1 to 65535.
        prefix: Path before every path of the API, without a slash at its end.
        authority: Value of the Host header.
    """

    secure: bool
    host: str
    port: int
    prefix: str
    authority: str


def parse_address(url: str) -> Address:
    """The server that *url* names.

    Raises:
        SettingsError: It is no absolute http or https URL, or it holds a password (which
            would end up in shell histories and process lists).
    """
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise SettingsError(f"Expected a URL such as http://127.0.0.1:8080; got {url!r}")
    secure = parts.scheme == "https"
    return Address(secure, parts.hostname, port, parts.path.rstrip("/"), parts.netloc)


class Response(NamedTuple):
    """An answer.

    Attributes:
        status: 200 to 599.
        headers: Names in lower case; several values of one name joined by a comma (RFC 9110 5.3).
        body: Whole.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.MsgspecError:
            return None


class Client:
    """One connection to a server, opened when needed and again after it broke."""

    def __init__(self, address: Address, timeout_s: float = 30.0) -> None:
        """Connect to nothing yet; each request has *timeout_s* from connecting to the end."""
        self._address = address
        self._timeout_s = timeout_s
        self._wire: _Wire | None = None

    async def request(
        self, method: str, path: str, headers: Headers = (), body: bytes = b""
    ) -> Response:
        """Send one request and wait for its answer.

        Raises:
            TransportError: No answer came. Reason ``refused``, ``dns`` or ``tls``: the request
                never left; any other: it may have been carried out.
        """
        lines = "".join(f"{name}: {text}\r\n" for name, text in headers)
        return await self.request_raw(method, path, lines.encode(), body)

    async def request_raw(self, method: str, path: str, lines: bytes, body: bytes) -> Response:
        """As ``request``, with the header lines already encoded (each ends with CR LF)."""
        address = self._address
        head = (
            f"{method} {address.prefix}{path} HTTP/1.1\r\nhost: {address.authority}\r\n"
            f"user-agent: distributary\r\ncontent-length: {len(body)}\r\n"
        ).encode()
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._wire is None or self._wire.lost:
                    self._wire = await self._connect()
                return await self._wire.send(b"".join((head, lines, b"\r\n", body)))
        except TimeoutError as error:
            self.close()
            raise TransportError("timeout", f"no answer within {self._timeout_s:g} s") from error

    async def _connect(self) -> "_Wire":
        address = self._address
        context = ssl.create_default_context() if address.secure else None
        try:
            _, wire = await asyncio.get_running_loop().create_connection(
                _Wire, address.host, address.port, ssl=context
            )
        except ssl.SSLError as error:
            raise TransportError("tls", str(error)) from error
        except OSError as error:
            reason = "dns" if type(error).__name__ == "gaierror" else "refused"
            raise TransportError(reason, error.strerror or str(error)) from error
        return wire

    def close(self) -> None:
        """Drop the connection; the next request opens another."""
        if self._wire is not None:
            self._wire.drop()
            self._wire = None


class _Wire(asyncio.Protocol):
    """The connection: bytes out, parsed answers back."""

    def __init__(self) -> None:
        self.lost = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_bytes = 0

    def send(self, request: bytes) -> "asyncio.Future[Response]":
        """Write *request*; the future is its answer or a ``TransportError``."""
        assert self._transport is not None
        assert self._answer is None or self._answer.done()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def drop(self) -> None:
        """Close without waiting."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._fail("reset", str(exc) if exc else "the connection was closed before an answer")

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail("protocol", f"the answer is not HTTP: {error}")
            self.drop()

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > RESPONSE_BYTES_MAX:
            self._fail("protocol", f"the answer is larger than {RESPONSE_BYTES_MAX:,} bytes")
            self.drop()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # below are interim answers (RFC 9110 15.2)
            if not self._parser.should_keep_alive():
                self.lost = True
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(Response(status, self._headers, b"".join(self._body)))
        self._headers = {}
        self._body = []
        self._body_bytes = 0

    def _fail(self, reason: str, message: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TransportError(reason, message))
