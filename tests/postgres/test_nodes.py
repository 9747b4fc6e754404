"""Nodes tell each other how they stand, and share secrets, in a real PostgreSQL."""

import asyncio
import base64
import os
from pathlib import Path

import msgspec
import pytest

from distributary.core.clock import SystemClock
from distributary.core.database import StoreClock, database_url, open_reader, open_writer
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import FencedError, SettingsError
from distributary.core.postgres_lease import (
    CONTROL,
    PostgresLease,
    partition_lease,
    prepare_leases,
    read_leases,
)
from distributary.core.postgres_nodes import taking_addresses
from distributary.datadir import DataDir, StatusField
from distributary.partitions.executor import LeaseHolder
from distributary.partitions.shared_page import PageExchange, prepare_pages
from distributary.server.nodes import (
    LIVE_S,
    Authority,
    Leader,
    NodeSign,
    NodeTakenError,
    make_authority,
)
from distributary.server.nodes.postgres import PostgresNodes, make_tables, shared_secret
from distributary.server.processes.node._node_store import check_keys, keep_keys
from distributary.server.processes.node._shared_cluster import SharedCluster
from distributary.server.processes.source.source_leases import (
    SOURCE,
    PostgresSourceLeases,
    SourceLeases,
)
from distributary.server.settings import Settings
from distributary.subscriptions.http import OwnerShown
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store

HELD_S = 60.0
"""Of leases that must hold until they are looked at, however slow the machine is."""


def sealer(text: str) -> Sealer:
    """Seals with the key *text*."""
    return Sealer(Keys(Path(os.devnull), text))


def key() -> str:
    """A new key."""
    return base64.b64encode(os.urandom(32)).decode()


@pytest.fixture(scope="module")
def url(postgres):
    """A database with the tables of nodes, and those of Brokers."""
    found = database_url(postgres.new_database())
    # Closed by the last who uses it: all of a process share its connections.
    Store(found, sealer=sealer(key())).close()
    make_tables(found)
    make_tables(found)  # each node does so when it starts
    return found


def sign_of(name: str, **members) -> NodeSign:
    """What the node *name* says."""
    said = {"address": f"{name}:1", "version": "1", "started_ms": 1, "role": "follower"}
    return NodeSign(name=name, run=f"run-{name}", **said | members)


def test_nodes_see_each_other_by_the_databases_clock(url) -> None:
    """Each sign of life replaces the last one of its node."""
    first, second = PostgresNodes(url), PostgresNodes(url)
    first.sign(sign_of("a"), access=0, addresses=-1)
    seen = second.sign(sign_of("b", role="leader", access=4), access=0, addresses=-1)
    assert [row.sign.name for row in seen.nodes] == ["a", "b"]
    assert all(0 <= row.age_s < LIVE_S and row.is_live for row in seen.nodes)
    assert seen.addresses is not None
    assert "namespaces/default/events" in seen.addresses
    again = second.sign(sign_of("b"), access=0, addresses=seen.addresses_number)
    assert again.addresses is None, "as known"
    assert second.rows()[1].sign.role == "follower"
    first.close()
    assert taking_addresses(open_reader(url, "nodes")) == []
    second.sign(sign_of("b", takes=True), access=0, addresses=-1)
    assert taking_addresses(open_reader(url, "nodes")) == ["b:1"]
    second.close()


def test_ages_are_told_by_the_databases_clock(url) -> None:
    """A node whose own clock is wrong deletes nothing for its age."""
    engine = open_reader(url, "test")
    clock = StoreClock(url)
    asked = "SELECT extract(epoch FROM clock_timestamp()) * 1000"
    with engine.connect() as connection:
        before_ms = connection.exec_driver_sql(asked).scalar()
        found_ms = clock.wall_ms()
        after_ms = connection.exec_driver_sql(asked).scalar()
    assert before_ms - 1 <= found_ms <= after_ms + 1
    clock.close()
    engine.dispose()


def test_nodes_tell_each_other_what_tenants_use(url) -> None:
    """The newest report of each other node that lives, by its run."""
    nodes = [PostgresNodes(url) for _ in range(3)]
    assert nodes[0].exchange("a", "run-a", b"1") == {}
    assert nodes[1].exchange("b", "run-b", b"2") == {"run-a": b"1"}
    assert nodes[2].exchange("c", "run-c", b"") == {"run-a": b"1", "run-b": b"2"}
    assert nodes[0].exchange("a", "run-a2", b"\x00\xff") == {"run-b": b"2", "run-c": b""}
    assert nodes[1].exchange("b", "run-b", b"3") == {"run-a2": b"\x00\xff", "run-c": b""}
    engine = open_writer(url, "test")
    with engine.begin() as connection:
        aged = "UPDATE distributary.node_use SET seen = seen - interval '6 s' WHERE name = 'b'"
        connection.exec_driver_sql(aged)
    engine.dispose()
    assert nodes[2].exchange("c", "run-c", b"4") == {"run-a2": b"\x00\xff"}
    for each in nodes:
        each.close()


def test_any_node_shows_who_leads_and_who_owns_what(url) -> None:
    """A lease that has run out has no owner; what the log does not tell is unknown."""
    prepare_leases(open_writer(url, "leases"))
    prepare_pages(open_writer(url, "status pages"))
    nodes = PostgresNodes(url)
    for name in ("seen-1", "seen-2"):
        nodes.sign(sign_of(name, takes=True), access=0, addresses=-1)
    leading = Leader(name="seen-2", address="seen-2:1", generation=1)
    holder = LeaseHolder(host="m3", pid=7, executor="1")
    held = {"renews": False, "ttl_s": HELD_S}
    control = PostgresLease(url, CONTROL, holder=leading.holder(), **held)
    owned = PostgresLease(url, partition_lease(0), holder=holder.encode(), **held)
    PostgresLease(url, partition_lease(1), holder=holder.encode(), renews=False).release()
    pages = PageExchange(url)
    page = pages.page(0)
    page[StatusField.COMMITTED_OFFSET] = 40
    pages.exchange()

    read = SharedCluster(url, 3, lambda: [42, None], SystemClock())
    report = read()
    assert read() is report, "who asks again at once costs nothing"
    shown = {node.name: node for node in report.nodes}
    assert (shown["seen-1"].leads, shown["seen-2"].leads) == (False, True)
    assert shown["seen-1"].live
    assert shown["seen-1"].takes_events
    leases = {lease.name: lease for lease in report.leases}
    assert leases[CONTROL].holder == "seen-2"
    assert 0 < leases[CONTROL].left_seconds <= HELD_S
    assert (leases["partition-0000"].holder, leases["partition-0000"].held) == (
        "m3, executor 1, process 7",
        True,
    )
    assert not leases["partition-0001"].held
    first, second, third = report.partitions
    assert first.owner == OwnerShown(host="m3", pid=7, executor="1")
    assert (first.generation, first.position, first.end, first.lag) == (1, 40, 42, 2)
    assert (second.owner, second.generation, second.position, second.lag) == (None, 1, None, None)
    assert (third.owner, third.generation, third.end) == (None, 0, None)

    control.release()
    owned.release()
    again = SharedCluster(url, 3, list, SystemClock())()
    assert not any(node.leads for node in again.nodes)
    assert again.partitions[0].owner is None
    assert again.partitions[0].lag is None
    nodes.close()


def test_a_source_is_read_at_one_node_at_a_time(url) -> None:
    """By leases that name the node, also for people; one that ends leaves them at once."""
    prepare_leases(open_writer(url, "leases"))

    class Reading:
        def __init__(self, name: str) -> None:
            self.name = name

        def start(self) -> None:
            readers.append(self.name)

        async def stop(self, _drain_s: float) -> None:
            readers.remove(self.name)

    readers: list[str] = []

    def node(name: str) -> SourceLeases:
        table = PostgresSourceLeases(url, name)
        return SourceLeases(table, name, ["a", "b"], Reading, ended=lambda _name: None)

    async def run() -> None:
        one, two = node("one"), node("two")
        await one.turn()
        assert sorted(one.running) == ["a", "b"]
        await two.turn()  # tells that it is there
        await one.turn()
        await two.turn()
        assert (len(one.running), len(two.running)) == (1, 1)
        assert sorted(readers) == ["a", "b"]
        rows = read_leases(open_reader(url, "leases"), SOURCE)
        assert {Leader.of_holder(row.holder, 1).name for row in rows} == {"one", "two"}
        await one.stop(1.0)
        await two.turn()
        assert sorted(two.running) == ["a", "b"]
        await two.stop(1.0)
        rows = read_leases(open_reader(url, "leases"))
        assert not [row for row in rows if row.name.startswith("source") and row.left_s > 0]

    asyncio.run(run())


def test_two_nodes_cannot_live_under_one_name(url) -> None:
    """A node that was restarted takes its own place; another machine's does not."""
    nodes = PostgresNodes(url)
    nodes.sign(sign_of("one"), access=0, addresses=0)
    nodes.sign(sign_of("one", version="2"), access=0, addresses=0)
    restarted = msgspec.structs.replace(sign_of("one"), run="later")
    nodes.sign(restarted, access=0, addresses=0)
    stranger = msgspec.structs.replace(sign_of("one", address="elsewhere:1"), run="x")
    with pytest.raises(NodeTakenError, match="another node lives under the name one"):
        nodes.sign(stranger, access=0, addresses=0)
    nodes.close()


def test_the_newest_snapshot_of_access_reaches_every_node(url) -> None:
    """One with an older number replaces nothing."""
    nodes = PostgresNodes(url)
    assert nodes.access_number() == 0
    nodes.publish_access(5, b"five")
    assert nodes.access_number() == 5
    nodes.publish_access(4, b"four")
    seen = nodes.sign(sign_of("c"), access=0, addresses=0)
    assert (seen.access_number, seen.access) == (5, b"five")
    assert nodes.sign(sign_of("c"), access=5, addresses=0).access is None
    nodes.close()


def test_a_former_leader_tells_nobody_who_may_do_what(url) -> None:
    """Its clock may be ahead: a number alone would let a revoked key count again."""
    made, former = Store(url, sealer=sealer(key()), leader=1), PostgresNodes(url, 1)
    number = former.access_number() + 10
    former.publish_access(number, b"of the first")
    leading, leader = Store(url, sealer=sealer(key()), leader=2), PostgresNodes(url, 2)
    assert leader.access_number() == number, "where the next one goes on, whatever its clock says"
    with pytest.raises(FencedError):
        former.publish_access(number + 9, b"late")
    leader.publish_access(number + 1, b"of the second")
    seen = leader.sign(sign_of("d"), access=number, addresses=0)
    assert (seen.access_number, seen.access) == (number + 1, b"of the second")
    for each in (made, former, leading, leader):
        each.close()


def test_the_first_node_makes_a_secret_and_the_others_open_it(url) -> None:
    """One with other keys is refused, and told what to do; the secret is in no text."""
    keys = key()
    made = shared_secret(url, "test", sealer(keys), lambda: b"s3cret", bytes)
    assert made == b"s3cret"
    assert shared_secret(url, "test", sealer(keys), lambda: b"other", bytes) == b"s3cret"
    with pytest.raises(SettingsError, match="credential_key_file: this node's keys do not open"):
        shared_secret(url, "test", sealer(key()), lambda: b"other", bytes)


def test_a_node_without_the_key_that_seals_is_refused_before_anything_fails(
    url, tmp_path, monkeypatch
):
    """Another one has begun to seal by a new key: it has both, and this one the old one alone."""
    old, new = key(), key()
    shared_secret(url, "rotated", sealer(old), lambda: b"s3cret", bytes)
    both = sealer(f"{new},{old}")
    assert shared_secret(url, "rotated", both, lambda: b"other", bytes) == b"s3cret"
    with pytest.raises(SettingsError, match="do not open the secrets of the cluster"):
        shared_secret(url, "rotated", sealer(old), lambda: b"other", bytes)
    assert shared_secret(url, "rotated", sealer(new), lambda: b"other", bytes) == b"s3cret"
    monkeypatch.delenv(CREDENTIAL_KEY_VARIABLE, raising=False)
    paths = DataDir(tmp_path)
    paths.key_file("").write_text(f"{new}\n{old}\n")
    paths.key_file("").chmod(0o600)
    keep_keys(Settings(), paths)
    assert os.environ[CREDENTIAL_KEY_VARIABLE] == f"{new},{old}"
    monkeypatch.setenv(CREDENTIAL_KEY_VARIABLE, new)
    shared_secret(url, "authority", sealer(new), make_authority, Authority)
    check_keys(Settings(), paths, url)
    monkeypatch.setenv(CREDENTIAL_KEY_VARIABLE, key())
    with pytest.raises(SettingsError, match="credential_key_file"):
        check_keys(Settings(), paths, url)
