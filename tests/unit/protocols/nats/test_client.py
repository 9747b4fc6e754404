"""The client of NATS: what it makes of bytes, and what it writes."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import TransportError
from distributary.protocols.nats.sink import _connection
from distributary.protocols.nats.sink._connection import NatsConnection
from distributary.protocols.nats.sink._parser import (
    LINE_BYTES_MAX,
    OK,
    PING,
    PONG,
    Info,
    NatsMessage,
    Parser,
    Refusal,
)

BYTES_MAX = 100
SAID = {
    b'INFO {"headers":true}\r\n': Info({"headers": True}),
    b"PING\r\n": PING,
    b"PONG\r\n": PONG,
    b"+OK\r\n": OK,
    b"-ERR 'Stale Connection'\r\n": Refusal("'Stale Connection'"),
    b"MSG a.b 7 3\r\nabc\r\n": NatsMessage(7, b"a.b", b"", b"", b"abc"),
    b"MSG a.b 7 c.d 0\r\n\r\n": NatsMessage(7, b"a.b", b"c.d", b"", b""),
    b"MSG a 1 5 1\r\nx\r\n": NatsMessage(1, b"a", b"5", b"", b"x"),
    b"HMSG a 1 5 12 12\r\nNATS/1.0\r\n\r\n\r\n": NatsMessage(
        1, b"a", b"5", b"NATS/1.0\r\n\r\n", b""
    ),
    b"MSG a 1 6\r\nPING\r\n\r\n": NatsMessage(1, b"a", b"", b"", b"PING\r\n"),
    b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nok\r\n": NatsMessage(
        1, b"a", b"", b"NATS/1.0\r\n\r\n", b"ok"
    ),
    b"HMSG a 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\n": NatsMessage(
        1, b"a", b"r", b"NATS/1.0\r\n\r\n", b""
    ),
}


def read(parser, *pieces):
    """What *pieces* say."""
    found = []
    for piece in pieces:
        parser.feed(piece)
        while (said := parser.next_said()) is not None:
            found.append(said)
    return found


@given(st.lists(st.sampled_from(list(SAID)), max_size=8), st.lists(st.integers(1, 40)))
def test_what_is_said_does_not_depend_on_how_it_is_cut(lines, sizes):
    """One read, or one for each byte."""
    text = b"".join(lines)
    pieces = []
    for size in (*sizes, len(text)):
        pieces.append(text[:size])
        text = text[size:]
    assert read(Parser(BYTES_MAX), *pieces) == [SAID[line] for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        b"\r\n",
        b"ping\r\n",
        b"PING \r\n",
        b"-ERR\r\n",
        b"-ERR  \r\n",
        b"INFO\r\n",
        b"INFO []\r\n",
        b"INFO {\r\n",
        b'INFO {"a":"\xff"}\r\n',
        b"INFO " + b"[" * 50_000 + b"\r\n",
        b"MSG\r\n",
        b"MSG a 1\r\n",
        b"MSG a b 1\r\nx\r\n",
        b"MSG a 1 r more 1\r\nx\r\n",
        b"MSG a 1 -1\r\n",
        b"MSG a 1 101\r\n",
        b"MSG a 1 99999999999\r\n",
        b"MSG a 1 1\r\nxy\r\n",
        b"MSG a 1 r 1 1\r\nx\r\n",
        b"HMSG a 1 3\r\nabc\r\n",
        b"HMSG a 1 4 3\r\nabcd\r\n",
        b"x" * LINE_BYTES_MAX,
    ],
)
def test_what_is_not_nats_is_an_error(text):
    """At once, and nothing is kept that was announced too large."""
    with pytest.raises(TransportError) as caught:
        read(Parser(BYTES_MAX), text)
    assert caught.value.reason == "protocol"


@given(st.lists(st.sampled_from([*SAID, b" ", b"1", b"\r\n"]) | st.binary(max_size=9), max_size=12))
def test_any_bytes_are_said_or_refused(pieces):
    """No other exception."""
    with contextlib.suppress(TransportError):
        read(Parser(BYTES_MAX), *pieces)


class Below:
    """The transport of a peer that takes nothing."""

    def __init__(self):
        self.unsent = 0
        self.aborted = False

    def write(self, data):
        self.unsent += len(data)

    def get_write_buffer_size(self):
        return self.unsent

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True


def test_a_server_that_asks_and_does_not_read_is_left(monkeypatch):
    """Our PONGs are not kept without end."""
    monkeypatch.setattr(_connection, "UNSENT_BYTES_MAX", 1_000)

    async def scenario():
        connection, below = NatsConnection(None, BYTES_MAX), Below()
        connection.connection_made(below)
        endpoint = SimpleNamespace(scheme="nats", tls=False, host="x")
        login = asyncio.ensure_future(connection.log_in(endpoint, None, None))
        await asyncio.sleep(0)
        connection.data_received(b"INFO {}\r\n")
        for _ in range(3):
            await asyncio.sleep(0)
        assert below.unsent
        connection.data_received(b"PONG\r\n")
        assert await login is None
        assert not below.aborted
        for _ in range(200):
            connection.data_received(b"PING\r\n")
            await asyncio.sleep(0)
        assert below.aborted
        assert below.unsent < 1_010
        connection.abort()

    asyncio.run(scenario())


@pytest.mark.parametrize("line", [b"PING", b"+OK", b"INFO {}"])
def test_a_server_that_floods_is_left(monkeypatch, line):
    """It would take the loop that delivers to all."""
    monkeypatch.setattr(_connection, "UNASKED_MAX", 10)

    async def scenario():
        lost = []
        listener = SimpleNamespace(lost=lost.append)
        connection, below = NatsConnection(listener, BYTES_MAX), Below()
        connection.connection_made(below)
        endpoint = SimpleNamespace(scheme="nats", tls=False, host="x")
        login = asyncio.ensure_future(connection.log_in(endpoint, None, None))
        await asyncio.sleep(0)
        connection.data_received(b"INFO {}\r\n")
        for _ in range(3):
            await asyncio.sleep(0)
        connection.data_received(b"PONG\r\n")
        assert await login is None
        connection.data_received((line + b"\r\n") * 10)
        assert not lost
        connection.data_received((line + b"\r\n") * 10)
        assert [answer.reason for answer in lost] == ["protocol"]
        assert below.aborted

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (b"{}", (False, False)),
        (b'{"headers":true}', (True, False)),
        (b'{"jetstream":true}', (False, True)),
        (b'{"jetstream":1}', (False, False)),
    ],
)
def test_tells_what_the_server_says_that_it_has(info, expected):
    """Headers, and JetStream."""

    async def scenario():
        connection = NatsConnection(None, BYTES_MAX)
        connection.connection_made(Below())
        endpoint = SimpleNamespace(scheme="nats", tls=False, host="x")
        login = asyncio.ensure_future(connection.log_in(endpoint, None, None))
        await asyncio.sleep(0)
        connection.data_received(b"INFO " + info + b"\r\n")
        await asyncio.sleep(0.01)
        connection.data_received(b"PONG\r\n")
        assert await login is None
        assert (connection.headers, connection.jetstream) == expected
        connection.abort()

    asyncio.run(scenario())
