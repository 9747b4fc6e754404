"""Route records and ticks on their way to the appending process, which may have been replaced."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.server.processes.receiver.route_wire import RouteAppendClient, RouteAppendServer


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


def served(committers, look_again=never):
    """The server of a receiver that owns the partitions from 0 on."""
    return RouteAppendServer(dict(enumerate(committers)), look_again)


def run(scenario):
    """Run *scenario* with the path of a socket, short enough for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="dy") as folder:
        asyncio.run(asyncio.wait_for(scenario(Path(folder) / "append.sock"), 30.0))


def test_a_change_stands_in_every_partition_in_order():
    """The answer comes when all of them have all of it."""

    async def scenario(path):
        committers = [Committer(), Committer()]
        server = served(committers)
        await server.start(path)
        client = RouteAppendClient([path])
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
        server = served([committer])
        await server.start(path)
        client = RouteAppendClient([path])
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
        server = served([old])
        await server.start(path)
        client = RouteAppendClient([path])
        await client.append_routes([b"a"])
        client._wires[0]._streams[1].transport.abort()
        server.close()
        successor = served([new])
        await successor.start(path)
        await client.append_routes([b"b"])
        assert (old.bodies, new.bodies) == ([b"a"], [b"b"])
        client.close()
        successor.close()

    run(scenario)


def test_nobody_there_and_a_refusal_are_told():
    """The caller appends everything again later."""

    async def scenario(path):
        client = RouteAppendClient([path])
        with pytest.raises(LogUnavailableError, match="does not answer"):
            await client.append_routes([b"a"])
        server = served([Committer(), Committer(LogUnavailableError("disk full"))])
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
        server = served(committers)
        await server.start(path)
        client = RouteAppendClient([path])
        assert await client.append_timer_events([(1, b"a"), (0, b"b"), (1, b"c")]) == 3
        assert [committer.bodies for committer in committers] == [[b"b"], [b"a", b"c"]]
        client.close()
        server.close()

    run(scenario)


def test_a_partition_that_refuses_timer_events_costs_the_others_none():
    """Whether its queue is full or its disk fails."""

    async def scenario(path):
        failing = Committer(LogUnavailableError("disk full"), kind=4)
        server = served([Committer(kind=4), failing, FullCommitter()])
        await server.start(path)
        client = RouteAppendClient([path])
        assert await client.append_timer_events([(2, b"a"), (1, b"b"), (0, b"c")]) == 1
        client.close()
        server.close()

    run(scenario)


def test_timer_events_are_never_sent_twice():
    """Nobody knows what a process took before it died; its successor gets the next ones."""

    async def scenario(path):
        old, new = Committer(kind=4), Committer(kind=4)
        server = served([old])
        await server.start(path)
        client = RouteAppendClient([path])
        await client.append_timer_events([(0, b"a")])
        client._wires[0]._streams[1].transport.abort()
        server.close()
        with pytest.raises(LogUnavailableError, match="does not answer"):
            await client.append_timer_events([(0, b"b")])
        successor = served([new])
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
        server = served([Committer(kind=4)])
        await server.start(path)
        client = RouteAppendClient([path])
        await client.append_timer_events([(0, b"a")])
        client._wires[0]._streams[0].feed_eof()
        server.close()
        successor = served([new])
        await successor.start(path)
        assert await client.append_timer_events([(0, b"b")]) == 1
        assert new.bodies == [b"b"]
        client.close()
        successor.close()

    run(scenario)


def run_several(scenario):
    """Run *scenario* with the paths of two sockets."""

    async def with_paths(path):
        await scenario([path, path.with_name("append-1.sock")])

    run(with_paths)


def test_a_change_stands_in_the_partitions_of_every_receiver():
    """Each receiver appends it to its own partitions, in the same order."""

    async def scenario(paths):
        first, second, third = Committer(), Committer(), Committer()
        servers = [
            RouteAppendServer({0: first, 2: third}, never),
            RouteAppendServer({1: second}, never),
        ]
        for server, path in zip(servers, paths, strict=True):
            await server.start(path)
        client = RouteAppendClient(paths)
        await client.append_routes([b"a", b"b"])
        assert [each.bodies for each in (first, second, third)] == [[b"a", b"b"]] * 3
        client.close()
        for server in servers:
            server.close()

    run_several(scenario)


def test_a_change_waits_for_a_receiver_that_is_down_and_reaches_it_when_it_is_back():
    """The caller is told, and appends all again in the same order."""

    async def scenario(paths):
        first, second = Committer(), Committer()
        here = RouteAppendServer({0: first}, never)
        await here.start(paths[0])
        client = RouteAppendClient(paths)
        with pytest.raises(LogUnavailableError, match="does not answer"):
            await client.append_routes([b"a"])
        back = RouteAppendServer({1: second}, never)
        await back.start(paths[1])
        await client.append_routes([b"a"])
        assert (first.bodies, second.bodies) == ([b"a", b"a"], [b"a"])
        client.close()
        here.close()
        back.close()

    run_several(scenario)


def test_each_timer_event_goes_to_the_receiver_of_its_partition():
    """And what both have appended is counted."""

    async def scenario(paths):
        committers = [Committer(kind=4) for _ in range(4)]
        servers = [
            RouteAppendServer({0: committers[0], 2: committers[2]}, never),
            RouteAppendServer({1: committers[1], 3: committers[3]}, never),
        ]
        for server, path in zip(servers, paths, strict=True):
            await server.start(path)
        client = RouteAppendClient(paths)
        assert await client.append_timer_events([(3, b"x"), (0, b"y"), (3, b"z")]) == 3
        assert [each.bodies for each in committers] == [[b"y"], [], [], [b"x", b"z"]]
        client.close()
        for server in servers:
            server.close()

    run_several(scenario)


def test_all_receivers_look_again():
    """A Broker is served once each of them knows it."""
    looks = []

    async def look(reason):
        looks.append(reason)
        return reason

    async def scenario(paths):
        servers = [
            RouteAppendServer({}, lambda: look(None)),
            RouteAppendServer({}, lambda: look("disk failed")),
        ]
        for server, path in zip(servers, paths, strict=True):
            await server.start(path)
        client = RouteAppendClient(paths)
        with pytest.raises(LogUnavailableError, match="disk failed"):
            await client.look_again()
        assert len(looks) == 2
        client.close()
        for server in servers:
            server.close()

    run_several(scenario)
