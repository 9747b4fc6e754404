"""An owner whose JVM was killed goes on delivering until its successor is ready, and no longer."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from distributary.core.event import Event
from kit.running_server import Role, RunningServer, wait_until
from kit.traffic import Behaviour, Traffic

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

WAIT_S = 90.0
EVENTS = 40


def _event(number: int) -> Event:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": str(number),
        "source": "/outliving",
        "type": "t",
    }
    return Event(attributes, b"%d" % number)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[tuple[RunningServer, Traffic]]:
    """A server that has delivered."""
    with (
        Traffic(tmp_path, {"sink": Behaviour()}) as traffic,
        RunningServer(tmp_path / "data") as server,
    ):
        server.subscribe(traffic.sinks["sink"].url)
        _deliver(server, traffic)
        yield server, traffic
        server.kill_all()


def _deliver(server: RunningServer, traffic: Traffic) -> None:
    traffic.publish_now(server.url, _event, EVENTS)
    taken = traffic.sinks["sink"].taken
    wait_until(lambda: len(taken) == traffic.begun, WAIT_S, "all events arrive")


def _kill_jvm(server: RunningServer, role: Role) -> list[psutil.Process]:
    """Kill *role*, and with it the JVM; returns the owners, which have no task any more."""
    owners = [psutil.Process(pid) for pid in server.owner_pids()]
    (jvm,) = server.processes(Role.JVM)
    server.kill(role)
    wait_until(lambda: not _runs(jvm), WAIT_S, "the JVM has ended")
    return owners


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _ended(processes: list[psutil.Process]) -> bool:
    return not any(map(_runs, processes))


@pytest.mark.parametrize("role", [Role.JVM, Role.DRIVER], ids=str)
def test_deliveries_go_on_while_another_jvm_starts(
    runs: tuple[RunningServer, Traffic], role: Role
) -> None:
    """The same processes deliver; then their successors do, and each event came once."""
    server, traffic = runs
    owners = _kill_jvm(server, role)
    _deliver(server, traffic)
    assert all(map(_runs, owners))
    wait_until(lambda: _ended(owners), WAIT_S, "the successors have taken over")
    server.wait_ready()
    assert set(server.owner_pids()).isdisjoint(process.pid for process in owners)
    _deliver(server, traffic)
    assert traffic.sinks["sink"].copies == []


def test_killing_the_server_leaves_no_owner_behind(
    runs: tuple[RunningServer, Traffic],
) -> None:
    """Whoever kills it wants nothing sent any more."""
    server, _ = runs
    owners = _kill_jvm(server, Role.JVM)
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: _ended(owners), WAIT_S, "the owners have ended")


def test_a_stop_leaves_no_owner_behind(runs: tuple[RunningServer, Traffic]) -> None:
    """SIGTERM ends those too that no driver knows."""
    server, _ = runs
    owners = _kill_jvm(server, Role.JVM)
    assert server.stop() == 0
    assert _ended(owners)
