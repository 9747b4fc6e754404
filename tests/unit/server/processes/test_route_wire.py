"""Route records and ticks on their way to the appending process, which may have been replaced."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.server.processes._route_wire import RouteAppendClient, RouteAppendServer


class Committer:
    """Takes every record at once; refuses where it is told to."""

    def __init__(self, refusal=None, kind=2):
        self.bodies = []
        self.refusal = refusal
        self.kind = kind

    def submit(self, kind, body, done):
        """Durable in the next turn of the loop."""
        assert kind == self.kind
        self.bodies.append(body)
        answer = self.refusal or len(self.bodies) - 1
        asyncio.get_running_loop().call_soon(done, answer)


async def never():
    """Looks again where nobody asks for that."""
    raise AssertionError("nobody asked")


class FullCommitter:
    """Its queue takes nothing."""

    def submit(self, _kind, _body, _done):
        """Refused at once."""
        raise LogUnavailableError("too many events wait for the disk")


def run(scenario):
    """Run *scenario* with the path of a socket, short enough for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="dy") as folder:
        asyncio.run(asyncio.wait_for(scenario(Path(folder) / "append.sock"), 30.0))


def test_a_change_stands_in_every_partition_in_order():
    """The answer comes when all of them have all of it."""

    async def scenario(path):
        committers = [Committer(), Committer()]
        server = RouteAppendServer(committers, never)
        await server.start(path)
        client = RouteAppendClient(path)
        await client.append_routes([b"a", b"b"])
        assert [committer.bodies for committer in committers] == [[b"a", b"b"]] * 2
        client.close()
        server.close()

    run(scenario)


@pytest.mark.slow
def test_a_batch_of_the_largest_changes_fits():
    """256 of 256 KiB and more are one batch: refused once, they would be refused for ever."""

    async def scenario(path):
        committer = Committer()
        server = RouteAppendServer([committer], never)
        await server.start(path)
        client = RouteAppendClient(path)
        bodies = [number.to_bytes(2, "big") * 132_000 for number in range(256)]
        await client.append_routes(bodies)
        assert committer.bodies == bodies
        client.close()
        server.close()

    run(scenario)


def test_the_successor_of_the_appending_process_is_asked_once():
    """A connection that died with the old process is no reason to refuse a change."""

    async def scenario(path):
        old, new = Committer(), Committer()
        server = RouteAppendServer([old], never)
        await server.start(path)
        client = RouteAppendClient(path)
        await client.append_routes([b"a"])
        client._streams[1].transport.abort()
        server.close()
        successor = RouteAppendServer([new], never)
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
        server = RouteAppendServer(
            [Committer(), Committer(LogUnavailableError("disk full"))], never
        )
        await server.start(path)
        with pytest.raises(LogUnavailableError, match="disk full"):
            await client.append_routes([b"a"])
        client.close()
        server.close()

    run(scenario)


def test_timer_events_stand_in_their_partition_alone():
    """Each in its own; the answer counts them."""

    async def scenario(path):
        committers = [Committer(kind=4), Committer(kind=4)]
        server = RouteAppendServer(committers, never)
        await server.start(path)
        client = RouteAppendClient(path)
        assert await client.append_timer_events([(1, b"a"), (0, b"b"), (1, b"c")]) == 3
        assert [committer.bodies for committer in committers] == [[b"b"], [b"a", b"c"]]
        client.close()
        server.close()

    run(scenario)


def test_a_partition_that_refuses_timer_events_costs_the_others_none():
    """Whether its queue is full or its disk fails."""

    async def scenario(path):
        failing = Committer(LogUnavailableError("disk full"), kind=4)
        server = RouteAppendServer([Committer(kind=4), failing, FullCommitter()], never)
        await server.start(path)
        client = RouteAppendClient(path)
        assert await client.append_timer_events([(2, b"a"), (1, b"b"), (0, b"c")]) == 1
        client.close()
        server.close()

    run(scenario)


def test_timer_events_are_never_sent_twice():
    """Nobody knows what a process took before it died; its successor gets the next ones."""

    async def scenario(path):
        old, new = Committer(kind=4), Committer(kind=4)
        server = RouteAppendServer([old], never)
        await server.start(path)
        client = RouteAppendClient(path)
        await client.append_timer_events([(0, b"a")])
        client._streams[1].transport.abort()
        server.close()
        with pytest.raises(LogUnavailableError, match="does not answer"):
            await client.append_timer_events([(0, b"b")])
        successor = RouteAppendServer([new], never)
        await successor.start(path)
        assert await client.append_timer_events([(0, b"c")]) == 1
        assert (old.bodies, new.bodies) == ([b"a"], [b"c"])
        client.close()
        successor.close()

    run(scenario)


def test_a_connection_that_ended_is_noticed_before_timer_events_are_sent():
    """Nothing of them was sent, so nothing is lost."""

    async def scenario(path):
        new = Committer(kind=4)
        server = RouteAppendServer([Committer(kind=4)], never)
        await server.start(path)
        client = RouteAppendClient(path)
        await client.append_timer_events([(0, b"a")])
        client._streams[0].feed_eof()
        server.close()
        successor = RouteAppendServer([new], never)
        await successor.start(path)
        assert await client.append_timer_events([(0, b"b")]) == 1
        assert new.bodies == [b"b"]
        client.close()
        successor.close()

    run(scenario)
