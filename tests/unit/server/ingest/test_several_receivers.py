"""Receivers that share a port: limits hold over all, and connections are shared out."""

import asyncio
import socket
import tempfile
from pathlib import Path

import pytest

from distributary.datadir import NodeCount, NodeCounts, make_node_counts
from distributary.server.ingest import IngestSettings
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._listener import SharedListener

PART = b"POST /events HTTP/1.1\r\nhost: localhost\r\n"
"""A request that has begun: its connection is not idle."""


@pytest.fixture
def nodes(tmp_path):
    """The counts of two receivers."""
    path = tmp_path / "receivers.counts"
    make_node_counts(path, 2)
    return [NodeCounts(path, number) for number in range(2)]


@pytest.fixture
def opened(connect, nodes):
    """Connects to one of two receivers: ``opened(number, peer, **limits)``."""
    contexts = {}

    def make(number, peer=("127.0.0.1", 1), **limits):
        client = connect(settings=IngestSettings(**limits))
        if number not in contexts:
            contexts[number] = IngestContext(
                client.appends, client.settings, client.clock, None, node=nodes[number]
            )
        return connect(context=contexts[number], peer=peer)

    return make


def test_the_limit_of_connections_holds_over_both(opened):
    """Whoever takes them; a place that becomes free is anybody's."""
    clients = [opened(number % 2, connections_max=3) for number in range(3)]
    for client in clients:
        client.send(PART)
    (refused,) = opened(1).answers()
    assert refused.status == 503
    clients[0].transport.close()
    assert opened(1).answers() == []


def test_an_idle_connection_of_its_own_gives_way(opened):
    """As where there is one receiver."""
    opened(0, connections_max=2).send(PART)
    idle = opened(1, connections_max=2)
    assert opened(1).answers() == []
    assert idle.transport.closed


def test_the_limit_of_an_address_holds_over_both(opened):
    """Other addresses have their own."""
    peer = ("192.0.2.1", 1)
    for number in (0, 1):
        assert opened(number, peer, connections_per_address_max=2).answers() == []
    assert [answer.status for answer in opened(0, peer).answers()] == [503]
    assert opened(0, ("192.0.2.2", 1)).answers() == []


def test_what_a_killed_receiver_held_is_free_once_it_is_back(opened, nodes, tmp_path):
    """Its row begins at zero."""
    opened(0, connections_max=1).send(PART)
    assert [answer.status for answer in opened(1, connections_max=1).answers()] == [503]
    NodeCounts(tmp_path / "receivers.counts", 0)
    assert opened(1, connections_max=1).answers() == []
    assert nodes[1].own(NodeCount.CONNECTIONS) == 1


class Counted(asyncio.Protocol):
    """A connection of a receiver, counted as the context does."""

    def __init__(self, node, told):
        self.node = node
        self.told = told

    def connection_made(self, _transport):
        self.node.add(NodeCount.CONNECTIONS, 1)
        self.told()


def accepted(nodes, listening, count):
    """Connections of each of *nodes* when *count* came to those of *listening*."""

    async def run(path):
        complete = asyncio.Event()

        def told():
            if sum(node.own(NodeCount.CONNECTIONS) for node in nodes) == count:
                complete.set()

        with socket.socket(socket.AF_UNIX) as port:
            port.bind(str(path))
            port.listen(count)
            listeners = [
                SharedListener(port.dup(), lambda node=node: Counted(node, told), node)
                for node in listening
            ]
            clients = []
            for _ in range(count):
                client = socket.socket(socket.AF_UNIX)
                client.connect(str(path))
                clients.append(client)
            await complete.wait()
            for closing in (*listeners, *clients):
                closing.close()
        return [node.own(NodeCount.CONNECTIONS) for node in nodes]

    with tempfile.TemporaryDirectory(prefix="dy") as folder:
        return asyncio.run(asyncio.wait_for(run(Path(folder) / "port.sock"), 30.0))


def test_a_burst_of_connections_is_shared_out(nodes):
    """None of both has many more than the other."""
    shares = accepted(nodes, nodes, 40)
    assert sum(shares) == 40
    assert min(shares) >= 15


def test_a_receiver_that_accepts_nothing_holds_up_no_connection(nodes):
    """The other one takes them all."""
    assert accepted(nodes, nodes[:1], 40) == [40, 0]
