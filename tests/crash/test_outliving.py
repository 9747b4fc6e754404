"""A session that has no task goes on delivering: its JVM was killed, or an epoch has ended."""

import contextlib
import os
import signal
from collections.abc import Iterator
from functools import partial

import psutil
import pytest

from distributary.core.event import Event
from distributary.datadir import MappedStatusPage, StatusField
from kit.running_server import Role, RunningServer, ServerError, wait_until
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


class Runs:
    """A server with its traffic, which one test after another has until somebody ends it."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._stack = contextlib.ExitStack()
        self._now: tuple[RunningServer, Traffic] | None = None

    def now(self) -> tuple[RunningServer, Traffic]:
        """The one of the test before; a new one where there is none, or it does not answer."""
        try:
            if self._now is not None:
                self._now[0].wait_ready()
        except ServerError:
            self.end()
        if self._now is None:
            folder = self._factory.mktemp("outliving")
            traffic = self._stack.enter_context(Traffic(folder, {"sink": Behaviour()}))
            server = self._stack.enter_context(RunningServer(folder / "data"))
            server.subscribe(traffic.sinks["sink"].url)
            self._now = server, traffic
        return self._now

    def end(self) -> None:
        """End it, if it has not ended."""
        self._now = None
        self._stack.close()


@pytest.fixture(scope="module")
def all_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """One start for all tests that leave the server ready."""
    made = Runs(tmp_path_factory)
    yield made
    made.end()


@pytest.fixture
def runs(all_runs: Runs) -> tuple[RunningServer, Traffic]:
    """A server that has delivered, and is ready again at the end of the test."""
    _deliver(*all_runs.now())
    return all_runs.now()


@pytest.fixture
def last_run(all_runs: Runs) -> Iterator[RunningServer]:
    """A server that has delivered, and that the test ends."""
    server, traffic = all_runs.now()
    _deliver(server, traffic)
    yield server
    all_runs.end()


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


# -- between two tasks --------------------------------------------------------------------------


@contextlib.contextmanager
def _between_tasks(server: RunningServer) -> Iterator[psutil.Process]:
    """The tasks of an epoch have ended, and the JVM, which stands still, has begun no others."""
    (jvm,) = server.processes(Role.JVM)
    jvm.suspend()
    try:
        for number in range(server.partition_count()):
            page = MappedStatusPage(server.paths.status_page(number))
            page[StatusField.END_EPOCH] = page[StatusField.EPOCH]
            page.close()
        for _ in range(2):  # tasks look more often
            seen = _heartbeats(server)
            wait_until(partial(_all_later, server, seen), WAIT_S, "heartbeats")
        yield jvm
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            jvm.resume()


def _heartbeats(server: RunningServer) -> list[int]:
    return [
        server.look(number, StatusField.HEARTBEAT_MS) for number in range(server.partition_count())
    ]


def _all_later(server: RunningServer, seen: list[int]) -> bool:
    return all(now > before for now, before in zip(_heartbeats(server), seen, strict=True))


def _next_epoch(server: RunningServer, epochs: list[int]) -> list[int]:
    """Wait until all partitions are served by tasks of the epoch after *epochs*."""
    later = [epoch + 1 for epoch in epochs]
    wait_until(lambda: _epochs(server) == later, WAIT_S, "the next epoch has begun")
    return later


def _epochs(server: RunningServer) -> list[int]:
    return [server.look(number, StatusField.EPOCH) for number in range(server.partition_count())]


def _generations(server: RunningServer) -> list[bytes]:
    """Who has had the locks: another session has another generation, in the same process too."""
    return [
        server.paths.owner_lock(number).read_bytes() for number in range(server.partition_count())
    ]


def test_a_rollover_ends_no_session(runs: tuple[RunningServer, Traffic]) -> None:
    """Events are delivered while no partition has a task; the next epoch has the same sessions."""
    server, traffic = runs
    owners, epochs = _generations(server), _epochs(server)
    for _ in range(3):
        with _between_tasks(server):
            _deliver(server, traffic)
            assert _epochs(server) == epochs
        epochs = _next_epoch(server, epochs)
    _deliver(server, traffic)
    assert _generations(server) == owners
    assert traffic.sinks["sink"].copies == []


def test_a_jvm_that_is_killed_between_two_tasks_stops_no_deliveries(
    runs: tuple[RunningServer, Traffic],
) -> None:
    """As one that is killed while they run."""
    server, traffic = runs
    owners = [psutil.Process(pid) for pid in server.owner_pids()]
    with _between_tasks(server) as jvm:
        jvm.kill()
        wait_until(lambda: not _runs(jvm), WAIT_S, "the JVM has ended")
    _deliver(server, traffic)
    assert all(map(_runs, owners))
    wait_until(lambda: _ended(owners), WAIT_S, "the successors have taken over")
    server.wait_ready()
    _deliver(server, traffic)
    assert traffic.sinks["sink"].copies == []


def test_a_worker_that_is_killed_between_two_tasks_costs_its_partition_alone(
    runs: tuple[RunningServer, Traffic],
) -> None:
    """Whichever task another worker gets, it serves the partition that has no owner."""
    server, traffic = runs
    first, *others = server.owner_pids()
    epochs = _epochs(server)
    with _between_tasks(server):
        os.kill(first, signal.SIGKILL)
    _next_epoch(server, epochs)
    _deliver(server, traffic)
    now = server.owner_pids()
    assert now[0] != first
    assert now[1:] == others
    assert traffic.sinks["sink"].copies == []


# -- ends of the server, after which the next test starts another --------------------------------


def test_killing_the_server_leaves_no_owner_behind(last_run: RunningServer) -> None:
    """Whoever kills it wants nothing sent any more."""
    server = last_run
    owners = _kill_jvm(server, Role.JVM)
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: _ended(owners), WAIT_S, "the owners have ended")


def test_a_stop_leaves_no_owner_behind(last_run: RunningServer) -> None:
    """SIGTERM ends those too that no driver knows."""
    server = last_run
    owners = _kill_jvm(server, Role.JVM)
    assert server.stop() == 0
    assert _ended(owners)


def test_killing_the_server_between_two_tasks_leaves_no_owner_behind(
    last_run: RunningServer,
) -> None:
    """Nor does the JVM, which stands still, keep any."""
    server = last_run
    owners = [psutil.Process(pid) for pid in server.owner_pids()]
    with _between_tasks(server) as jvm:
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: _ended(owners), WAIT_S, "the owners have ended")
    wait_until(lambda: not _runs(jvm), WAIT_S, "the JVM has ended")
