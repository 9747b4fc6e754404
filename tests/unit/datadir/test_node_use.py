"""Rates of tenants over nodes: what each admits when all report twice a second."""

import random

import msgspec
import pytest

from distributary.core.quotas import Quotas, QuotaTable
from distributary.datadir import NodeUse, TenantCounts, Used, make_tenant_counts
from distributary.datadir._node_use import IDLE_S, REPORTED_MAX
from distributary.server.ingest import Tenants

SECRET = b"of all nodes"
STEP_S = 0.05
TURN_S = 0.5
RATE = 100.0
RECEIVERS = 2
PATHS = {f"namespaces/{name}/events": f"@{name}" for name in ("shop", "till", "farm")}


class Node:
    """A node with receivers, as far as rates go."""

    def __init__(self, folder, name, world) -> None:
        self.name = name
        path = self.use_path = folder / name
        make_tenant_counts(path, RECEIVERS, SECRET)
        self.use = NodeUse(path, RECEIVERS, world.clock)
        self.counts = [TenantCounts(path, number, world.clock) for number in range(RECEIVERS)]
        self.receivers = [Tenants(world.clock, counts) for counts in self.counts]
        for tenants in self.receivers:
            tenants.change(QuotaTable(others=Quotas(events_per_s=RATE)))
            tenants.learn(PATHS)

    def publish(self, namespace, tries):
        """Try to publish so many events; returns how many were admitted."""
        count = 0
        for number in range(tries):
            tenants = self.receivers[number % RECEIVERS]
            if tenants.admits(f"@{namespace}"):
                tenants.take_events(f"@{namespace}", 1, 10)
                count += 1
        return count


class World:
    """Nodes that exchange reports, each at its own phase."""

    def __init__(self, folder, count=3) -> None:
        self.now_s = 1000.0
        self.rng = random.Random(3)
        self.nodes = [Node(folder, f"n{number}", self) for number in range(count)]
        self.due_s = {node: self.now_s + self.rng.random() * TURN_S for node in self.nodes}
        self.reports: dict[str, bytes] = {}
        self.away = False

    def clock(self) -> float:
        return self.now_s

    def step(self):
        """Some time passes; nodes whose turn it is say what they use, and hear the others."""
        self.now_s += STEP_S
        for node in self.nodes:
            if self.now_s >= self.due_s[node]:
                self.due_s[node] += TURN_S
                self.turn(node)

    def turn(self, node):
        report = node.use.report()
        self.reports.pop(node.name, None)
        if report and not self.away:
            self.reports[node.name] = report
            node.use.hear({name: one for name, one in self.reports.items() if name != node.name})

    def run(self, seconds, demand):
        """Run; *demand* is what each node is asked for in a second. Returns what each admitted."""
        admitted = [0.0] * len(self.nodes)
        for _ in range(int(seconds / STEP_S)):
            for number, node in enumerate(self.nodes):
                admitted[number] += node.publish("shop", round(demand[number] * STEP_S))
            self.step()
        return admitted


@pytest.fixture
def world(tmp_path):
    """Three nodes."""
    return World(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "demand", [(400, 400, 400), (1000, 60, 0), (200, 200, 40)], ids=["alike", "one", "two"]
)
def test_a_rate_holds_for_the_sum_of_all_nodes(world, demand):
    """Within seconds, whoever is asked how much; nodes take what others leave."""
    world.run(5, demand)  # each has a second's worth at its start, until it hears of the others
    admitted = sum(world.run(30, demand))
    assert 0.9 * 30 * RATE <= admitted <= 30 * RATE + 2 * RATE


@pytest.mark.slow
def test_one_node_alone_admits_the_whole_rate(world):
    """What others might be asked for is not kept free."""
    world.run(2, (300, 0, 0))
    assert sum(world.run(10, (300, 0, 0))) >= 0.98 * 10 * RATE


@pytest.mark.slow
def test_what_remains_below_the_rate_is_never_refused(world):
    """Though it comes at all nodes."""
    demand = (40, 20, 20)
    world.run(2, demand)
    assert world.run(10, demand) == [400, 200, 200]


@pytest.mark.slow
def test_a_namespace_is_not_counted_for_another(world):
    """Another tenant has its whole rate on each node."""
    world.run(5, (400, 400, 400))
    receiver = world.nodes[1].receivers[0]
    admitted = 0
    while receiver.admits("@till"):
        receiver.take_events("@till", 1, 10)
        admitted += 1
    assert admitted == RATE


@pytest.mark.slow
def test_a_node_that_comes_back_to_a_tenant_does_not_pay_for_the_past(world):
    """It has heard nothing for long: the others used the rate meanwhile."""
    world.run(2, (20, 20, 20))
    world.run(IDLE_S + 5, (100, 0, 0))
    assert world.run(10, (60, 20, 0)) == [600, 200, 0]


@pytest.mark.slow
def test_nobody_waits_for_as_long_as_the_database_was_away(world):
    """Each admits the rate alone meanwhile, and they share it again after that."""
    demand = (200, 200, 200)
    world.run(5, demand)
    world.away = True
    apart = sum(world.run(4, demand))
    assert apart >= 2 * 4 * RATE
    world.away = False
    world.run(3, demand)
    admitted = sum(world.run(20, demand))
    assert 0.85 * 20 * RATE <= admitted <= 22 * RATE


def test_reports_are_bounded_and_forget(world):
    """Those used last are in it; who was idle leaves, and begins from zero."""
    node = world.nodes[0]
    for number in range(REPORTED_MAX + 10):
        node.counts[0].of(f"n{number}").add(Used.EVENTS, 1)
    node.use.report()
    assert len(node.use._totals) == REPORTED_MAX
    world.now_s += IDLE_S
    assert node.use.report() == b""
    node.counts[0].of("n1").add(Used.EVENTS, 2)
    node.use.report()
    assert list(node.use._totals.values()) == [[2, 0, 0]]
    world.now_s += IDLE_S
    assert node.use.report() == b""


def test_a_report_of_another_version_is_no_use(world):
    """Nor is rubbish."""
    node = world.nodes[0]
    for report in (b"", b"\xff", b"\x81\xa1x\xa1y"):
        node.use.hear({"run": report})
    node.use.hear({})


def test_calls_of_the_control_process_are_reported_too(world):
    """It counts as one more receiver."""
    node, other = world.nodes[:2]
    control = TenantCounts(node.use_path, RECEIVERS, world.clock)
    seen = other.counts[0].of("shop")
    world.turn(node)
    control.of("shop").add(Used.CALLS, 1)
    other.counts[1].of("shop").add(Used.CALLS, 1)
    for _ in range(2):
        for each in (node, other):
            world.turn(each)
        control.of("shop").add(Used.CALLS, 4)
    world.turn(node)
    world.turn(other)
    assert seen.taken_elsewhere(Used.CALLS) in {1 + 4, 1 + 8}


def test_who_begins_again_from_zero_is_no_large_use(world):
    """Also where the report without it was missed: a step back would look like 2**32 events."""
    node = world.nodes[0]
    seen = node.counts[0].of("shop")
    digest = node.counts[0]._rows.digest("shop")

    def heard(count):
        node.use.hear({"run": msgspec.msgpack.encode({digest: [count, 0, 0]})})
        return seen.taken_elsewhere(Used.EVENTS)

    assert [heard(count) for count in (10, 12, 3, 3, 4)] == [0, 2, 3, 0, 1]
