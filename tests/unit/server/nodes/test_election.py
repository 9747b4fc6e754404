"""Which node leads, in virtual time."""

import asyncio
import random
import threading

import pytest

from distributary.core.clock import Clock
from distributary.server.nodes import LATE_S, LATELY_S, PATIENCE_S, TAKE_S, Election, stop_led
from distributary.testing.virtual import VirtualClock
from kit.memory_nodes import TTL_S, MemoryControl


class Candidate:
    """A node as the election sees it: looks ten times a second, renews every two.

    Args:
        control: The lease.
        clock: Virtual time.
    """

    def __init__(self, control: MemoryControl, clock: Clock) -> None:
        self.election = Election(control.take, control.left_s, clock.monotonic_s)
        self._clock = clock
        self._renewed_s = 0.0
        self.alive = True

    @property
    def acts(self) -> int | None:
        """The generation of the control part that it runs; None: it runs none."""
        mandate = self.election.mandate
        return mandate.generation if mandate is not None and self.election.may_act else None

    @property
    def keeps(self) -> int | None:
        """The generation of the pipeline that it keeps; None: it keeps none."""
        mandate = self.election.mandate
        return None if mandate is None else mandate.generation

    def look(self) -> None:
        if not self.alive:
            return
        election, now_s = self.election, self._clock.monotonic_s()
        if election.over:
            election.resign()()
        elif election.mandate is not None:
            if now_s - self._renewed_s >= (2.0 if election.may_act else 0.5):
                election.mandate.renew()
                self._renewed_s = now_s
        elif election.due and election.take() is not None:
            self._renewed_s = now_s


def run(clock: VirtualClock, nodes: list[Candidate], seconds: float) -> list[list[int]]:
    """Let time pass; returns the generations that acted, at each look."""
    acted = []
    for _ in range(int(seconds * 10)):
        clock.move_to(clock.monotonic_s() + 0.1)
        for node in nodes:
            node.look()
        acted.append([node.acts for node in nodes if node.acts is not None])
    return acted


@pytest.fixture
def clock() -> VirtualClock:
    """Time of the nodes and of the database."""
    return VirtualClock()


def test_one_leads_as_long_as_it_lives(clock: VirtualClock) -> None:
    """It renews its lease; nobody else acts."""
    control = MemoryControl(clock.monotonic_s)
    nodes = [Candidate(control, clock) for _ in range(3)]
    assert run(clock, nodes, 120.0) == [[1]] * 1200


def test_the_next_one_leads_when_the_lease_has_run_out(clock: VirtualClock) -> None:
    """Within the lease and the pause of who tries."""
    control = MemoryControl(clock.monotonic_s)
    nodes = [Candidate(control, clock) for _ in range(2)]
    run(clock, nodes, 5.0)
    leader = next(node for node in nodes if node.acts)
    leader.alive = False
    leader.election.resign()  # its processes are gone, and nobody tells the database
    acted = run(clock, nodes, TTL_S + TAKE_S + 0.2)
    assert acted[-1] == [2]


def test_one_that_stops_lets_the_next_lead_at_once(clock: VirtualClock) -> None:
    """It releases the lease."""
    control = MemoryControl(clock.monotonic_s)
    nodes = [Candidate(control, clock) for _ in range(2)]
    run(clock, nodes, 5.0)
    first, other = nodes
    first.election.resign()()
    first.alive = False
    run(clock, nodes, TAKE_S + 0.2)
    assert other.acts == 2


def test_a_lease_that_lapsed_while_the_database_was_away_stays_with_its_holder(
    clock: VirtualClock,
) -> None:
    """It acts no more in the last second, keeps what it has, and goes on: the others wait."""
    control = MemoryControl(clock.monotonic_s)
    nodes = [Candidate(control, clock) for _ in range(3)]
    run(clock, nodes, 5.0)
    control.away = True
    run(clock, nodes, 5 * TTL_S)
    assert [node.acts for node in nodes] == [None] * 3
    assert [node.keeps for node in nodes] == [1, None, None]
    control.away = False
    run(clock, nodes, 1.0)
    assert [node.acts for node in nodes] == [1, None, None]


def test_a_lease_of_a_dead_leader_is_taken_soon_after_the_database_is_back(
    clock: VirtualClock,
) -> None:
    """Nobody renews it: the others wait for two seconds."""
    control = MemoryControl(clock.monotonic_s)
    nodes = [Candidate(control, clock) for _ in range(2)]
    run(clock, nodes, 5.0)
    control.away = True
    run(clock, nodes, TTL_S)
    nodes[0].alive = False
    control.away = False
    run(clock, nodes, PATIENCE_S - 0.2)
    assert nodes[1].acts is None
    run(clock, nodes, TAKE_S + 0.4)
    assert nodes[1].acts == 2


def test_a_leader_whose_lease_was_taken_keeps_nothing(clock: VirtualClock) -> None:
    """It could not ask the database; another node could."""
    control = MemoryControl(clock.monotonic_s)
    nodes = [Candidate(control, clock) for _ in range(2)]
    run(clock, nodes, 5.0)
    nodes[0].alive = False  # it neither looks nor renews: stopped
    run(clock, nodes, TTL_S + TAKE_S)
    assert nodes[1].acts == 2
    nodes[0].alive = True
    run(clock, nodes, 1.0)
    assert nodes[0].keeps is None


def test_a_lease_that_is_not_renewed_in_time_is_noticed_before_it_ends(
    clock: VirtualClock,
) -> None:
    """So Spark can start meanwhile; one that is renewed as it should be gives no such sign."""
    control = MemoryControl(clock.monotonic_s)
    leader, other = nodes = [Candidate(control, clock) for _ in range(2)]
    for _ in range(200):
        run(clock, nodes, 0.1)
        assert not other.election.late
        assert other.election.followed or clock.monotonic_s() < 3.0
    leader.alive = False
    run(clock, nodes, TTL_S - LATE_S + TAKE_S)
    assert other.election.late
    assert other.acts is None
    leader.alive = True
    run(clock, nodes, LATELY_S - 2 * TAKE_S)
    assert leader.acts == 1
    assert other.election.late  # what was started ahead stays for a while
    run(clock, nodes, 3 * TAKE_S)
    assert not other.election.late


@pytest.mark.parametrize("seed", range(30))
def test_two_never_act_at_a_time_whatever_fails(clock: VirtualClock, seed: int) -> None:
    """Nodes stop and go on, and the database is away now and then: generations only rise."""
    draw = random.Random(seed)
    control = MemoryControl(clock.monotonic_s)
    nodes = [Candidate(control, clock) for _ in range(3)]
    highest = 0
    for _ in range(200):
        for acting in run(clock, nodes, draw.choice((0.3, 1.0, 4.0))):
            assert len(acting) <= 1, f"seed {seed}"
            assert all(each >= highest for each in acting), f"seed {seed}"
            highest = max([highest, *acting])
        control.away = draw.random() < 0.3
        victim = draw.choice(nodes)
        if draw.random() < 0.3:  # killed: nothing of it acts, and another process begins anew
            nodes[nodes.index(victim)] = Candidate(control, clock)
    assert highest > 5


def test_what_is_led_may_use_its_whole_time_to_stop(clock: VirtualClock) -> None:
    """A stop that takes longer than a lease holds: the lease is renewed, and it hears of that."""
    node = Candidate(MemoryControl(clock.monotonic_s), clock)
    node.look()
    mandate, stopped, told = node.election.mandate, threading.Event(), []
    assert mandate is not None

    def tell(until_s: float) -> None:
        told.append(until_s)
        if clock.monotonic_s() > told[0]:
            stopped.set()
        clock.move_to(clock.monotonic_s() + 2.0)
        node.look()

    def stop() -> None:
        assert stopped.wait(60.0)

    asyncio.run(stop_led(stop, node.election, tell))
    assert told[-1] > clock.monotonic_s() - 2.0 > told[0], "never told that its time is over"
    assert node.election.mandate is mandate


def test_what_is_led_hears_while_it_stops_that_the_lease_is_lost(clock: VirtualClock) -> None:
    """Nobody tells it of more time than the lease has."""
    control = MemoryControl(clock.monotonic_s)
    node = Candidate(control, clock)
    node.look()
    control.away = True
    looks: list[float] = []
    ended = threading.Event()

    def tell(until_s: float) -> None:
        looks.append(until_s)
        clock.move_to(clock.monotonic_s() + 2.0)
        if clock.monotonic_s() > until_s:
            ended.set()

    asyncio.run(stop_led(lambda: ended.wait(60.0), node.election, tell))
    assert ended.is_set()
    assert set(looks) == {looks[0]}
