"""A watcher over tallies in memory, in virtual time."""

from dataclasses import dataclass, field

import pytest

from distributary.core.errors import NotFoundError
from distributary.core.meter import LATENCY_BOUNDS_S
from distributary.subscriptions.status import ServerNumbers, Standings, Watcher
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.steering import Steering
from distributary.testing.memory_tallies import MemoryTallies, MemoryTallyReader
from distributary.testing.virtual import VirtualClock, VirtualTimers


class Lines:
    """Log lines, as (event, fields)."""

    def __init__(self):
        self.lines = []

    def warning(self, event, **fields):
        self.lines.append((event, fields))


class Store:
    """Names of routes, and what is paused or disabled."""

    def __init__(self):
        self.names = {}
        self.steering = {}
        self.error = None
        self.failing = {"route_names", "halted", "disable"}

    def _fail(self, method):
        if self.error is not None and method in self.failing:
            raise self.error

    def route_names(self, uids):
        self._fail("route_names")
        return {uid: self.names[uid] for uid in uids if uid in self.names}

    def halted(self):
        self._fail("halted")
        return list(self.steering.values())

    def disable(self, uid, reason, by, now_ms):
        self._fail("disable")
        if uid not in self.names:
            raise NotFoundError("gone")
        self.steering[uid] = Steering(
            uid, disabled_ms=now_ms, disabled_by=by, disabled_reason=reason
        )


@dataclass
class World:
    """Everything about one watcher."""

    clock: VirtualClock
    timers: VirtualTimers
    tallies: list[MemoryTallies]
    store: Store
    lines: Lines
    told: list = field(default_factory=list)
    accepted: dict = field(default_factory=dict)
    latencies: list = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    watcher: Watcher | None = None

    def watch(self, **settings):
        """A new process begins to watch."""
        readers = [MemoryTallyReader(each) for each in self.tallies]
        self.watcher = Watcher(
            Standings(readers, self.clock),
            self.store,
            self.clock,
            self.lines,
            server=lambda: ServerNumbers(self.accepted, 7, LATENCY_BOUNDS_S, list(self.latencies)),
            sinks=lambda: {"a": "http://sink/a?key=secret"},
            **settings,
        )
        self.watcher.listen(self.told.extend)

    def put(self, route, tally, partition=0):
        """An owner puts *tally*."""
        name = RouteName("subscription", f"id-{route}", "default")
        self.store.names.setdefault(route, name)
        self.tallies[partition].put({route: tally})

    def look(self, seconds=1.0):
        """Let time pass and look; returns what happened, as (kind, id)."""
        self.timers.advance(seconds)
        return [(one.kind.value, one.name.text) for one in self.watcher.turn()]


@pytest.fixture
def world():
    """Two partitions, and a watcher that has looked once."""
    clock = VirtualClock()
    tallies = [MemoryTallies(), MemoryTallies()]
    made = World(clock, VirtualTimers(clock), tallies, Store(), Lines())
    made.watch()
    made.look()
    return made
