"""Ports of what serves a partition."""

import functools
from types import SimpleNamespace

import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import Mark
from distributary.core.journal import NO_ROWS, JournalState
from distributary.core.meter import Meter
from distributary.partitions._flusher import Flusher, Point
from distributary.partitions._unwritten import Unwritten
from distributary.testing.virtual import VirtualClock, VirtualTimers


@pytest.fixture
def clock():
    """Time that stands still."""
    return VirtualClock()


@pytest.fixture
def timers(clock):
    """Timers on it."""
    return VirtualTimers(clock)


class FakeHistory:
    """Rows that wait for a flush."""

    def __init__(self):
        self.rows = NO_ROWS
        self.filed = 0
        self.flushes = []

    def take(self):
        """What the next flush takes along."""
        taken, self.rows = self.rows, NO_ROWS
        return taken

    def flushed(self, taken, filed):
        """A flush is durable."""
        self.flushes.append((taken, filed))


class Small:
    """Counts the flushes that are small, and runs them like the others."""

    def __init__(self, rig):
        self._rig = rig
        self.count = 0

    def run(self, work, done):
        self.count += 1
        self._rig.run(work, done)


class FlusherRig:
    """A flusher whose medium writes down what reaches it, when the test lets it."""

    def __init__(self, clock, timers, *, local=True):
        self.local = local
        self.calls = []
        self.failures = []
        self.asked = ""
        self.works = []
        self.error = None
        self.holds = set()
        self.state = JournalState([Mark(5, 50)])
        self.point = Point(Mark(5, 50))
        self.forgettable = []
        self.over = []
        self.given_up = []
        self.history = FakeHistory()
        self.small = Small(self)
        self.meter = Meter()
        self.warnings = []
        context = SimpleNamespace(
            clock=clock,
            meter=self.meter,
            warn=lambda event, fields: self.warnings.append((event, fields)),
        )
        self.flusher = Flusher(
            self,
            self,
            blocking=self,
            journaling=self.small,
            timers=timers,
            clock=clock,
            point=lambda: self.point,
            forgettable=lambda _durable: (self.forgettable, self.over),
            failed=self.failures.append,
            given_up=self.given_up.extend,
            history=self.history,
            unwritten=Unwritten(context, self),
        )

    def flush(self, batch):
        if self.error:
            raise self.error
        self.calls.append(("flush", batch))
        return []

    @property
    def batch(self):
        """What the last flush wrote."""
        return next(batch for what, batch, *_ in reversed(self.calls) if what == "flush")

    @property
    def changes(self):
        """What it changed."""
        return self.batch.changes

    @property
    def waiting(self):
        return bool(self.asked)

    def take(self):
        asked, self.asked = self.asked, ""
        return asked

    def before(self, asked):
        if asked:
            self.calls.append(("before", asked))

    def after(self, asked):
        if asked:
            self.calls.append(("after", asked))

    def run(self, work, done):
        self.works.append((work, done))

    def hold(self, why):
        self.holds.add(why)

    def go_on(self, why):
        self.holds.remove(why)

    def medium(self):
        """Let the flush under way reach the medium, and the loop learn of it."""
        work, done = self.works.pop(0)
        try:
            work()
        except StoreError as error:
            done(error)
        else:
            done(None)


@pytest.fixture
def make_flusher_rig(clock, timers):
    """Makes a flusher, and what stands around it."""
    return functools.partial(FlusherRig, clock, timers)
