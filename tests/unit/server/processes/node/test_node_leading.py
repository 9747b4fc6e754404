"""A node whose look at the lease fails leads no more, and looks on."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from distributary.core.errors import StoreError
from distributary.server.nodes import Election, NodeRow, NodeSign
from distributary.server.processes.node import _looking, node
from distributary.server.processes.node._log_reach import VAIN_S, LogReach
from distributary.server.processes.node.node import Node
from distributary.testing.virtual import VirtualClock
from kit.memory_nodes import MemoryControl

FULL = OSError(28, "No space left on device")


class Control:
    """The control part: it begins, unless the disk is full, and ends."""

    failed = ended = False

    def __init__(self):
        self.leads = False
        self.faults = []

    def begin(self, _generation, _until_s, _settings):
        """As ``NodeControl``."""
        if self.faults:
            raise self.faults.pop()
        self.leads = True

    async def end(self, _wait_s, _election, _gateway):
        """As ``NodeControl``."""
        self.leads = False

    def tell_until(self, _until_s):
        """As ``NodeControl``."""


class World:
    """A node as far as it leads, in virtual time; another one may take the lease."""

    def __init__(self, monkeypatch):
        clock = self.clock = VirtualClock()
        self.lease = MemoryControl(clock.monotonic_s)
        self.control = Control()
        self.told = []
        self.looks_left = 0
        monkeypatch.setattr(node, "boot_s", clock.monotonic_s)
        log = SimpleNamespace(info=self._tell, warning=self._tell, error=self._tell)
        made = self.node = Node.__new__(Node)
        made._election = Election(self._take, self.lease.left_s, clock.monotonic_s)
        made._control, made._gateway, made._log = self.control, None, log
        made._keeper = SimpleNamespace(partitions=1, hurry=lambda: None, rows=())
        made._reach = LogReach(lambda: None, "here", clock.monotonic_s)
        made._partitions = made._used = 1
        made._gave_up = False
        self.stopped = []
        made._settings = SimpleNamespace(standby="cold")
        made._readiness = SimpleNamespace(begin=lambda: None)
        made._pipeline = SimpleNamespace(
            start=lambda: None, prepare=lambda **_: lambda: None, stopping=self._stopping
        )
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    def _take(self):
        self.node._reach.check(self.node._keeper.rows)
        return self.lease.take()

    def _stopping(self, wait_s):
        return lambda: self.stopped.append(wait_s)

    def _tell(self, event, **fields):
        self.told.append((event, fields))

    async def _sleep(self, seconds):
        self.clock.move_to(self.clock.monotonic_s() + seconds)
        mandate = self.node._election.mandate
        if mandate is not None:
            mandate.renew()  # its thread does
        self.looks_left -= 1
        if self.looks_left <= 0:
            raise asyncio.CancelledError

    def run(self, looks):
        """Let the node look so many times."""
        self.looks_left = looks
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(_looking.keep_looking(self.node._lead, self.node._give_up, self.node._log))


@pytest.fixture
def world(monkeypatch):
    """A node that nothing keeps from leading."""
    return World(monkeypatch)


def test_a_node_that_cannot_lead_leaves_the_lease_to_others(world):
    """Its disk is full: a lease that is renewed would keep all nodes from leading."""
    world.control.faults = [FULL]
    world.run(1)
    failed = {"error": str(FULL), "kind": "OSError"}
    assert world.told[-1] == ("leading-failed", failed)
    assert world.node._election.mandate is None
    assert world.lease.left_s() <= 0.0
    assert world.lease.take().generation == 2


def test_a_node_that_could_not_lead_leads_later(world):
    """Where no other has taken the lease meanwhile."""
    world.control.faults = [FULL, FULL]
    world.run(20)
    assert world.control.leads
    assert [event for event, _ in world.told].count("leading-failed") == 2


@pytest.mark.parametrize("standby", ["cold", "warm"])
def test_the_query_of_a_node_that_gave_up_ends_once_another_leads(world, standby):
    """And not before: it delivers meanwhile."""
    world.node._settings.standby = standby
    world.control.faults = [FULL]
    world.run(1)
    assert world.stopped == []
    others = world.lease.take()
    for _ in range(100):
        others.renew()
        world.run(1)
    assert world.stopped == [0.0]


def test_a_control_part_that_cannot_be_ended_keeps_no_lease(world):
    """It ends by itself: nobody tells it of more time."""

    async def end(*_):
        raise StoreError("it does not end")

    world.control.faults, world.control.end = [FULL], end
    world.run(1)
    assert [event for event, _ in world.told].count("leading-failed") == 2
    assert world.node._election.mandate is None


def test_partitions_that_could_not_be_used_are_used_at_the_next_look(world):
    """The pipeline would go on with fewer, and nothing would say so."""
    used, faults = [], [FULL]

    def write_live():
        if faults:
            raise faults.pop()

    made = world.node
    made._write_live = write_live
    made._settings = SimpleNamespace(standby="cold", drain_s=1.0)
    made._cluster = SimpleNamespace(partitions=1)
    made._pipeline.stopping_orderly = lambda: lambda: None
    made._pipeline.use_partitions = used.append
    made._keeper.partitions = 3
    world.run(5)
    assert used == [3]
    assert world.control.leads


def leaves(made, monkeypatch, ended):
    """Have a node with one receiver leave; *ended* gets what has ended, in order."""
    made._settings = SimpleNamespace(drain_s=1.0)
    made._sources = SimpleNamespace(stop=lambda: ended.append("sources"))
    made._gateway = SimpleNamespace(close=lambda: ended.append("gateway"))
    made._keeper.stop = lambda: ended.append("keeper")
    made._pipeline.stopping_orderly = lambda: lambda: ended.append("pipeline")
    made._children = [SimpleNamespace(stop=lambda _wait_s: ended.append("receiver"))]
    made._listeners = SimpleNamespace(close=lambda: ended.append("sockets"))
    made._exit_code = 0
    monkeypatch.setattr(node.threading, "Timer", lambda *_: SimpleNamespace(start=lambda: None))


def test_clients_are_refused_once_nobody_answers_them(world, monkeypatch):
    """They would wait for an answer until the process has ended."""
    ended = []
    leaves(world.node, monkeypatch, ended)
    probe = SimpleNamespace(stop=lambda: ended.append("stand-in"))
    asyncio.run(world.node._leave(probe))
    assert ended == ["sources", "pipeline", "receiver", "stand-in", "sockets", "gateway", "keeper"]


def test_a_node_that_is_stopped_while_it_takes_the_lease_gives_it_back(world, monkeypatch):
    """It would renew it until its process ends, and nobody would lead."""
    taking, stopped = threading.Event(), threading.Event()

    def take():
        taking.set()
        assert stopped.wait(60)
        return world.lease.take()

    made = world.node
    made._election = Election(take, world.lease.left_s, world.clock.monotonic_s)
    probe = SimpleNamespace(stop=lambda: None)
    leaves(made, monkeypatch, [])

    async def stop():
        leading = asyncio.create_task(made._lead())
        assert await asyncio.to_thread(taking.wait, 10.0)
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        await made._leave(probe)
        stopped.set()

    world.clock.move_to(10.0)
    asyncio.run(stop())  # its threads have ended then
    assert taking.is_set()
    assert made._election.mandate is None
    assert world.lease.left_s() <= 0.0
    assert world.lease.take().generation == 2


def test_a_node_that_leads_in_vain_leaves_the_lease_to_the_other(world):
    """The log is reached from there and not from here: it takes no lease while that is so."""
    world.run(1)
    assert world.control.leads
    sign = NodeSign(
        name="there", address="h:1", version="1", started_ms=0, role="follower", reaches_log=True
    )
    world.node._keeper.rows = (NodeRow(sign, 0.0),)
    world.run(int((VAIN_S + 20.0) / _looking.LOOK_S))
    assert not world.control.leads
    assert [event for event, _ in world.told].count("leads-in-vain") == 1
    assert world.node._election.mandate is None
    world.node._keeper.rows = ()
    world.run(int(5.0 / _looking.LOOK_S))
    assert world.control.leads
