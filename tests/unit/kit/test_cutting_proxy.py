"""The wires of the cluster: what a cut lets through, what it holds, loses and refuses."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from kit.cutting_proxy import CuttingProxy, Fate, Way
from kit.peers import MEMBER

QUIET_S = 0.2
"""Nothing came for so long: what passes the wire does so in a millisecond. A stalled machine can
only hide a fault by this, never show one that is not there."""

SOON_S = 20.0

ECHO_CLIENT = """
import contextlib, socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as opened, contextlib.suppress(
    OSError
):
    for line in sys.stdin:
        opened.sendall(line.encode())
        print(opened.recv(100).decode(), end="", flush=True)
"""


class Echo:
    """A server that sends back what it gets, and notes it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.heard_one = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                opened, _ = self._listener.accept()
                threading.Thread(target=self._echo, args=(opened,), daemon=True).start()

    def _echo(self, opened: socket.socket) -> None:
        with opened, contextlib.suppress(OSError):
            while block := opened.recv(1000):
                with self.heard_one:
                    self.heard.append(block)
                    self.heard_one.notify_all()
                opened.sendall(block)

    def wait_for(self, block: bytes) -> None:
        """Wait until it has heard *block*."""
        with self.heard_one:
            assert self.heard_one.wait_for(lambda: block in self.heard, SOON_S)

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):  # it may be closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A server."""
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def wire(echo: Echo) -> Iterator[CuttingProxy]:
    """A wire to it."""
    with CuttingProxy(echo.address) as proxy:
        yield proxy


@pytest.fixture
def client(wire: CuttingProxy) -> Iterator[socket.socket]:
    """A client with an open connection that has been used."""
    with socket.create_connection(wire.address, SOON_S) as opened:
        assert said(opened, b"hello") == b"hello"
        yield opened


def said(opened: socket.socket, block: bytes) -> bytes:
    """What comes back for *block*."""
    opened.sendall(block)
    return opened.recv(1000)


def silent(opened: socket.socket) -> bool:
    """Whether nothing comes, not even the end."""
    opened.settimeout(QUIET_S)
    try:
        opened.recv(1)
    except TimeoutError:
        return True
    finally:
        opened.settimeout(SOON_S)
    return False


def is_reset(opened: socket.socket) -> bool:
    """Whether the connection ended abruptly."""
    try:
        return opened.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_refusing_wire_resets_what_is_open_and_what_comes(
    wire: CuttingProxy, client: socket.socket
) -> None:
    """Until it is mended: the server is not there."""
    wire.cut(Fate.REFUSE)
    assert is_reset(client)
    with (
        contextlib.suppress(ConnectionResetError),  # while it connects, already
        socket.create_connection(wire.address, SOON_S) as another,
    ):
        assert is_reset(another)
    wire.mend()
    with socket.create_connection(wire.address, SOON_S) as another:
        assert said(another, b"again") == b"again"


def test_a_holding_wire_delivers_late(
    wire: CuttingProxy, echo: Echo, client: socket.socket
) -> None:
    """What was said during the cut arrives when it is mended, in both directions."""
    wire.cut(Fate.HOLD)
    client.sendall(b"late")
    assert silent(client)
    assert b"late" not in echo.heard
    wire.mend()
    assert client.recv(1000) == b"late"


def test_a_half_open_wire_has_the_server_act_and_nobody_hear(
    wire: CuttingProxy, echo: Echo, client: socket.socket
) -> None:
    """The way back alone is cut: the answer waits, or is lost and the connection with it."""
    wire.cut(Fate.HOLD, Way.BACK)
    client.sendall(b"asked")
    echo.wait_for(b"asked")
    assert silent(client)
    wire.mend()
    assert client.recv(1000) == b"asked"
    wire.cut(Fate.SWALLOW, Way.BACK)
    client.sendall(b"lost")
    echo.wait_for(b"lost")
    assert silent(client)
    wire.mend()
    assert is_reset(client)


def test_a_swallowing_wire_takes_everything_and_passes_nothing(
    wire: CuttingProxy, echo: Echo, client: socket.socket
) -> None:
    """Open connections stay open, new ones are taken, and no byte arrives, ever."""
    wire.cut(Fate.SWALLOW, Way.THERE)
    client.sendall(b"x" * 1_000_000)  # more than any buffer: it is read
    with socket.create_connection(wire.address, SOON_S) as another:
        another.sendall(b"hello?")
        assert silent(another)
        wire.mend()
        assert is_reset(client)
        assert is_reset(another)
    assert echo.heard == [b"hello"]


def test_the_end_of_a_connection_is_held_too(wire: CuttingProxy, client: socket.socket) -> None:
    """A server behind a cut wire does not hear that its client is gone."""
    wire.cut(Fate.SWALLOW)
    client.shutdown(socket.SHUT_WR)
    assert silent(client)
    assert wire.open_count() == 1


def test_open_connections_are_reset_once(wire: CuttingProxy, client: socket.socket) -> None:
    """New ones pass at once."""
    wire.reset()
    assert is_reset(client)
    with socket.create_connection(wire.address, SOON_S) as another:
        assert said(another, b"again") == b"again"
    assert wire.connections == 2


def test_a_server_that_is_gone_is_a_reset(echo: Echo, wire: CuttingProxy) -> None:
    """As without the wire, as far as a client can tell."""
    echo.close()
    with socket.create_connection(wire.address, SOON_S) as opened:
        assert is_reset(opened)


def test_a_cut_concerns_the_member_that_is_meant(wire: CuttingProxy, client: socket.socket) -> None:
    """Open and new connections of one member are cut, those of others pass."""
    command = [sys.executable, "-c", ECHO_CLIENT, *map(str, wire.address)]
    environ = os.environ | {MEMBER: "node-2"}
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        print("one", file=other.stdin, flush=True)
        assert other.stdout.readline() == "one\n"
        assert wire.open_count() == 2
        assert wire.open_count("node-2".__eq__) == 1
        wire.cut(Fate.REFUSE, who="node-2".__eq__)
        assert said(client, b"I am another") == b"I am another"
        out, _ = other.communicate("not heard\n", SOON_S)
        assert out == ""
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        out, _ = other.communicate("nor this\n", SOON_S)
        assert out == ""
    wire.cut(Fate.REFUSE, who="node-1".__eq__)
    with socket.create_connection(wire.address, SOON_S) as another:
        assert said(another, b"no member") == b"no member"
