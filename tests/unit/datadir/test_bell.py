"""The bell of a partition: rings only for a consumer that sleeps, and never blocks."""

import os
import select
from contextlib import ExitStack

import pytest

from distributary.datadir import Bell, DataDir, MappedStatusPage, StatusField


@pytest.fixture
def bells(tmp_path):
    """The consumer's end, the appender's, and the status page."""
    paths = DataDir(tmp_path)
    with ExitStack() as opened:
        status_page = MappedStatusPage(paths.status_page(0))
        opened.callback(status_page.close)
        ends = [Bell(paths.bell(0), status_page) for _ in range(2)]
        for end in ends:
            opened.callback(end.close)
        yield *ends, status_page


def rings(bell):
    """Whether the pipe has rung and nobody has heard it."""
    return bool(select.select([bell.fd], [], [], 0)[0])


def test_rings_for_a_consumer_that_sleeps_alone(bells):
    """A busy log costs no system call for a ring."""
    consumer, appender, status_page = bells
    appender.ring()
    assert not rings(consumer)
    status_page[StatusField.AWAITS_RECORDS] = 1
    appender.ring()
    appender.ring()
    assert rings(consumer)
    consumer.heard()
    assert not rings(consumer)
    consumer.heard()  # there is nothing to hear: that blocks nobody


def test_a_pipe_that_nobody_empties_blocks_nobody(bells):
    """The consumer was killed: whoever appends goes on."""
    consumer, appender, status_page = bells
    status_page[StatusField.AWAITS_RECORDS] = 1
    for _ in range(70_000):  # more than the pipe holds
        appender.ring()
    assert rings(consumer)


def test_a_ring_that_fails_is_no_fault_of_the_commit(bells):
    """The consumer looks by itself, so nobody who publishes is told an error."""
    _, appender, status_page = bells
    status_page[StatusField.AWAITS_RECORDS] = 1
    fd, appender.fd = appender.fd, -1
    appender.ring()
    appender.fd = fd


def test_a_ring_waits_for_the_next_consumer(bells, tmp_path):
    """The pipe outlives whoever opens it."""
    consumer, appender, status_page = bells
    status_page[StatusField.AWAITS_RECORDS] = 1
    consumer.heard()
    appender.ring()
    following = Bell(DataDir(tmp_path).bell(0), status_page)
    assert rings(following)
    following.close()


def test_what_is_no_pipe_is_replaced(tmp_path):
    """A copy of a data directory may hold a plain file there."""
    paths = DataDir(tmp_path)
    status_page = MappedStatusPage(paths.status_page(0))
    paths.bell(0).write_bytes(b"")
    bell = Bell(paths.bell(0), status_page)
    status_page[StatusField.AWAITS_RECORDS] = 1
    bell.ring()
    assert rings(bell)
    assert os.read(bell.fd, 10) == b"\0"
    bell.close()
    status_page.close()
