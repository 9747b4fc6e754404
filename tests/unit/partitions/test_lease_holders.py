"""Whose lease a worker of an executor may take: that of one beside it whose process has ended."""

import os
import subprocess
import sys

import pytest

from distributary.partitions import executor
from distributary.partitions.executor import LeaseHolder, ended_beside

HERE = LeaseHolder(host="m", pid=os.getpid(), application="app-1", executor="0")


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """This process is a worker of executor 0."""
    monkeypatch.setattr(executor, "lease_holder", lambda: HERE)


@pytest.fixture
def ended():
    """The number of a process that was there."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def holder(pid, **other):
    """Who holds a lease."""
    return LeaseHolder(
        **{"host": "m", "application": "app-1", "executor": "0", **other, "pid": pid}
    )


def test_one_that_was_killed_has_ended(ended):
    """Also while nobody has asked for its exit code."""
    assert ended_beside(holder(ended))
    zombie = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert zombie.stdout.read() == b""
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert ended_beside(holder(zombie.pid))
    zombie.wait()
    zombie.stdout.close()


def test_one_that_runs_has_not(ended):
    """Nor is anything known of processes elsewhere, whose numbers mean nothing here."""
    assert not ended_beside(holder(os.getpid()))
    assert not ended_beside(holder(os.getppid()))
    for other in ({"host": "n"}, {"executor": "1"}, {"application": "app-2"}):
        assert not ended_beside(holder(ended, **other))


def test_who_knows_no_executor_judges_nobody(monkeypatch, ended):
    """Two processes that do not know where they are need not be in one place."""
    nowhere = LeaseHolder(host="m", pid=os.getpid())
    monkeypatch.setattr(executor, "lease_holder", lambda: nowhere)
    assert not ended_beside(holder(ended, executor="", application=""))
