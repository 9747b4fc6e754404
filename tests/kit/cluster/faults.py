"""What may happen to a cluster: a member killed, stopped, stopped for a while, or cut off.

Each fault is a context manager: its body runs while the fault lasts, and at its end everything is
as it was. Callers: tests of the cluster, the soak run. Hides: which process does what.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import psutil

from kit.cluster.cluster import DAEMON, Cluster, Node
from kit.cutting_proxy import CuttingProxy, Fate, Way
from kit.peers import members
from kit.running_server import Role, ServerError, wait_until

__all__ = ["ALONE", "CUTS", "FORGOTTEN", "KILLS", "LEFT", "Fault", "cut", "stopped_owners"]

LED_S_MAX: Final = 120.0
"""Another node leads by then: one that is cut off from Kafka says so after 6 s, and leaves the lead
after 15 s more."""

MOVED_S_MAX: Final = 240.0
"""Others own by then what an owner cannot read: its tail gives up after 45 s, and tasks look for
partitions that fail at intervals that grow."""

Doing: TypeAlias = Callable[[Cluster], contextlib.AbstractContextManager[None]]


class Fault(NamedTuple):
    """One way to fail.

    Attributes:
        name: For people.
        doing: Does it to a cluster.
        lasts_s: How long it lasts; None: until deliveries go on in spite of it.
        touches_s: Events that arrive so long after it may be those in flight.
        delivering_s: Deliveries go on so soon, by the requirements; None: nothing is required.
    """

    name: str
    doing: Doing
    lasts_s: float | None = None
    touches_s: float = 1.5
    delivering_s: float | None = None


# -- kills ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _executor(cluster: Cluster) -> Iterator[None]:
    """The JVM of an executor; Spark starts another one."""
    cluster.busy_executor().kill()
    yield


@contextlib.contextmanager
def _worker(cluster: Cluster) -> Iterator[None]:
    """A worker with its executor, as when a machine is gone."""
    worker = cluster.busy_worker()
    for pid, name in tuple(members()):
        if name == worker.member:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    worker.kill()
    try:
        yield
    finally:
        worker.start()


@contextlib.contextmanager
def _master(cluster: Cluster) -> Iterator[None]:
    cluster.master.kill()
    try:
        yield
    finally:
        cluster.master.start()


@contextlib.contextmanager
def _forgetful_master(cluster: Cluster) -> Iterator[None]:
    """A master that comes back knowing nothing, as one without ``spark.deploy.recoveryMode`` does.

    It has executors of applications ended that it does not know, and tells no driver.
    """
    cluster.master.kill()
    cluster.master.forget()
    try:
        yield
    finally:
        cluster.master.start()
        cluster.wait_anew()


@contextlib.contextmanager
def _driver(cluster: Cluster) -> Iterator[None]:
    """The JVM of the driver, which its node starts again."""
    cluster.leader().kill(Role.JVM)
    yield


@contextlib.contextmanager
def _down(node: Node) -> Iterator[None]:
    """A node with all its processes, as when a machine is gone."""
    node.held = True
    node.kill_all()
    try:
        yield
    finally:
        node.held = False


@contextlib.contextmanager
def _leaving_node(cluster: Cluster) -> Iterator[None]:
    """The node that leads is asked to stop, as in a rolling restart."""
    node = cluster.leader()
    node.held = True
    try:
        node.leave()
        if (leader := cluster.holder()) in {"", node.name}:
            raise ServerError(f"{node.name} has ended, and {leader or 'nobody'} leads")
        yield
    finally:
        node.held = False


def _leading_node(cluster: Cluster) -> contextlib.AbstractContextManager[None]:
    return _down(cluster.leader())


def _other_node(cluster: Cluster) -> contextlib.AbstractContextManager[None]:
    leader = cluster.leader()
    return _down(next(node for node in cluster.nodes if node is not leader))


@contextlib.contextmanager
def _broker(cluster: Cluster) -> Iterator[None]:
    """A Kafka node that leads partitions, and not the controllers."""
    controller = cluster.kafka.controller()
    node = next(each for each in cluster.kafka.nodes.values() if each is not controller)
    node.kill()
    try:
        yield
    finally:
        node.start()
        cluster.kafka.wait_whole()


@contextlib.contextmanager
def _controller(cluster: Cluster) -> Iterator[None]:
    node = cluster.kafka.controller()
    node.kill()
    try:
        yield
    finally:
        node.start()
        cluster.kafka.wait_whole()


@contextlib.contextmanager
def _postgres(cluster: Cluster) -> Iterator[None]:
    """PostgreSQL, which is started again at once and recovers."""
    cluster.postgres.kill()
    cluster.postgres.start()
    yield


FORGOTTEN: Final = Fault("lose: state of Spark master", _forgetful_master)
"""The driver asks for executors anew after half a minute: longer than the gate has for a fault."""

LEFT: Final = Fault("stop: leading node", _leaving_node, delivering_s=18.0)
"""No kill: another node leads before this one has ended, in good order and with all it started."""

KILLS: Final = (
    Fault("kill: executor", _executor, delivering_s=5.0),
    Fault("kill: Spark worker", _worker, delivering_s=5.0),
    Fault("kill: Spark master", _master),
    Fault("kill: driver", _driver, delivering_s=18.0),
    Fault("kill: leading node", _leading_node, delivering_s=18.0),
    Fault("kill: other node", _other_node),
    Fault("kill: broker", _broker, delivering_s=6.0),
    Fault("kill: controller", _controller, delivering_s=6.0),
    Fault("kill: PostgreSQL", _postgres, delivering_s=5.0),
)


# -- a former owner ---------------------------------------------------------------------------


def owners(worker: str) -> list[int]:
    """Process ids of the owners that *worker* runs."""
    found = []
    for pid, name in members():
        with contextlib.suppress(psutil.Error):
            words = psutil.Process(pid).cmdline()
            if name == worker and DAEMON in words:
                found.append(pid)
    return found


@contextlib.contextmanager
def stopped_owners(worker: str) -> Iterator[list[int]]:
    """The owners of *worker* are stopped (SIGSTOP) during the body, and woken after it."""
    pids = owners(worker)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield pids
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


# -- cuts -------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two members with wires between them.

    Attributes:
        name: For people.
        wires: The wires.
        who: Beginning of the names of those who dial; ``leader`` and ``executor`` stand for whoever
            is one.
    """

    name: str
    wires: Callable[[Cluster], Sequence[CuttingProxy]]
    who: str


PAIRS: Final = (
    Pair("node and Kafka", lambda all_: tuple(all_.broker_wires.values()), "node-2"),
    Pair("node and PostgreSQL", lambda all_: (all_.store_wire,), "node-2"),
    Pair("leader and Kafka", lambda all_: tuple(all_.broker_wires.values()), "leader"),
    Pair("leader and PostgreSQL", lambda all_: (all_.store_wire,), "leader"),
    Pair("executor and Kafka", lambda all_: tuple(all_.broker_wires.values()), "executor"),
    Pair("executor and PostgreSQL", lambda all_: (all_.store_wire,), "executor"),
    Pair("driver and executor", lambda all_: all_.driver_wires, "executor"),
    Pair("node and node", lambda all_: all_.node_wires, "node-"),
)


def cut(pair: Pair, fate: Fate, way: Way = Way.BOTH) -> Doing:
    """The wires of a pair are cut during the body."""

    @contextlib.contextmanager
    def doing(cluster: Cluster) -> Iterator[None]:
        who = pair.who
        if who == "leader":
            who = cluster.leader().name
        elif who == "executor":
            who = cluster.busy_worker().member
        wires = pair.wires(cluster)
        for wire in wires:
            wire.cut(fate, way, who=lambda name: name.startswith(who))
        try:
            yield
        finally:
            for wire in wires:
                wire.mend()

    return doing


def _cuts() -> Iterator[Fault]:
    for pair in PAIRS:
        yield Fault(f"cut: {pair.name}", cut(pair, Fate.REFUSE), 8.0)
        yield Fault(f"half-open: {pair.name}", cut(pair, Fate.SWALLOW, Way.BACK), 12.0)
        yield Fault(f"late: {pair.name}", cut(pair, Fate.HOLD), 12.0)


CUTS: Final = tuple(_cuts())


# -- cuts from Kafka alone, until others do the work ------------------------------------------


@contextlib.contextmanager
def _without_kafka(cluster: Cluster, who: str) -> Iterator[None]:
    """The wires of *who* to the brokers are cut, and those to PostgreSQL are not."""
    wires = tuple(cluster.broker_wires.values())
    for wire in wires:
        wire.cut(Fate.REFUSE, who=lambda name: name.startswith(who))
    try:
        yield
    finally:
        for wire in wires:
            wire.mend()


@contextlib.contextmanager
def _vain_leader(cluster: Cluster) -> Iterator[None]:
    """The node that leads cannot reach Kafka, though its lease is renewed: another one leads."""
    before = cluster.leader().name
    with _without_kafka(cluster, before):
        wait_until(lambda: cluster.holder() not in {"", before}, LED_S_MAX, "another node leads")
        yield


@contextlib.contextmanager
def _deaf_owners(cluster: Cluster) -> Iterator[None]:
    """The owners of one worker cannot reach Kafka, though their leases are renewed: others own."""
    worker = cluster.busy_worker().member
    before = set(owners(worker))
    with _without_kafka(cluster, worker):
        wait_until(lambda: not before & cluster.all_owners(), MOVED_S_MAX, "others own")
        yield


ALONE: Final = (
    Fault("cut off from Kafka alone: leader", _vain_leader),
    Fault("cut off from Kafka alone: owners", _deaf_owners),
)
"""These last until others have taken over, so most of their time is that of the limits above."""
