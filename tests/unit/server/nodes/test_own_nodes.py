"""Owners on other machines reach the server's receivers by any living node that knows them."""

import asyncio
import socket
from pathlib import Path

import pytest

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.endpoint import UNIX
from distributary.core.errors import StoreError, TransportError
from distributary.net import AddressRule, CachingResolver, Connector, OwnNodes, SystemResolver
from distributary.net.own_nodes import OWN_ALPN, UNACKNOWLEDGED_MS
from distributary.server.nodes import Purpose, make_authority
from kit.node_wire import Relay, answering, files_of, gateway
from kit.ports import free_port

AWAY = Destination(
    "http://localhost/brokers/default/default", own=True, dial=f"{UNIX}/nowhere/own.sock"
)
"""A Broker, as the leading node says where it reaches it: by a socket of its own machine."""


def connector(nodes: OwnNodes | None) -> Connector:
    """What owners dial by."""
    clock = SystemClock()
    return Connector(AddressRule(()), CachingResolver(SystemResolver(), clock), nodes=nodes)


async def asked(made: Connector, destination: Destination = AWAY) -> bytes:
    """The answer to a request of *destination*."""
    relay = Relay()
    await made.open(made.endpoint_of(destination), lambda: relay)
    await asyncio.wait_for(relay.over.wait(), 20)
    return relay.answer


def test_a_reply_reaches_another_node_once_the_first_is_gone(tmp_path: Path) -> None:
    """With the certificate of its cluster; connections to living nodes are spread."""
    authority = make_authority()
    ours = files_of(tmp_path / "owner", authority)
    first, second = (files_of(tmp_path / name, authority) for name in "ab")

    async def run() -> None:
        one, two = tmp_path / "one.sock", tmp_path / "two.sock"
        async with (
            answering(one, b"one"),
            answering(two, b"two"),
            gateway(first, {Purpose.OWN: lambda: one}) as (at_one, made_one),
            gateway(second, {Purpose.OWN: lambda: two}) as (at_two, _),
        ):
            known = [at_one, at_two]
            nodes = OwnNodes(lambda: known, lambda: ours.context(OWN_ALPN))
            made = connector(nodes)
            assert {await asked(made), await asked(made)} == {b"one", b"two"}
            made_one.close()
            assert [await asked(made) for _ in range(3)] == [b"two"] * 3

    asyncio.run(run())


def test_nobody_who_cannot_prove_it_gets_in_or_is_trusted(tmp_path: Path) -> None:
    """Neither an owner of another cluster at our node, nor our owner at a node of another one."""
    theirs, ours = (files_of(tmp_path / name) for name in "ab")

    async def run() -> None:
        where = tmp_path / "one.sock"
        async with (
            answering(where, b"secret") as questions,
            gateway(theirs, {Purpose.OWN: lambda: where}) as (address, _),
        ):
            nodes = OwnNodes(lambda: [address], lambda: ours.context(OWN_ALPN))
            with pytest.raises(TransportError, match="No connection to a node") as raised:
                await asked(connector(nodes))
            assert raised.value.reason == "refused"
            assert questions == []

    asyncio.run(run())


def test_an_owner_on_one_machine_takes_the_socket(tmp_path: Path) -> None:
    """There is no node to ask."""

    async def run() -> None:
        where = tmp_path / "own.sock"
        here = Destination(AWAY.uri, own=True, dial=f"{UNIX}{where}")
        async with answering(where, b"here"):
            assert await asked(connector(None), here) == b"here"
        with pytest.raises(TransportError, match="own socket"):
            await asked(connector(None))

    asyncio.run(run())


def test_the_servers_path_means_nothing_on_another_machine(tmp_path: Path) -> None:
    """Another server may listen there: events and tokens are for nodes that prove themselves."""
    ours = files_of(tmp_path)

    async def run() -> None:
        where, node = tmp_path / "own.sock", tmp_path / "node.sock"
        here = Destination(AWAY.uri, own=True, dial=f"{UNIX}{where}")
        async with (
            answering(where, b"a stranger") as strangers,
            answering(node, b"a node"),
            gateway(ours, {Purpose.OWN: lambda: node}) as (address, _made),
        ):
            nodes = OwnNodes(lambda: [address], lambda: ours.context(OWN_ALPN))
            assert await asked(connector(nodes), here) == b"a node"
            assert strangers == []

    asyncio.run(run())


def test_known_nodes_are_dialled_while_the_store_is_away(tmp_path: Path) -> None:
    """One that was not reached is tried last, and the store is not asked for each connection."""
    authority = make_authority()
    ours, theirs = files_of(tmp_path / "o", authority), files_of(tmp_path / "a", authority)
    now_s, looks = 0.0, 0

    async def run() -> None:
        nonlocal now_s
        where = tmp_path / "one.sock"
        async with (
            answering(where, b"one"),
            gateway(theirs, {Purpose.OWN: lambda: where}) as (address, _),
        ):
            known = [f"127.0.0.1:{free_port()}", address]

            def read() -> list[str]:
                nonlocal looks
                looks += 1
                if looks > 1:
                    message = "the database does not answer"
                    raise StoreError(message)
                return known

            nodes = OwnNodes(read, lambda: ours.context(OWN_ALPN), lambda: now_s)
            for _ in range(3):
                assert await asked(connector(nodes)) == b"one"
            assert looks == 1
            now_s = 100.0
            assert await asked(connector(nodes)) == b"one"
            assert looks == 2

    asyncio.run(run())


def test_silent_connections_between_nodes_end(tmp_path: Path) -> None:
    """A cut cable says nothing: the kernel would wait for a quarter of an hour."""
    authority = make_authority()
    ours, theirs = files_of(tmp_path / "o", authority), files_of(tmp_path / "a", authority)

    class Kept(asyncio.Protocol):
        def connection_made(self, transport) -> None:
            self.transport = transport

    async def run() -> None:
        where = tmp_path / "one.sock"
        async with (
            answering(where, b"one"),
            gateway(theirs, {Purpose.OWN: lambda: where}) as (address, _),
        ):
            kept = Kept()
            nodes = OwnNodes(lambda: [address], lambda: ours.context(OWN_ALPN))
            await nodes.open(lambda: kept)
            sock = kept.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            unacknowledged = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert unacknowledged == UNACKNOWLEDGED_MS
            kept.transport.abort()

    asyncio.run(run())
