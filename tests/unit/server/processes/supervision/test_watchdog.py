"""Which process hangs, and which one only waits or works."""

from collections.abc import Iterator

import pytest

from distributary.server.processes.supervision.watchdog import (
    HUNG_S,
    START_SILENT_S,
    Look,
    Watchdog,
    WatchedProcess,
)

LOOK_S = 0.25


class System:
    """Processes as the test says; one of them, ``7``, is watched."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pid = 7
        self.sign = 1
        self.settled = True
        self.excused = False
        self.states = "S"
        self.ticks = 0
        self.child_states = "S"
        self.killed: list[int] = []

    def look(self, pid: int) -> Look:
        """At the process, or at what it started."""
        states = self.states if pid == self.pid else self.child_states
        return Look(frozenset(states), self.ticks)

    def family(self, pid: int) -> list[int]:
        """Itself and one more."""
        return [pid, pid + 1]

    def watchdog(self, *, family: bool = False) -> Watchdog:
        """Of the one process."""
        watched = WatchedProcess(
            role="it",
            pid=lambda: self.pid,
            sign=lambda: self.sign,
            settled=lambda: self.settled,
            excused=lambda: self.excused,
            replace=self.killed.append,
            family=family,
        )
        return Watchdog([watched], self, lambda: self.now_s)

    def pass_s(self, watchdog: Watchdog, seconds: float, *, alive: bool = False) -> None:
        """Let time pass, with a look each quarter of a second."""
        for _ in range(int(seconds / LOOK_S)):
            self.now_s += LOOK_S
            self.sign += alive
            watchdog.look()


@pytest.fixture
def system() -> Iterator[System]:
    """A process that has been seen alive."""
    return System()


def _seen_alive(system: System, *, family: bool = False) -> Watchdog:
    watchdog = system.watchdog(family=family)
    watchdog.look()
    system.pass_s(watchdog, 1, alive=True)
    return watchdog


def test_a_process_that_gives_signs_is_left_alone(system):
    """However long it lives."""
    watchdog = _seen_alive(system)
    system.pass_s(watchdog, 100, alive=True)
    assert system.killed == []


@pytest.mark.parametrize("states", ["T", "S", "R"])
def test_a_silent_process_is_replaced_after_ten_seconds(system, states):
    """Stopped, waiting for itself, or going round in circles."""
    watchdog = _seen_alive(system)
    system.states = states
    system.pass_s(watchdog, HUNG_S - 1)
    assert system.killed == []
    system.pass_s(watchdog, 2)
    assert system.killed == [7]


@pytest.mark.parametrize("excused", [True, False])
def test_a_slow_disk_is_no_hang(system, excused):
    """Neither where the system says so, nor where the process says that it commits."""
    watchdog = _seen_alive(system)
    system.states, system.excused = ("S", True) if excused else ("SD", False)
    system.pass_s(watchdog, 20 * HUNG_S)
    assert system.killed == []


def test_who_works_a_little_between_waits_for_the_disk_is_left_alone(system):
    """Memory that was swapped out comes back in pieces: every other look finds it at work."""
    watchdog = _seen_alive(system)
    for number in range(400):
        system.states = "D"
        system.pass_s(watchdog, 3 * LOOK_S)
        system.states = "R"
        system.pass_s(watchdog, LOOK_S)
        system.sign += number % 30 == 29
    assert system.killed == []
    system.pass_s(watchdog, HUNG_S)
    assert system.killed == [7]


def test_a_driver_waits_with_its_jvm_for_the_disk(system):
    """It waits for the JVM's answer, and says nothing meanwhile."""
    watchdog = _seen_alive(system, family=True)
    system.child_states = "SD"
    system.pass_s(watchdog, 5 * HUNG_S)
    assert system.killed == []
    system.child_states = "S"
    system.pass_s(watchdog, HUNG_S + 1)
    assert system.killed == [7]


def test_a_process_that_was_stopped_while_it_committed_is_replaced(system):
    """No disk will wake it."""
    watchdog = _seen_alive(system)
    system.states, system.excused = "T", True
    system.pass_s(watchdog, HUNG_S + 1)
    assert system.killed == [7]


def test_a_process_that_starts_has_the_time_it_works(system):
    """Recovery of a log, and the JVM's start, take what they take."""
    watchdog = system.watchdog()
    for _ in range(40):
        system.ticks += 1
        system.pass_s(watchdog, HUNG_S)
    assert system.killed == []
    system.pass_s(watchdog, START_SILENT_S + 2 * HUNG_S)
    assert system.killed == [7]


def test_a_process_that_starts_and_was_stopped_is_replaced(system):
    """The driver also where it is the JVM that was."""
    watchdog = system.watchdog(family=True)
    system.settled, system.child_states = False, "T"
    system.pass_s(watchdog, HUNG_S + 1)
    assert system.killed == [7]


def test_a_process_that_begins_anew_is_starting_again(system):
    """A driver whose query ended says nothing while it starts another."""
    watchdog = _seen_alive(system)
    system.settled = False
    system.pass_s(watchdog, 2 * HUNG_S)
    assert system.killed == []


def test_another_process_has_its_own_silence(system):
    """The one that was started in its place begins from nothing."""
    watchdog = _seen_alive(system)
    system.pass_s(watchdog, HUNG_S - 1)
    system.pid = 8
    system.pass_s(watchdog, HUNG_S - 1)
    assert system.killed == []


def test_time_in_which_nobody_looked_is_nobodys_silence(system):
    """A machine that was suspended held up everybody."""
    watchdog = _seen_alive(system)
    for _ in range(3):
        system.now_s += 1000.0
        watchdog.look()
    assert system.killed == []


def test_a_process_that_ended_is_not_killed(system):
    """Its number may be another's by then."""
    watchdog = _seen_alive(system)
    system.states = ""
    system.pass_s(watchdog, 2 * HUNG_S)
    assert system.killed == []
