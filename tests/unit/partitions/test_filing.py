"""The thread of history files: a share that does not answer holds nobody up."""

import asyncio
import threading
import time

import pytest

from distributary.core.errors import StoreError
from distributary.history.writer import HistoryWriter
from distributary.partitions import _filing
from distributary.partitions._filing import Filing


@pytest.fixture
def posted():
    """Jobs for the loop of the owner, as they come."""
    return []


@pytest.fixture
def filing(tmp_path, posted, monkeypatch):
    """The thread, with short waits."""
    monkeypatch.setattr(_filing, "END_S", 0.05)
    monkeypatch.setattr(_filing, "FINISH_S", 0.05)
    made = Filing(HistoryWriter(tmp_path, 0), "filing", posted.append)
    yield made
    made.end()


@pytest.fixture
def silent():
    """A share that does not answer until it is set, at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_a_job_is_done_beside_and_its_end_told_on_the_loop(filing, posted, monkeypatch):
    """With its error, if it has one."""
    monkeypatch.setattr(_filing, "FINISH_S", 5.0)
    threads, errors = [], []

    def refused():
        raise StoreError("no")

    filing.run(lambda: threads.append(threading.current_thread()), errors.append)
    filing.run(refused, errors.append)
    assert filing.wait(lambda: 5) == 5
    for job in posted:
        job()
    assert [str(error) for error in errors] == ["None", "no"]
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon, "otherwise the end of the process waits for it"


def test_an_error_of_the_last_work_is_raised(filing, monkeypatch):
    """The owner tells people."""
    monkeypatch.setattr(_filing, "FINISH_S", 5.0)

    def refused():
        raise StoreError("no")

    with pytest.raises(StoreError, match="no"):
        filing.wait(refused)


def test_a_share_that_does_not_answer_holds_up_no_end(filing, silent):
    """Neither the last files nor the end wait for it, and nothing is begun behind it."""
    begun = []
    filing.run(silent.wait, begun.append)
    began_s = time.monotonic()
    for _ in range(3):
        with pytest.raises(StoreError, match="does not answer"):
            filing.wait(lambda: begun.append("late"))
    filing.end()
    assert time.monotonic() - began_s < 2.0
    silent.set()
    filing._thread.join(5.0)
    assert begun == []


def test_a_job_that_ends_when_its_loop_is_closed_ends_the_thread(tmp_path, silent):
    """Nobody is left to be told."""
    loop = asyncio.new_event_loop()
    filing = Filing(HistoryWriter(tmp_path, 0), "filing", loop.call_soon_threadsafe)
    filing.run(silent.wait, lambda _error: None)
    loop.close()
    silent.set()
    filing._thread.join(5.0)
    assert not filing._thread.is_alive()
    filing.end()
