"""Each source runs at one node at a time, and stops before its lease has run out."""

import asyncio

import pytest

from distributary.core.errors import FencedError, LogLockedError, StoreError
from distributary.core.postgres_lease import LeaseRow
from distributary.server.nodes import Leader
from distributary.server.processes.source.source_leases import RUNNER, SOURCE, SourceLeases

NAMES = ("a", "b", "c")
TTL_S = 6.0


class Table:
    """The leases that nodes share, in memory and in virtual time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.away = False
        self.held: dict[str, Lease] = {}

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
        assert self._name not in self._world.readers, "two nodes read one source"
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
        self.faults: list[Exception] = []
        self.nodes = {node: self.node(node) for node in nodes}

    def node(self, name: str) -> SourceLeases:
        """A node."""
        return SourceLeases(
            self.table.of(name),
            name,
            NAMES,
            lambda source: self._make(name, source),
            ended=lambda _name: None,
            fenced=lambda: self.fenced.append(name),
        )

    def _make(self, node: str, source: str) -> Reading:
        if self.faults:
            raise self.faults.pop()
        return Reading(self, node, source)

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


def test_a_source_that_cannot_be_made_is_left_to_others_and_tried_again(monkeypatch) -> None:
    """Whatever is wrong with it at this node: its lease does not renew itself for nobody."""
    monkeypatch.setattr("distributary.core.periodic.AGAIN_S", 0.0)

    async def run() -> None:
        world = World("x")
        world.faults += [RuntimeError("can't start new thread")] * 2
        with pytest.raises(RuntimeError):
            await world.nodes["x"].turn()
        (left_s,) = (row.left_s for row in world.table.of("y").read() if row.name == f"{SOURCE}a")
        assert left_s == 0.0
        follow = asyncio.create_task(world.nodes["x"].follow())
        while world.count("x") < len(NAMES):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        assert not world.faults
        follow.cancel()
        await asyncio.gather(follow, return_exceptions=True)

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
