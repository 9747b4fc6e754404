"""Whom a session depends on: how long it may go on when its JVM or its server has ended."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from distributary.datadir import PARENT
from distributary.partitions.guardians import (
    END_S,
    EXECUTOR_OUTLIVE_S,
    OUTLIVE_S,
    Guardians,
    Process,
)
from distributary.testing.virtual import VirtualClock

ME = 100


class World:
    """A session whose server and JVM end when the test says so."""

    def __init__(self, *, known=True):
        self.clock = VirtualClock()
        self.parent = ME
        self.server, self.jvm = Known(), Known()
        self.guardians = Guardians(
            self.server if known else None,
            self.jvm if known else None,
            lambda: self.parent,
            self.clock.monotonic_s,
        )

    def pass_s(self, seconds):
        self.clock.move_to(self.clock.monotonic_s() + seconds)


class Known:
    """A process."""

    ended = False

    def close(self):
        """There is nothing to close."""


def test_outlives_its_jvm_for_a_while():
    """Deliveries go on while another JVM starts; without a successor they end."""
    world = World()
    assert world.guardians.alive()
    assert not world.guardians.orphaned
    world.parent = 1  # the daemon that forks the workers ends with the JVM
    world.jvm.ended = True
    assert world.guardians.orphaned
    assert world.guardians.patient
    world.pass_s(OUTLIVE_S - 0.1)
    assert world.guardians.patient
    world.pass_s(0.1)
    assert not world.guardians.patient
    assert world.guardians.alive()  # it ends in good order, if it can
    world.pass_s(END_S)
    assert not world.guardians.alive()


def test_outlives_its_executor_for_longer():
    """No server is on the machine of an executor, and another node may have to start Spark."""
    clock, jvm, parents = VirtualClock(), Known(), [ME]
    guardians = Guardians(
        None, jvm, lambda: parents[0], clock.monotonic_s, outlive_s=EXECUTOR_OUTLIVE_S
    )
    parents[0] = 1  # the daemon has ended, as it does first
    assert guardians.alive()
    assert guardians.patient
    assert not guardians.orphaned
    jvm.ended = True
    assert guardians.orphaned
    assert guardians.patient
    clock.move_to(clock.monotonic_s() + EXECUTOR_OUTLIVE_S)
    assert not guardians.patient
    assert guardians.alive()
    clock.move_to(clock.monotonic_s() + END_S)
    assert not guardians.alive()


def test_does_not_depend_on_the_daemon_that_forked_it():
    """Spark reads its rows as before, and starts another daemon for the next worker."""
    world = World()
    world.parent = 1
    assert world.guardians.alive()
    assert not world.guardians.orphaned


@pytest.mark.parametrize("orphaned", [False, True])
def test_ends_with_the_server_at_once(orphaned):
    """Whoever kills the server wants nothing sent any more."""
    world = World()
    world.jvm.ended = orphaned
    world.server.ended = True
    assert not world.guardians.alive()
    assert not world.guardians.patient


def test_depends_on_its_parent_where_nothing_else_is_known():
    """On a worker of another machine the server's process id says nothing."""
    world = World(known=False)
    assert world.guardians.alive()
    world.parent = 1
    assert not world.guardians.alive()
    assert not world.guardians.orphaned


@pytest.mark.parametrize("environ", [{}, {PARENT: ""}, {PARENT: "4194305"}], ids=str)
def test_a_worker_without_a_server_depends_on_its_parent(environ):
    """A job of somebody's own cluster."""
    guardians = Guardians.of_worker(environ)
    assert guardians.alive()
    assert not guardians.orphaned
    guardians.close()


@pytest.mark.skipif(sys.platform != "linux", reason="NOT RUN: processes are watched on Linux alone")
def test_a_process_is_seen_to_end():
    """Even before its parent has asked for its exit code."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = Process(child.pid)
        assert not process.ended
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process.ended
        process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="NOT RUN: processes are watched on Linux alone")
def test_a_process_is_looked_at_by_several_threads():
    """The session's loop asks, and so does whoever looks after it."""
    process = Process(os.getpid())
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(lambda: [process.ended for _ in range(10_000)]) for _ in range(4)]
        assert not any(any(answers.result()) for answers in asked)
    process.close()
