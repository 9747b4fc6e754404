"""Route records on their way to the appending process, which may have been replaced meanwhile."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from distributary.app._route_wire import RouteAppendClient, RouteAppendServer
from distributary.errors import LogUnavailableError


class Committer:
    """Takes every record at once; refuses where it is told to."""

    def __init__(self, refusal=None):
        self.bodies = []
        self.refusal = refusal

    def submit(self, kind, body, done):
        """Durable in the next turn of the loop."""
        assert kind == 2
        self.bodies.append(body)
        answer = self.refusal or len(self.bodies) - 1
        asyncio.get_running_loop().call_soon(done, answer)


def run(scenario):
    """Run *scenario* with the path of a socket, short enough for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="dy") as folder:
        asyncio.run(asyncio.wait_for(scenario(Path(folder) / "append.sock"), 30.0))


def test_a_change_stands_in_every_partition_in_order():
    """The answer comes when all of them have all of it."""

    async def scenario(path):
        committers = [Committer(), Committer()]
        server = RouteAppendServer(committers)
        await server.start(path)
        client = RouteAppendClient(path)
        await client.append_routes([b"a", b"b"])
        assert [committer.bodies for committer in committers] == [[b"a", b"b"]] * 2
        client.close()
        server.close()

    run(scenario)


def test_the_successor_of_the_appending_process_is_asked_once():
    """A connection that died with the old process is no reason to refuse a change."""

    async def scenario(path):
        old, new = Committer(), Committer()
        server = RouteAppendServer([old])
        await server.start(path)
        client = RouteAppendClient(path)
        await client.append_routes([b"a"])
        client._streams[1].transport.abort()
        server.close()
        successor = RouteAppendServer([new])
        await successor.start(path)
        await client.append_routes([b"b"])
        assert (old.bodies, new.bodies) == ([b"a"], [b"b"])
        client.close()
        successor.close()

    run(scenario)


def test_nobody_there_and_a_refusal_are_told():
    """The caller appends everything again later."""

    async def scenario(path):
        client = RouteAppendClient(path)
        with pytest.raises(LogUnavailableError, match="does not answer"):
            await client.append_routes([b"a"])
        server = RouteAppendServer([Committer(), Committer(LogUnavailableError("disk full"))])
        await server.start(path)
        with pytest.raises(LogUnavailableError, match="disk full"):
            await client.append_routes([b"a"])
        client.close()
        server.close()

    run(scenario)
