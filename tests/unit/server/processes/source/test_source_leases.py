"""Each source runs at one node at a time, and stops before its lease has run out."""

import asyncio
from collections import Counter

import pytest
from structlog.testing import capture_logs

from distributary.core.errors import FencedError, LogLockedError, StoreError
from distributary.core.postgres_lease import LeaseRow
from distributary.server.nodes import Leader
from distributary.server.processes.source.source_leases import (
    FAILED_S,
    FAILED_S_MAX,
    RUNNER,
    SOURCE,
    SourceLeases,
)

NAMES = ("a", "b", "c")
TTL_S = 6.0


@pytest.fixture(autouse=True)
def lines():
    """What is logged."""
    with capture_logs() as found:
        yield found


class Table:
    """The leases that nodes share, in memory and in virtual time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.away = False
        self.held: dict[str, Lease] = {}
        self.take_fails = lambda _node, _name: None

    def of(self, node: str) -> "View":
        """What *node* has of it."""
        return View(self, node)


class View:
    """``LeaseTable`` of one node."""

    def __init__(self, table: Table, node: str) -> None:
        self._table, self._node = table, node

    def read(self) -> list[LeaseRow]:
        if self._table.away:
            raise StoreError("the database does not answer")
        now_s = self._table.now_s
        return [
            LeaseRow(name, 1, Leader(name=lease.node, generation=1).holder(), lease.until_s - now_s)
            for name, lease in sorted(self._table.held.items())
        ]

    def take(self, name: str) -> "Lease":
        if self._table.away:
            raise StoreError("the database does not answer")
        self._table.take_fails(self._node, name)
        before = self._table.held.get(name)
        if before is not None and before.until_s > self._table.now_s:
            raise LogLockedError(name)
        lease = self._table.held[name] = Lease(self._table, self._node)
        return lease


class Lease:
    """``HeldLease``, renewed by the test."""

    def __init__(self, table: Table, node: str) -> None:
        self._table, self.node = table, node
        self.until_s = table.now_s + TTL_S

    @property
    def lapsing(self) -> bool:
        return self._table.now_s >= self.until_s - 1.0

    def check(self) -> None:
        if self._table.now_s >= self.until_s:
            raise FencedError("it has run out")

    def renew(self) -> None:
        self.until_s = self._table.now_s + TTL_S

    def release(self) -> None:
        self.until_s = min(self.until_s, self._table.now_s)


class Reading:
    """A source that is read; notes when two nodes read it at once."""

    def __init__(self, world: "World", node: str, name: str) -> None:
        self._world, self._node, self._name = world, node, name

    def start(self) -> None:
        self._world.fail("start", self._node, self._name)
        if self._name in self._world.readers:
            pytest.fail("two nodes read one source")  # no ``Exception``: it comes through
        self._world.readers[self._name] = self._node

    async def stop(self, _drain_s: float) -> None:
        await asyncio.sleep(0)
        self._world.readers.pop(self._name, None)


class World:
    """Nodes over one table."""

    def __init__(self, *nodes: str) -> None:
        self.table = Table()
        self.readers: dict[str, str] = {}
        self.fenced: list[str] = []
        self.faulty: dict[str, set[tuple[str, str]]] = {}
        self.away_at_take = False
        self.tried: Counter[tuple[str, str]] = Counter()
        self.ended: list[tuple[str, str]] = []
        self.table.take_fails = self._take
        self.nodes = {node: self.node(node) for node in nodes}

    def node(self, name: str) -> SourceLeases:
        """A node."""
        return SourceLeases(
            self.table.of(name),
            name,
            NAMES,
            lambda source: self._make(name, source),
            ended=lambda source: self.ended.append((name, source)),
            fenced=lambda: self.fenced.append(name),
            now_s=lambda: self.table.now_s,
        )

    def _make(self, node: str, source: str) -> Reading:
        self.tried[node, source] += 1
        self.fail("make", node, source)
        return Reading(self, node, source)

    def _take(self, node: str, lease: str) -> None:
        if lease.startswith(SOURCE):
            if self.away_at_take:
                raise StoreError("the database does not answer")
            self.fail("take", node, lease.removeprefix(SOURCE))
        else:
            self.fail("show", node, lease.removeprefix(RUNNER))

    def fail(self, where: str, node: str, source: str) -> None:
        """Raise, where a test wants it so."""
        if (node, source) in self.faulty.get(where, ()):
            raise RuntimeError("can't start new thread")

    async def turns(self, *without: str, count: int = 4) -> None:
        """A second each: all renew, look at the clock, and act; but for those *without*."""
        for _ in range(count):
            self.table.now_s += 1.0
            for lease in self.table.held.values():
                if lease.until_s > self.table.now_s and lease.node not in without:
                    lease.renew()
            for name, node in self.nodes.items():
                if name not in without:
                    await node.drop_lapsing()
                    await node.turn()

    def count(self, node: str) -> int:
        """How many sources *node* reads."""
        return list(self.readers.values()).count(node)


@pytest.mark.parametrize("bad", NAMES)
@pytest.mark.parametrize("fault", ["make", "start"])
def test_a_source_that_cannot_be_started_holds_up_no_other(bad, fault, lines) -> None:
    """However long the fault lasts; its lease does not renew itself for nobody."""

    async def run() -> None:
        world = World("x")
        world.faulty[fault] = {("x", bad)}
        await world.turns(count=40)
        assert set(world.readers) == set(world.nodes["x"].running) == set(NAMES) - {bad}
        (left_s,) = (row.left_s for row in world.table.of("y").read() if row.name == SOURCE + bad)
        assert left_s <= 0.0
        assert world.ended == [("x", bad)] * world.tried["x", bad]
        (first, *_) = (line for line in lines if line["event"] == "source-cannot-start")
        assert (first["source"], first["again_in_s"]) == (bad, FAILED_S)
        assert first["why"] == "RuntimeError: can't start new thread"
        world.faulty[fault] = set()
        await world.turns(count=40)
        assert world.count("x") == len(NAMES)

    asyncio.run(run())


def test_a_source_is_tried_more_and_more_seldom_at_a_node_where_it_cannot_be_started() -> None:
    """Each time is a line in the log, and others may give sources for it; a success forgets it."""

    async def run() -> None:
        world = World("x")
        world.faulty["make"] = {("x", "a")}
        await world.turns(count=1)
        assert world.tried["x", "a"] == 1
        await world.turns(count=int(FAILED_S) - 1)
        assert world.tried["x", "a"] == 1
        await world.turns(count=1)
        assert world.tried["x", "a"] == 2
        await world.turns(count=int(2 * FAILED_S) - 1)
        assert world.tried["x", "a"] == 2
        await world.turns(count=3600)
        tried = world.tried["x", "a"]
        await world.turns(count=int(FAILED_S_MAX) * 4)
        assert world.tried["x", "a"] == tried + 4
        world.faulty["make"] = set()
        await world.turns(count=int(FAILED_S_MAX))
        assert "a" in world.readers
        world.faulty["make"] = {("x", "a")}
        world.table.held[SOURCE + "a"].until_s = world.table.now_s  # it lapses
        await world.turns(count=1)
        assert "a" not in world.readers
        tried = world.tried["x", "a"]
        await world.turns(count=int(FAILED_S) - 1)
        assert world.tried["x", "a"] == tried
        await world.turns(count=1)
        assert world.tried["x", "a"] == tried + 1

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["make", "start", "take"])
@pytest.mark.parametrize("bad", [*NAMES, "all"])
@pytest.mark.parametrize("node", ["x", "y"])
def test_a_healthy_node_reads_what_cannot_be_started_at_another_one(node, bad, fault) -> None:
    """It gives none for which the other one has no use, and takes back what it gave."""

    async def run() -> None:
        world = World("x", "y")
        world.faulty[fault] = {(node, name) for name in NAMES if bad in (name, "all")}
        await world.turns(count=40)
        unread = 0
        for _ in range(300):
            await world.turns(count=1)
            unread += len(NAMES) - len(world.readers)
        assert unread <= 20, "of 900 seconds of sources: a moment after each pause"
        assert not any((at, name) in world.faulty[fault] for name, at in world.readers.items())
        assert (world.count(node) == 0) == (bad == "all")
        world.faulty[fault] = set()
        await world.turns(count=int(FAILED_S_MAX) + 4)
        assert sorted((world.count("x"), world.count("y"))) == [1, 2]

    asyncio.run(run())


def test_a_node_that_cannot_show_that_it_runs_sources_reads_what_is_free(lines) -> None:
    """The lease by which others see it is not what it reads by; one line for all of the time."""

    async def run() -> None:
        world = World("x")
        world.faulty["show"] = {("x", "x")}
        await world.turns()
        assert world.count("x") == len(NAMES)
        assert RUNNER + "x" not in world.table.held
        (told,) = (line["why"] for line in lines if line["event"] == "sources-unseen")
        assert told == "RuntimeError: can't start new thread"
        world.faulty["show"] = set()
        await world.turns(count=1)
        assert RUNNER + "x" in world.table.held

    asyncio.run(run())


def test_a_database_that_is_away_is_no_fault_of_a_source() -> None:
    """No source is left to others for it, and the turn says so."""

    async def run() -> None:
        world = World("x")
        world.away_at_take = True
        with pytest.raises(StoreError):
            await world.turns(count=1)
        world.away_at_take = False
        await world.turns(count=1)
        assert world.count("x") == len(NAMES)

    asyncio.run(run())


def test_one_node_runs_all_and_shares_with_the_next() -> None:
    """Each one about as many, and no source twice."""

    async def run() -> None:
        world = World("x")
        await world.turns()
        assert world.count("x") == len(NAMES)
        world.nodes["y"] = world.node("y")
        await world.turns()
        assert sorted((world.count("x"), world.count("y"))) == [1, 2]
        assert set(world.readers) == set(NAMES)
        shown = {row.name for row in world.table.of("x").read() if row.left_s > 0}
        assert shown == {SOURCE + name for name in NAMES} | {RUNNER + "x", RUNNER + "y"}

    asyncio.run(run())


def test_sources_of_a_node_that_is_gone_are_taken_once_its_leases_run_out() -> None:
    """Not before: it may only be cut off."""

    async def run() -> None:
        world = World("x", "y")
        await world.turns()
        gone = [name for name, node in world.readers.items() if node == "y"]
        assert gone
        await world.turns("y", count=3)
        assert all(world.readers[name] == "y" for name in gone)
        for name in gone:  # the process was killed
            del world.readers[name]
        await world.turns("y", count=5)
        assert world.count("x") == len(NAMES)

    asyncio.run(run())


def test_a_node_that_cannot_renew_stops_before_its_leases_run_out() -> None:
    """So it never reads beside the next one; it begins again when it can."""

    async def run() -> None:
        world = World("x", "y")
        await world.turns()
        leases = [lease for lease in world.table.held.values() if lease.node == "y"]
        world.table.now_s = leases[0].until_s - 1.0
        await world.nodes["y"].drop_lapsing()
        assert world.count("y") == 0
        assert not world.nodes["y"].running
        world.table.away = True
        with pytest.raises(StoreError):
            await world.nodes["y"].turn()
        world.table.away = False
        await world.turns(count=10)
        assert sorted((world.count("x"), world.count("y"))) == [1, 2]

    asyncio.run(run())


def test_a_node_that_stops_leaves_its_sources_at_once() -> None:
    """Nobody waits for a lease to run out, and it takes none any more."""

    async def run() -> None:
        world = World("x", "y")
        await world.turns()
        await world.nodes["y"].stop(1.0)
        await world.nodes["y"].turn()
        assert world.count("y") == 0
        await world.turns("y", count=1)
        assert world.count("x") == len(NAMES)

    asyncio.run(run())


def test_a_source_that_runs_beyond_its_lease_ends_the_process() -> None:
    """A loop that hangs, or a machine that slept: the thread sees it."""

    async def run() -> None:
        world = World("x")
        follow = asyncio.create_task(world.nodes["x"].follow())
        while world.count("x") < len(NAMES):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        follow.cancel()  # the loop does nothing more
        await asyncio.gather(follow, return_exceptions=True)
        world.table.now_s = 100.0
        while not world.fenced:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        await world.nodes["x"].stop(0.0)

    asyncio.run(run())
