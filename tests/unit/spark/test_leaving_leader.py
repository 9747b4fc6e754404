"""A leader leaves while the next one begins: its stop ends its own owners, and no others."""

import itertools
from collections import defaultdict
from types import SimpleNamespace

import pytest

from distributary.datadir import Phase, StatusField
from distributary.partitions.shared_page import OwnStop, SharedStatusPage
from distributary.spark._epochs import Epochs
from distributary.spark.driver import LOOK_S, Driver
from distributary.testing.memory_status_page import MemoryStatusPage
from distributary.testing.virtual import VirtualClock

LEAVES, NEXT = 7, 8
"""Numbers of the two drivers."""


class Row:
    """The row of a partition, and the pages of the processes that exchange with it.

    Attributes:
        words: Its content.
    """

    def __init__(self):
        self.words = {}
        self._held = {}

    def page(self, driver):
        """The page of one more process of *driver*."""
        held = SharedStatusPage(0)
        held.received(self.words)
        shown = OwnStop(held, driver)
        self._held[shown] = held
        return shown

    def exchange(self, page):
        """As ``PageExchange`` does."""
        page = self._held[page]
        changes = page.changes()
        self.words |= {str(field): word for field, word in changes.items()}
        page.sent(changes)
        page.received(self.words)


@pytest.fixture
def row():
    """One that nobody has written to."""
    return Row()


def reset(page):
    """As a driver does before its query starts."""
    Epochs([page], 100.0, began=lambda _epoch: None).reset()


def test_a_stop_that_comes_late_ends_no_task_of_the_next_leader(row):
    """It reaches the row after the next driver has begun, which sees it and goes on."""
    leaving, beginning = row.page(LEAVES), row.page(NEXT)
    leaving[StatusField.STOP] = 1
    reset(beginning)
    row.exchange(beginning)
    row.exchange(leaving)
    row.exchange(beginning)
    assert [page[StatusField.STOP] for page in (beginning, row.page(NEXT))] == [0, 0]


def test_a_stop_reaches_its_owners_though_the_next_leader_has_begun(row):
    """It had not come to them when the next driver cleared the page."""
    leaving, owner = row.page(LEAVES), row.page(LEAVES)
    leaving[StatusField.STOP] = 1
    row.exchange(leaving)
    beginning = row.page(NEXT)
    reset(beginning)
    row.exchange(beginning)
    row.exchange(owner)
    assert owner[StatusField.STOP] == 1


def test_a_stop_of_an_earlier_version_ends_no_task_of_this_one(row):
    """It was for all that looked at the page."""
    row.words[str(int(StatusField.STOP))] = 1
    assert row.page(NEXT)[StatusField.STOP] == 0


def test_a_driver_clears_its_own_stop(row):
    """Its next query begins with none."""
    page = row.page(LEAVES)
    page[StatusField.STOP] = 1
    row.exchange(page)
    reset(page)
    row.exchange(page)
    assert row.page(LEAVES)[StatusField.STOP] == 0


class Drains:
    """A driver that drains two partitions, in virtual time.

    Args:
        held: Of each look, the partitions that its owners hold; None: the pages tell.
    """

    def __init__(self, held):
        self.clock = VirtualClock()
        made = self.driver = Driver.__new__(Driver)
        self.pages = made._status_pages = [MemoryStatusPage(defaultdict(int)) for _ in range(2)]
        left = iter(held)
        made._shared = SimpleNamespace(held=lambda: next(left))
        made._settings = SimpleNamespace(drain_s=1.0)
        made._now_s, made._sleep = self.clock.monotonic_s, self._sleep

    def _sleep(self, seconds):
        self.clock.move_to(self.clock.monotonic_s() + seconds)

    def drain(self):
        """Drain; returns how long that took, seconds."""
        began_s = self.clock.monotonic_s()
        self.driver._drain(SimpleNamespace(isActive=True))
        return self.clock.monotonic_s() - began_s


def test_a_leader_that_leaves_waits_for_its_owners_though_the_next_has_cleared_the_pages():
    """They drain meanwhile: its query would end with attempts under way."""
    drains = Drains([{0, 1}, {0, 1}, {1}, set()])
    reset(drains.pages[0])
    assert drains.drain() == pytest.approx(3 * LOOK_S)


def test_a_leader_that_leaves_does_not_wait_for_owners_of_the_next():
    """They run, and its own have ended."""
    drains = Drains([{0}, set()])
    for page in drains.pages:
        page[StatusField.PHASE] = Phase.RUNNING
    assert drains.drain() == pytest.approx(LOOK_S)


def test_the_pages_tell_where_no_master_places_executors():
    """Leases name no application there."""
    drains = Drains(itertools.repeat(None))
    drains.pages[0][StatusField.PHASE] = Phase.RUNNING
    assert drains.drain() >= 6.0
    drains.pages[0][StatusField.PHASE] = Phase.ABSENT
    assert drains.drain() == 0.0
