"""A node among others: its sign of life, and what its receivers learn."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from distributary.core.errors import StoreError
from distributary.core.log.taken import OnceLimits
from distributary.datadir import (
    DataDir,
    MappedStatusPage,
    PolledFile,
    StatusField,
    TenantCounts,
    Used,
    make_tenant_counts,
)
from distributary.server.nodes import (
    LIVE_S,
    MARGIN_S,
    Leader,
    LeaderFile,
    NodeKeeper,
    NodePaths,
    NodeSign,
    live,
)
from distributary.testing.virtual import VirtualClock
from kit.memory_nodes import MemoryNodes

LOG = SimpleNamespace(
    info=lambda *_a, **_k: None, warning=lambda *_a, **_k: None, exception=lambda *_a, **_k: None
)
BROKER = {"brokers/default/shop": "uid-1"}


class World:
    """One node with two receivers."""

    def __init__(self, folder: Path, name: str = "a") -> None:
        self.clock = VirtualClock()
        self.clock.move_to(self.clock.monotonic_s() + 1000.0)
        self.now_s = self.clock.monotonic_s
        self.paths = DataDir(folder)
        self.paths.run.mkdir()
        self.nodes = MemoryNodes(self.now_s)
        self.leader = Leader()
        self.pages = [MappedStatusPage(self.paths.ingest_page(each)) for each in range(2)]
        self.keeper = NodeKeeper(
            self.paths,
            self.nodes,
            lambda: NodeSign(
                name=name, address="h:1", version="1", started_ms=1, role="follower", takes=True
            ),
            lambda: self.leader,
            receivers=2,
            now_s=self.now_s,
            log=LOG,
        )
        self.fresh: list[bool] = []
        self.learnt: list[dict[str, str] | None] = []
        self.receiver = NodePaths(self.paths, 0, self.now_s, self.fresh.append)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A node of two receivers."""
    return World(tmp_path)


def test_a_turn_writes_what_is_new_for_the_receivers(world: World) -> None:
    """Access, addresses and who leads: each once."""
    world.nodes.publish_access(7, b"snapshot")
    world.nodes.addresses = (3, BROKER)
    world.leader = Leader(name="b", address="h:2", generation=4)
    world.keeper.turn()
    assert PolledFile(world.paths.access).look() == b"snapshot"
    assert LeaderFile(world.paths.leader).look() == world.leader
    world.receiver.look()
    world.receiver.tell(world.learnt.append)
    assert world.learnt == [BROKER]
    before = world.paths.addresses.stat().st_mtime_ns, world.paths.access.stat().st_mtime_ns
    world.keeper.turn()
    assert before == (
        world.paths.addresses.stat().st_mtime_ns,
        world.paths.access.stat().st_mtime_ns,
    )


def test_a_node_says_what_all_of_its_receivers_serve(world: World) -> None:
    """The leader waits for the slowest."""
    world.nodes.addresses = (3, BROKER)
    world.keeper.turn()
    world.receiver.look()
    world.pages[0][StatusField.ACCESS] = 9
    world.pages[1][StatusField.ACCESS] = 8
    world.keeper.turn()
    (row,) = world.nodes.rows()
    assert (row.sign.access, row.sign.addresses) == (8, 0), "the second one has not looked yet"
    world.pages[1][StatusField.ADDRESSES] = 3
    world.keeper.turn()
    assert world.nodes.rows()[0].sign.addresses == 3


def test_a_node_tells_once_of_others_with_another_window(world: World) -> None:
    """Their receivers put an event elsewhere, or its repeat."""
    told: list[object] = []
    world.keeper._log = SimpleNamespace(
        warning=lambda event, **fields: told.append((event, fields)),
        info=lambda *_a, **_k: None,
    )
    other = NodeSign(name="b", address="h:2", version="1", started_ms=1, role="follower")
    world.nodes.sign(other, access=0, addresses=0)
    world.keeper.turn()
    assert told == []
    with_window = msgspec.structs.replace(other, once=OnceLimits(60.0))
    world.nodes.sign(with_window, access=0, addresses=0)
    world.keeper.turn()
    world.keeper.turn()
    assert told == [("once-window-differs", {"here": 0.0, "nodes": {"b": 60.0}})]
    world.nodes.sign(other, access=0, addresses=0)
    world.keeper.turn()
    assert len(told) == 1


def test_a_node_that_is_not_heard_stops_serving_before_others_take_it_for_dead(
    world: World,
) -> None:
    """Brokers may be deleted, and keys revoked, that it does not hear of."""
    world.nodes.addresses = (3, BROKER)
    world.keeper.turn()
    world.receiver.look()
    world.receiver.tell(world.learnt.append)
    world.nodes.away = True
    world.clock.move_to(world.clock.monotonic_s() + LIVE_S - MARGIN_S - 0.1)
    with pytest.raises(StoreError):
        world.keeper.turn()
    world.receiver.look()
    assert (world.fresh, world.learnt) == ([], [BROKER])
    assert world.keeper.fresh
    world.clock.move_to(world.clock.monotonic_s() + 0.2)
    world.receiver.look()
    assert (world.fresh, world.learnt) == ([False], [BROKER, None])
    assert not world.keeper.fresh
    world.nodes.away = False
    assert len(live(world.nodes.rows())) == 1, "others still count on it: it was first"
    world.keeper.turn()
    world.receiver.look()
    assert (world.fresh, world.learnt) == ([False, True], [BROKER, None, BROKER])


def test_addresses_that_come_while_a_node_is_not_heard_are_served_when_it_is(
    world: World,
) -> None:
    """Not before: they may be older than what it does not know."""
    world.receiver.tell(world.learnt.append)
    world.receiver.look()
    assert world.fresh == [False], "nothing was ever read"
    world.nodes.addresses = (5, BROKER)
    world.keeper.turn()
    world.receiver.look()
    assert world.learnt[-1] == BROKER
    assert world.fresh == [False, True]


def test_a_dead_node_is_not_waited_for(world: World) -> None:
    """Its sign of life is too old."""
    world.keeper.turn()
    world.clock.move_to(world.clock.monotonic_s() + LIVE_S - 0.1)
    assert len(live(world.nodes.rows())) == 1
    world.clock.move_to(world.clock.monotonic_s() + 0.2)
    assert live(world.nodes.rows()) == []


def test_what_a_tenant_uses_here_counts_at_the_other_nodes(tmp_path: Path) -> None:
    """Each receiver sees it as that of one more receiver; a database that is away stops nothing."""
    clock = VirtualClock()
    nodes = MemoryNodes(clock.monotonic_s)

    def keeper(name: str) -> tuple[NodeKeeper, list[TenantCounts]]:
        paths = DataDir(tmp_path / name)
        paths.run.mkdir(parents=True)
        make_tenant_counts(paths.tenant_counts, 2, b"of all nodes")
        made = NodeKeeper(
            paths,
            nodes,
            lambda: NodeSign(name=name, address="h:1", version="1", started_ms=1, role="follower"),
            Leader,
            receivers=2,
            now_s=clock.monotonic_s,
            log=LOG,
            run=f"run of {name}",
        )
        return made, [TenantCounts(paths.tenant_counts, number) for number in range(2)]

    (here, counts), (there, others) = keeper("a"), keeper("b")
    seen = [one.of("shop") for one in others]
    here.turn()
    assert nodes.reports == {}  # nothing is used: nothing is asked
    counts[0].of("shop").add(Used.EVENTS, 1)
    others[0].of("shop").add(Used.EVENTS, 1)
    for each in (here, there, here, there):
        each.turn()
    assert set(nodes.reports) == {"a", "b"}
    for each in seen:
        each.taken_elsewhere(Used.EVENTS)
    counts[0].of("shop").add(Used.EVENTS, 5)
    counts[1].of("shop").add(Used.EVENTS, 2)
    here.turn()
    there.turn()
    assert [each.taken_elsewhere(Used.EVENTS) for each in seen] == [7, 7]
    nodes.reports_away = True
    there.turn()
    assert there.fresh
