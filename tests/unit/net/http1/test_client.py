"""A client's connection, fed by hand."""

import asyncio

import pytest

from distributary.core.errors import TransportError
from distributary.net.http1 import ClientConnection, Response

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
ANSWER = Response(200, [(b"content-length", b"2")], b"ok")
LENGTH_MAX = 1_000


class Wire(asyncio.Transport):
    """As much of a transport as a connection uses."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.aborted = True


class Bench:
    """A connection, and what a request on it comes to."""

    def __init__(self) -> None:
        self.connection = ClientConnection(LENGTH_MAX)
        self.wire = Wire()
        self.connection.connection_made(self.wire)

    async def ask(self, *pieces: bytes, ended: bool = False) -> Response:
        answer = self.connection.send(b"x")
        for piece in pieces:
            self.connection.data_received(piece)
        if ended:
            self.connection.eof_received()
            self.connection.connection_lost(None)
        return await answer


def test_a_connection_is_used_again() -> None:
    """Where the server keeps it, and has sent no more than it was asked for."""

    async def scenario() -> None:
        bench = Bench()
        for _ in range(2):
            assert await bench.ask(OK[:20], OK[20:]) == ANSWER
            assert not bench.connection.lost
        assert bench.wire.written == [b"x", b"x"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "response",
    [
        OK + OK,
        OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        OK.replace(b"1.1", b"1.0"),
    ],
    ids=["surplus", "close", "HTTP/1.0"],
)
def test_a_connection_that_may_hold_more_is_not_used_again(response: bytes) -> None:
    """A surplus response would be taken for the next answer."""

    async def scenario() -> None:
        bench = Bench()
        assert (await bench.ask(response)).body == b"ok"
        assert bench.connection.lost

    asyncio.run(scenario())


def test_what_comes_unasked_ends_the_connection() -> None:
    """And the next request fails, rather than to get that answer."""

    async def scenario() -> None:
        bench = Bench()
        await bench.ask(OK)
        bench.connection.data_received(OK)
        assert bench.wire.aborted
        with pytest.raises(TransportError):
            await bench.ask()

    asyncio.run(scenario())


def test_the_end_of_the_connection_may_end_the_body() -> None:
    """A response that says no length."""
    response = asyncio.run(Bench().ask(b"HTTP/1.1 200 OK\r\n\r\no", b"k", ended=True))
    assert response == Response(200, [], b"ok")


@pytest.mark.parametrize(
    "pieces",
    [
        [OK[:-1]],
        [],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n", bytes(LENGTH_MAX)],
        [b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * LENGTH_MAX],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\n a: b\r\n\r\n"],
    ],
    ids=["cut off", "nothing", "long body", "long header", "both framings", "two lengths", "fold"],
)
def test_what_is_no_whole_response_is_an_error(pieces: list[bytes]) -> None:
    """And the connection is not used again."""

    async def scenario() -> None:
        bench = Bench()
        with pytest.raises(TransportError) as caught:
            await bench.ask(*pieces, ended=True)
        assert caught.value.reason == "protocol"
        assert bench.connection.lost

    asyncio.run(scenario())
