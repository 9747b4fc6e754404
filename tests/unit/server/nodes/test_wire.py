"""What runs between nodes: who is let in, and where it goes."""

import asyncio
import contextlib
import ssl
from pathlib import Path

from distributary.net.own_nodes import NAME
from distributary.server.nodes import (
    Leader,
    NodeDialler,
    NodeFiles,
    Purpose,
    make_authority,
    make_proof,
)
from kit.node_wire import NOW, Relay, answering, files_of, gateway
from kit.ports import free_port


def dialler(tmp_path: Path, leader: Leader, files: NodeFiles, own: str = "me") -> NodeDialler:
    """What a receiver of the node *own* dials by."""
    return NodeDialler(
        lambda: leader, own, tmp_path / "control.sock", tmp_path / "node.sock", files
    )


async def relayed(dial: NodeDialler, path: bytes = b"/subscriptions") -> Relay:
    """A request of *path*, once it is over."""
    relay = Relay()
    dial(relay, relay.fail, path)
    await asyncio.wait_for(relay.over.wait(), 20)
    return relay


def test_a_request_reaches_the_control_socket_of_the_node_that_leads(tmp_path: Path) -> None:
    """Whole, in both directions, also where it is larger than any buffer."""
    authority = make_authority(NOW)
    files, theirs = files_of(tmp_path / "a", authority), files_of(tmp_path / "b", authority)
    answer = bytes(range(256)) * 8192

    async def run() -> None:
        where = tmp_path / "leader.sock"
        async with (
            answering(where, answer) as asked,
            gateway(theirs, {Purpose.CONTROL: lambda: where}) as (address, _made),
        ):
            leader = Leader(name="other", address=address, generation=3)
            relay = await relayed(dialler(tmp_path, leader, files))
            assert relay.answer == answer
            assert asked == [b"ask"]

    asyncio.run(run())


def test_a_node_answers_for_itself_and_for_the_api_where_it_leads(tmp_path: Path) -> None:
    """Health and metrics are each node's own; nothing else stays without a leader."""
    files = files_of(tmp_path / "a")

    async def run() -> None:
        async with (
            answering(tmp_path / "control.sock", b"control"),
            answering(tmp_path / "node.sock", b"node"),
        ):
            led = dialler(tmp_path, Leader(name="me", address="h:1", generation=1), files)
            assert (await relayed(led)).answer == b"control"
            assert (await relayed(led, b"/readyz")).answer == b"control"
            alone = dialler(tmp_path, Leader(), files)
            for path in (b"/readyz", b"/healthz", b"/metrics"):
                assert (await relayed(alone, path)).answer == b"node"
            assert (await relayed(alone)).failed
            gone = Leader(name="other", address=f"127.0.0.1:{free_port()}", generation=1)
            assert (await relayed(dialler(tmp_path, gone, files))).failed

    asyncio.run(run())


def test_a_node_that_does_not_lead_any_more_takes_no_request(tmp_path: Path) -> None:
    """Whoever still asks it is answered 503, and asks again."""
    authority = make_authority(NOW)
    files, theirs = files_of(tmp_path / "a", authority), files_of(tmp_path / "b", authority)

    async def run() -> None:
        async with gateway(theirs, {Purpose.CONTROL: lambda: None}) as (address, made):
            leader = Leader(name="other", address=address, generation=3)
            relay = await relayed(dialler(tmp_path, leader, files))
            assert relay.answer == b""
            while made.connections:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_stranger_gets_no_further_than_the_handshake(tmp_path: Path) -> None:
    """One of another cluster, one without a certificate, and one who asks for nothing known."""
    theirs = files_of(tmp_path / "b", make_authority(NOW))

    async def get_in(context: ssl.SSLContext, address: str) -> bytes:
        host, _, port = address.partition(":")
        try:
            reader, writer = await asyncio.open_connection(
                host, int(port), ssl=context, server_hostname=NAME
            )
        except (OSError, ssl.SSLError):
            return b""
        try:
            writer.write(b"ask")
            return await reader.read()
        except OSError:
            return b""
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def run() -> None:
        where = tmp_path / "leader.sock"
        async with (
            answering(where, b"secret") as asked,
            gateway(theirs, {Purpose.CONTROL: lambda: where}) as (address, _made),
        ):
            stranger = files_of(tmp_path / "s")
            assert await get_in(stranger.context(Purpose.CONTROL), address) == b""
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            bare.load_verify_locations(tmp_path / "b" / "nodes.pem")
            bare.set_alpn_protocols([Purpose.CONTROL])
            assert await get_in(bare, address) == b""
            assert await get_in(theirs.context("http/1.1"), address) == b""
            assert asked == []
            assert await get_in(theirs.context(Purpose.CONTROL), address) == b"secret"

    asyncio.run(run())


def test_a_node_does_not_follow_one_of_another_cluster(tmp_path: Path) -> None:
    """Whoever listens at the leader's address must prove that it is a node of ours."""
    files, stranger = files_of(tmp_path / "a"), files_of(tmp_path / "s")

    async def run() -> None:
        async with gateway(stranger, {Purpose.CONTROL: lambda: None}) as (address, _made):
            leader = Leader(name="other", address=address, generation=3)
            assert (await relayed(dialler(tmp_path, leader, files))).failed

    asyncio.run(run())


def test_connections_to_a_control_part_that_ends_are_cut(tmp_path: Path) -> None:
    """A watch must not wait for what is no more."""
    authority = make_authority(NOW)
    files, theirs = files_of(tmp_path / "a", authority), files_of(tmp_path / "b", authority)

    async def run() -> None:
        where = tmp_path / "leader.sock"
        arrived = asyncio.Event()

        left = asyncio.Event()

        async def hang(reader, writer) -> None:
            await reader.read(10)
            arrived.set()
            with contextlib.suppress(OSError):
                await reader.read()
            writer.close()
            left.set()

        server = await asyncio.start_unix_server(hang, where)
        async with (
            server,
            gateway(theirs, {Purpose.CONTROL: lambda: where}) as (address, made),
        ):
            dial = dialler(tmp_path, Leader(name="o", address=address, generation=1), files)
            relay = Relay()
            dial(relay, relay.fail, b"/apis/x")
            await asyncio.wait_for(arrived.wait(), 20)
            made.cut(Purpose.CONTROL)
            await asyncio.wait_for(relay.over.wait(), 20)
            await asyncio.wait_for(left.wait(), 20)

    asyncio.run(run())


def test_what_a_node_shows_is_in_no_text() -> None:
    """Nor the authority's key."""
    authority = make_authority(NOW)
    assert "PRIVATE" not in repr(authority) + repr(make_proof(authority, NOW))
