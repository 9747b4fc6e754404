"""What runs between nodes: who is let in, and where it goes."""

import asyncio
import contextlib
import datetime as dt
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from distributary.net.own_nodes import NAME
from distributary.server.nodes import (
    Leader,
    NodeDialler,
    NodeFiles,
    Purpose,
    make_authority,
    make_proof,
    proof,
)
from distributary.server.nodes.proof import Authority as NodeAuthority
from kit.certificates import Authority, Pair
from kit.node_wire import Relay, answering, files_of, gateway
from kit.ports import free_port

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def matrix() -> Iterator[ModuleType]:
    """scripts/access_matrix.py, as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        import access_matrix  # noqa: PLC0415 - found by the line above

        yield access_matrix
    sys.modules.pop("access_matrix", None)


def node_file(folder: Path, authority: NodeAuthority) -> Path:
    """The certificate and key that a node shows."""
    files_of(folder, authority)
    return folder / "node.pem"


def write_both(path: Path, pair: Pair) -> Path:
    """Write certificate and key of *pair* into one file."""
    path.write_bytes(pair.certificate + pair.key)
    return path


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
    authority = make_authority()
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
    authority = make_authority()
    files, theirs = files_of(tmp_path / "a", authority), files_of(tmp_path / "b", authority)

    async def run() -> None:
        async with gateway(theirs, {Purpose.CONTROL: lambda: None}) as (address, made):
            leader = Leader(name="other", address=address, generation=3)
            relay = await relayed(dialler(tmp_path, leader, files))
            assert relay.answer == b""
            while made.connections:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_each_cell_of_the_table_holds(tmp_path: Path, matrix: ModuleType) -> None:
    """Whoever shows no certificate of this cluster, or asks for nothing known, gets nowhere."""
    ours, clients = make_authority(), Authority()
    theirs = files_of(tmp_path / "node", ours)
    shown = {
        "client": [write_both(tmp_path / "client.pem", clients.client())],
        "other cluster": [node_file(tmp_path / "other", make_authority())],
        "node": [tmp_path / "node" / "node.pem"],
        "nothing": [],
    }
    assert set(shown) == set(matrix.NODE_SHOWN)
    assert {*Purpose} < {*matrix.node_ways()}

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
        where = tmp_path / "behind.sock"
        async with (
            answering(where, b"secret") as asked,
            gateway(theirs, dict.fromkeys(Purpose, lambda: where)) as (address, _made),
        ):
            let_in = 0
            for purpose in matrix.node_ways():
                for name, chains in shown.items():
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                    context.load_verify_locations(tmp_path / "node" / "nodes.pem")
                    for chain in chains:
                        context.load_cert_chain(chain)
                    if purpose:
                        context.set_alpn_protocols([purpose])
                    expected = matrix.node_expected(purpose, name)
                    let_in += expected
                    answer = await get_in(context, address)
                    assert (answer == b"secret") == expected, (purpose, name)
                    assert len(asked) == let_in, (purpose, name)
            assert let_in == len(Purpose)

            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.load_verify_locations(tmp_path / "node" / "nodes.pem")
            old.load_cert_chain(tmp_path / "node" / "node.pem")
            old.set_alpn_protocols([Purpose.CONTROL])
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            assert await get_in(old, address) == b""

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
    authority = make_authority()
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


@pytest.mark.parametrize("days", [-365 * 20, 2], ids=["expired", "not valid yet"])
def test_clocks_that_were_wrong_cut_nobody_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """Earlier versions made certificates by their clock: the authority's, and each node's."""
    then = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    monkeypatch.setattr(proof, "BEGIN", then)
    monkeypatch.setattr(proof, "END", then + dt.timedelta(days=365))
    authority = make_authority()
    wrong = files_of(tmp_path / "a", authority)
    monkeypatch.undo()
    right = files_of(tmp_path / "b", authority)

    async def run() -> None:
        where = tmp_path / "leader.sock"
        for ours, theirs in ((wrong, right), (right, wrong)):
            async with (
                answering(where, b"whole"),
                gateway(theirs, {Purpose.CONTROL: lambda: where}) as (address, _made),
            ):
                leader = Leader(name="other", address=address, generation=3)
                assert (await relayed(dialler(tmp_path, leader, ours))).answer == b"whole"

    asyncio.run(run())


def test_what_a_node_shows_is_in_no_text() -> None:
    """Nor the authority's key."""
    authority = make_authority()
    assert "PRIVATE" not in repr(authority) + repr(make_proof(authority))
