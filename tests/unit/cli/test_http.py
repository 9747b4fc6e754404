import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from distributary.cli import _http
from distributary.core.errors import SettingsError, TransportError
from distributary.net.http1 import ClientConnection


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080", (False, "127.0.0.1", 8080, "", "127.0.0.1:8080")),
        ("http://example.com/", (False, "example.com", 80, "", "example.com")),
        ("https://example.com/a/b/", (True, "example.com", 443, "/a/b", "example.com")),
        ("http://[::1]:9000/x", (False, "::1", 9000, "/x", "[::1]:9000")),
    ],
)
def test_an_address_is_read_from_a_url(url: str, expected: tuple[object, ...]) -> None:
    """Scheme, host, port with its default, prefix, authority."""
    assert _http.parse_address(url) == (*expected, "", None)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "127.0.0.1:8080",
            "ftp://x",
            "http://",
            "http://u:p@x",
            "http://x:0x1",
            "http://[::1",
            "http://\udcff",
            f"http://{'a' * 64}.example",
        ),
        *("http://x:0", "http://x/?a=b", "http://x/#a"),
    ],
)
def test_a_url_that_is_no_server_is_refused(url: str) -> None:
    """The message shows an example, and what was given."""
    with pytest.raises(SettingsError, match=r"such as http://127\.0\.0\.1:8080"):
        _http.parse_address(url)


class Peer(asyncio.Transport):
    """The other side of a connection, played by a function of what was written."""

    def __init__(self, wire: Any, answer: Callable[[Any], None]) -> None:
        super().__init__()
        self._wire = wire
        self._answer = answer

    def write(self, data: Any) -> None:
        assert data
        self._answer(self._wire)

    def abort(self) -> None:
        pass


class Played(_http.Client):
    """A client whose connection ends at *answer*."""

    def __init__(self, answer: Callable[[Any], None]) -> None:
        super().__init__(_http.parse_address("http://127.0.0.1"))
        self._play = answer

    async def _connect(self) -> ClientConnection:
        connection = ClientConnection(_http.RESPONSE_BYTES_MAX)
        connection.connection_made(Peer(connection, self._play))
        return connection


def ask(answer: Callable[[Any], None]) -> _http.Response:
    """One request on a connection whose other side is *answer*."""
    return asyncio.run(Played(answer).request("GET", "/"))


def test_values_of_one_name_are_joined() -> None:
    """RFC 9110 5.3: a list may come in several fields; names have no case."""
    text = b"HTTP/1.1 200 OK\r\nLink: a\r\nlink: b\r\ncontent-length: 0\r\n\r\n"
    assert ask(lambda wire: wire.data_received(text)).headers["link"] == "a, b"


def test_an_answer_in_pieces_is_one_answer() -> None:
    """Split anywhere, with an interim answer before it."""
    text = b"HTTP/1.1 100 Continue\r\n\r\n"
    text += b"HTTP/1.1 201 Created\r\nETag: x\r\ncontent-length: 2\r\n\r\n{}"

    def answer(wire: Any) -> None:
        for place in range(len(text)):
            wire.data_received(text[place : place + 1])

    response = ask(answer)
    assert (response.status, response.headers["etag"], response.json()) == (201, "x", {})


def test_a_chunked_answer_is_put_together() -> None:
    """A streamed list of subscriptions comes so."""
    text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n"
    assert ask(lambda wire: wire.data_received(text)).json() == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda wire: wire.data_received(b"SSH-2.0-x\r\n"), "protocol"),
        (lambda wire: wire.connection_lost(None), "reset"),
        (lambda wire: wire.connection_lost(ConnectionResetError("reset")), "reset"),
    ],
    ids=["not HTTP", "closed", "reset"],
)
def test_no_answer_is_a_transport_error(answer: Callable[[Any], None], reason: str) -> None:
    """Never an invented status."""
    with pytest.raises(TransportError) as caught:
        ask(answer)
    assert caught.value.reason == reason


def test_a_body_that_is_no_json_reads_as_nothing() -> None:
    """A proxy's error page must not end the command with a traceback."""
    assert _http.Response(502, {}, b"<html>").json() is None


def test_who_asks_is_shown_over_a_unix_socket_too(tmp_path: Any) -> None:
    """One header field, and the host of the URL."""
    heads = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async def run() -> int:
        path = str(tmp_path / "s")
        address = _http.parse_address("http://localhost/api")
        address = address._replace(socket=path, token=_http.Token("dk_x"))
        async with await asyncio.start_unix_server(answer, path):
            client = _http.Client(address)
            response = await client.request("GET", "/keys")
            client.close()
            return response.status

    assert asyncio.run(run()) == 200
    ((first, *fields),) = heads
    assert first == b"GET /api/keys HTTP/1.1"
    assert {b"host: localhost", b"authorization: Bearer dk_x"} <= set(fields)


def failed(reason: str, cause: BaseException | None = None) -> TransportError:
    """No answer, because of *cause*."""
    error = TransportError(reason, "why")
    error.__cause__ = cause
    return error


UNTRUSTED = ssl.SSLCertVerificationError(1, "certificate verify failed")
PLAIN = _http.parse_address("http://127.0.0.1:8443")
SECURE = _http.parse_address("https://127.0.0.1:8443")


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        (PLAIN, failed("refused"), "Start it with: distributary serve"),
        (PLAIN, failed("reset"), "name it by --url https://127.0.0.1:8443"),
        (SECURE, failed("tls", UNTRUSTED), "--ca-file FILE"),
        (SECURE, failed("tls"), "name it by --url http://127.0.0.1:8443"),
        (SECURE, failed("reset"), "--client-cert-file FILE"),
        (PLAIN, failed("dns"), "Check the name"),
        (PLAIN, failed("timeout"), ""),
        (PLAIN._replace(socket="/run/own"), failed("reset"), ""),
    ],
)
def test_what_to_do_follows_from_what_went_wrong(
    address: _http.Address, error: TransportError, says: str
) -> None:
    """A server that runs is not to be started: its certificate, or the URL, is the matter."""
    said = _http.advice(address, error)
    assert says in said
    assert bool(said) == bool(says)
