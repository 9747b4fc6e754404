"""The watchdog: kills processes that hang, so that their supervisor restarts them.

Called by ``probe``, in its thread. Each process writes a heartbeat to a status page from its event
loop; one without a change for ``HUNG_S`` is killed. Waiting for the disk is excused: the
replacement would wait as well. So is the time before the first heartbeat, as long as the process
uses the processor. The driver waits for its children (the JVM), so these count too.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import structlog

from distributary.datadir import DataDir, MappedStatusPage, Phase, StatusField
from distributary.server.processes.supervision.children import Child

HUNG_S = 10.0
"""A process without a heartbeat for this long hangs: the slowest sends four a second."""
START_SILENT_S = 120.0
"""The same for a process that has sent no heartbeat yet and uses no processor: it may wait for the
network, as Spark does for downloads."""
LOOK_S_MAX = 1.0
"""Most that one check adds to a silence: where this process itself was held up (a suspended or
overloaded machine), so were the others."""
WAIT_LOOK_S = 1.0
"""Silence after which each check excludes time in which the process waits for the disk. It may work
a little between two such waits, as while swapped memory is read."""
_STOPPED = frozenset("Tt")
_DISK = "D"


@dataclass(frozen=True, slots=True)
class WatchedProcess:
    """A process that the watchdog checks.

    Attributes:
        role: Name of the process, for people.
        pid: Returns its process id; None or 0 while it does not run.
        sign: Returns its heartbeat: a number that changes while it works.
        settled: Whether its start is over, so that heartbeats are due.
        excused: Whether its status page shows a wait for something else.
        replace: Ends the process with this id.
        family: Whether its child processes (the JVM) count as well.
    """

    role: str
    pid: Callable[[], int | None]
    sign: Callable[[], int]
    replace: Callable[[int], None]
    settled: Callable[[], bool] = lambda: True
    excused: Callable[[], bool] = lambda: False
    family: bool = False


class Look(NamedTuple):
    """State of a process in the operating system.

    Attributes:
        states: State letter of each thread, as in ``/proc/PID/stat``; empty: the process ended.
        ticks: Processor time used, in clock ticks.
    """

    states: frozenset[str]
    ticks: int


class Processes(Protocol):
    """The system's processes."""

    def look(self, pid: int) -> Look:
        """Returns the state of one process."""

    def family(self, pid: int) -> list[int]:
        """Returns every process of the session that *pid* leads, itself included."""


_PROC: Final = Path("/proc")


class ProcFolder:
    """``Processes`` from ``/proc``; without it no process is found, and none replaced."""

    def look(self, pid: int) -> Look:
        """Returns the state of one process, with all of its threads."""
        states: set[str] = set()
        ticks = 0
        with contextlib.suppress(OSError):  # it ended just now
            for thread in (_PROC / str(pid) / "task").iterdir():
                fields = self._fields(f"{pid}/task/{thread.name}")
                if fields:
                    states.add(fields[0])
            fields = self._fields(str(pid))
            ticks = int(fields[11]) + int(fields[12]) if fields else 0
        return Look(frozenset(states), ticks)

    def family(self, pid: int) -> list[int]:
        """Returns every process of the session that *pid* leads, itself included."""
        found = [pid]
        with contextlib.suppress(OSError):
            for each in _PROC.iterdir():
                if each.name.isdecimal() and int(each.name) != pid:
                    fields = self._fields(each.name)
                    if fields and int(fields[3]) == pid:
                        found.append(int(each.name))
        return found

    def _fields(self, name: str) -> list[str]:
        """Fields of ``stat`` from the state on: the process name before it may hold anything."""
        try:
            text = (_PROC / name / "stat").read_text(errors="replace")
        except OSError:
            return []
        return text.rpartition(")")[2].split()


@dataclass(slots=True)
class _Silence:
    """How long a process has sent no heartbeat."""

    pid: int = 0
    sign: int = 0
    began: bool = False
    settled: bool = False
    silent_s: float = 0.0
    waited_s: float = 0.0
    ticks: int = -1
    excused_said: bool = False


class Watchdog:
    """Checks processes; call ``look`` a few times a second.

    Args:
        watched: The processes.
        processes: Reads their state.
        monotonic_s: The monotonic clock.
    """

    def __init__(
        self,
        watched: Iterable[WatchedProcess],
        processes: Processes,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._watched = [(each, _Silence()) for each in watched]
        self._processes = processes
        self._now_s = monotonic_s
        self._looked_s = monotonic_s()
        self._log = structlog.get_logger()

    def look(self) -> None:
        """Check all processes; replace those that hang."""
        now_s = self._now_s()
        passed_s = min(now_s - self._looked_s, LOOK_S_MAX)
        self._looked_s = now_s
        for watched, silence in self._watched:
            self._look_at(watched, silence, passed_s)

    def _look_at(self, watched: WatchedProcess, silence: _Silence, passed_s: float) -> None:
        pid, sign = watched.pid() or 0, watched.sign()
        if pid != silence.pid:
            silence.pid, silence.sign = pid, sign
            silence.began = silence.settled = False
            silence.silent_s, silence.waited_s, silence.ticks = 0.0, 0.0, -1
            return
        if not pid:
            return
        settled = watched.settled()
        if sign != silence.sign or settled != silence.settled:
            silence.began = silence.began or sign != silence.sign
            silence.sign, silence.settled = sign, settled
            silence.silent_s, silence.waited_s, silence.excused_said = 0.0, 0.0, False
            return
        silence.silent_s += passed_s
        if silence.silent_s > WAIT_LOOK_S and self._waits(watched, silence):
            silence.waited_s += passed_s
            return
        lasts_s = silence.silent_s - silence.waited_s
        if lasts_s >= HUNG_S and self._hangs(watched, silence):
            self._log.error(
                "process-hangs", process=watched.role, pid=pid, silent_s=round(lasts_s, 1)
            )
            silence.silent_s = silence.waited_s = 0.0
            watched.replace(pid)

    def _waits(self, watched: WatchedProcess, silence: _Silence) -> bool:
        """Whether a process that has worked waits for the disk, or is excused."""
        if not (silence.began and silence.settled):
            return False  # a starting process has more time, and ``_hangs`` checks it
        looks = self._looks(watched, silence)
        if not looks[0].states or looks[0].states & _STOPPED:
            return False  # it ended, or is stopped: no disk wakes it
        return self._excused(watched, silence, looks)

    def _excused(self, watched: WatchedProcess, silence: _Silence, looks: list[Look]) -> bool:
        if not (watched.excused() or any(_DISK in look.states for look in looks)):
            return False
        if silence.silent_s >= HUNG_S and not silence.excused_said:
            silence.excused_said = True
            self._log.warning(
                "process-waits", process=watched.role, pid=silence.pid, reason="a slow disk?"
            )
        return True

    def _looks(self, watched: WatchedProcess, silence: _Silence) -> list[Look]:
        """State of the process, and of its family where that counts."""
        pids = self._processes.family(silence.pid) if watched.family else [silence.pid]
        return [self._processes.look(pid) for pid in pids]

    def _hangs(self, watched: WatchedProcess, silence: _Silence) -> bool:
        """Whether a process without a heartbeat hangs, rather than waits or works."""
        starting = not (silence.began and silence.settled)
        looks = self._looks(watched, silence)
        if not looks[0].states:
            return False  # it has ended: its supervisor handles that
        if any(look.states & _STOPPED for look in (looks if starting else looks[:1])):
            return True
        if self._excused(watched, silence, looks):
            return False
        if not starting:
            return True
        ticks = sum(look.ticks for look in looks)
        if ticks != silence.ticks:
            silence.ticks, silence.silent_s = ticks, 0.0
            return False
        return silence.silent_s >= START_SILENT_S


def watched_processes(
    paths: DataDir,
    partitions: int,
    receivers: Sequence[Child],
    pipeline: Child | None,
    sources: Callable[[], Child | None],
) -> list[WatchedProcess]:
    """Returns every process of the server but this one.

    Args:
        paths: Paths of the data directory.
        partitions: Number of partitions of the log.
        receivers: The ingest processes, by number.
        pipeline: The driver; leads the session of all processes that Spark starts. None: it is no
            process of this server.
        sources: Returns the sources process; None: there is none now.
    """
    found = [*watched_receivers(paths, receivers)]
    found.append(watched_sources(paths, sources))
    if pipeline is None:
        return found
    found.append(watched_driver(paths, lambda: pipeline))
    for number in range(partitions):
        status_page = MappedStatusPage(paths.status_page(number))
        found.append(_owner(number, status_page, pipeline))
    return found


def watched_receivers(paths: DataDir, receivers: Sequence[Child]) -> list[WatchedProcess]:
    """Returns the ingest processes; see ``watched_processes``."""
    return [_ingest(paths, number, child) for number, child in enumerate(receivers)]


def _ingest(paths: DataDir, number: int, child: Child) -> WatchedProcess:
    status_page = MappedStatusPage(paths.ingest_page(number))
    return WatchedProcess(
        role=child.role,
        pid=lambda: child.pid,
        sign=lambda: status_page[StatusField.HEARTBEAT_MS],
        excused=lambda: bool(status_page[StatusField.COMMITTING]),
        replace=child.kill,
    )


def _pid(child: Callable[[], Child | None]) -> int | None:
    now = child()
    return None if now is None else now.pid


def _kill(child: Callable[[], Child | None], pid: int) -> None:
    now = child()
    if now is not None:
        now.kill(pid)


def watched_driver(paths: DataDir, child: Callable[[], Child | None]) -> WatchedProcess:
    """Returns the driver of the pipeline; see ``watched_processes``."""
    status_page = MappedStatusPage(paths.driver_page)
    return WatchedProcess(
        role="pipeline",
        pid=lambda: _pid(child),
        sign=lambda: status_page[StatusField.HEARTBEAT_MS],
        settled=lambda: status_page[StatusField.PHASE] == Phase.RUNNING,
        replace=lambda pid: _kill(child, pid),
        family=True,
    )


def watched_sources(paths: DataDir, child: Callable[[], Child | None]) -> WatchedProcess:
    """Returns the sources process; see ``watched_processes``."""
    status_page = MappedStatusPage(paths.sources_page)
    return WatchedProcess(
        role="sources",
        pid=lambda: _pid(child),
        sign=lambda: status_page[StatusField.HEARTBEAT_MS],
        replace=lambda pid: _kill(child, pid),
    )


def _owner(number: int, status_page: MappedStatusPage, pipeline: Child) -> WatchedProcess:
    return WatchedProcess(
        role=f"owner of partition {number}",
        pid=lambda: (
            status_page[StatusField.PID] if status_page[StatusField.PHASE] != Phase.ABSENT else None
        ),
        sign=lambda: status_page[StatusField.HEARTBEAT_MS],
        settled=lambda: status_page[StatusField.PHASE] in {Phase.RUNNING, Phase.DRAINING},
        replace=lambda pid: _kill_worker(pid, pipeline),
    )


def _kill_worker(pid: int, pipeline: Child) -> None:
    """Kill a Spark worker, if *pid* is one of this server: a status page may be out of date."""
    with contextlib.suppress(ProcessLookupError):
        if pipeline.pid is not None and os.getsid(pid) == pipeline.pid:
            os.kill(pid, signal.SIGKILL)
