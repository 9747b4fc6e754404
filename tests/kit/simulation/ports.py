"""Simulated dependencies of a partition's owner: targets, stores, medium, timers, flush thread.

Called by ``partition``. All of them survive a crash of the owner, as a disk or another process
does, except ``LifeTimers`` and ``LateWork``, which die with their owner.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeAlias

from distributary.core.database import memory_url
from distributary.core.deliver import Limits
from distributary.core.demand import NO_DETAILS, Demand, DemandDetails, DemandKind
from distributary.core.engine import RouteTarget
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, RouteRecord
from distributary.core.outcome import (
    BackfillRow,
    Budgets,
    Changes,
    DeadLetter,
    DeliveryStore,
    FileReservations,
    GivenUp,
    ReservationAnswer,
    ReservationBatch,
    RetryRow,
)
from distributary.testing.memory_ownership import MemoryStore
from distributary.testing.virtual import VirtualTimer, VirtualTimers

__all__ = [
    "SMALL_LIMITS",
    "Crashed",
    "FaultyReservations",
    "LateFlushes",
    "LateWork",
    "LifeTimers",
    "SimulatedFiles",
    "SimulatedTargets",
    "StoreWatch",
    "TargetsView",
    "WatchedMemory",
    "WatchedStore",
]

_Given = ParamSpec("_Given")
Work: TypeAlias = Callable[[], None]
Line: TypeAlias = tuple[str, dict[str, object]]
"""A line for people: its name and its fields."""
Told: TypeAlias = Callable[[StoreError | None], None]


SMALL_LIMITS = Limits(
    queued_max=6, held_bytes_max=1 << 20, in_flight_max=8, in_flight_total_max=12, retry_reserve=2
)
"""Small, so that queues fill up, and backfills begin and end within a few events."""


class Crashed(BaseException):
    """A simulated power failure: only the simulation may catch it."""


class SimulatedTargets:
    """The resource store: targets, and every change of a route."""

    def __init__(self) -> None:
        self.now: dict[str, RouteTarget] = {}
        self.changes: list[RouteRecord] = []
        self.asked: list[Demand] = []
        self.halted: frozenset[str] = frozenset()
        self.version = 0

    def put(self, route: str, target: RouteTarget) -> None:
        """Create or replace the target of *route*; its change, if any, is the next one."""
        self.now[route] = target
        self.version += 1

    def ask(
        self,
        kind: DemandKind,
        route: str,
        details: DemandDetails = NO_DETAILS,
        asked_ms: int = 0,
    ) -> str:
        """Make a request to the owners; returns the id of the run."""
        seq = self.asked[-1].seq + 1 if self.asked else 1
        if kind == "resume":
            before = (kind, route)
            self.asked = [each for each in self.asked if (each.kind, each.route) != before]
        self.asked.append(Demand(seq, kind, route, f"run-{seq}", asked_ms, details))
        return f"run-{seq}"

    def cancel(self, run: str) -> None:
        """End a run."""
        of = next(demand.seq for demand in self.asked if demand.run == run)
        self.ask("cancel", "", DemandDetails(of=of))

    def halt(self, route: str) -> None:
        """Pause or disable *route*."""
        self.halted |= {route}
        self.version += 1

    def unhalt(self, route: str) -> None:
        """Resume or enable *route*."""
        self.halted -= {route}
        self.version += 1

    def unhalt_all(self) -> None:
        """Resume and enable every route."""
        for route in sorted(self.halted):
            self.unhalt(route)

    def delete(self, route: str) -> None:
        """Delete the resource of *route*; the store keeps that it is halted."""
        del self.now[route]
        self.version += 1

    def last_seq(self) -> int:
        """Number of the last change."""
        return self.changes[-1].seq if self.changes else 0

    def newest_seq(self) -> int:
        """The same: no change waits for the log."""
        return self.last_seq()

    def between(self, after_seq: int, before_seq: int) -> list[RouteRecord]:
        """Changes with ``after_seq < seq < before_seq``."""
        return [change for change in self.changes if after_seq < change.seq < before_seq]


class TargetsView:
    """``core.engine.Targets`` of one owner: changes are visible after a refresh."""

    def __init__(self, targets: SimulatedTargets) -> None:
        self._targets = targets
        self._version = -1
        self._seq = 0
        self._halted: frozenset[str] = frozenset()
        self._listed: dict[str, RouteTarget] = {}
        self._used: dict[str, RouteTarget] = {}
        self._changed: set[str] = set()

    def refresh(self) -> bool:
        """Read and apply changes."""
        take = self.read()
        if take is None:
            return False
        take()
        return True

    def may_have_news(self) -> bool:
        """Whether there are changes."""
        return self._version != self._targets.version

    def read(self) -> Work | None:
        """Returns a job that applies changes."""
        if self._version == self._targets.version:
            return None
        version, seq = self._targets.version, self._targets.last_seq()
        listed, halted = dict(self._targets.now), self._targets.halted
        return lambda: self._take(version, seq, listed, halted)

    def _take(
        self, version: int, seq: int, listed: dict[str, RouteTarget], halted: frozenset[str]
    ) -> None:
        if self._version < 0:  # What was halted and is deleted is not known to a later owner.
            halted &= listed.keys()
        self._version, self._seq, self._listed, self._halted = version, seq, listed, halted
        for route, used in list(self._used.items()):
            if self._listed.get(route) is not used:
                ways = (used.sink, used.dead_letter, used.reply)
                self._changed |= {way.queue for way in ways if way is not None}
                del self._used[route]

    def end(self, route: str) -> None:
        """Remove the target of *route*, whose deletion the log has reached."""
        self._listed.pop(route, None)
        used = self._used.pop(route, None)
        if used is not None:
            ways = (used.sink, used.dead_letter, used.reply)
            self._changed |= {way.queue for way in ways if way is not None}

    def sees(self, seq: int) -> bool:
        """Whether change *seq* has been applied."""
        return self._seq >= seq

    def all_go_to(self, uri: str) -> bool:
        """Whether every target has the sink *uri*."""
        return all(target.sink.queue == uri for target in self._targets.now.values())

    def demands(self, after_seq: int) -> list[Demand]:
        """Returns the requests to the owners."""
        return [each for each in self._targets.asked if each.seq > after_seq]

    def halted(self) -> frozenset[str]:
        """Returns the routes that are paused or disabled."""
        return self._halted

    def changed_uris(self) -> list[str]:
        """Returns former sinks of changed or deleted routes."""
        changed, self._changed = self._changed, set()
        return sorted(changed)

    def get(self, route: str) -> RouteTarget | None:
        """Returns the target of *route* as of the last refresh."""
        found = self._used.get(route)
        if found is None:
            found = self._listed.get(route)
            if found is not None:
                self._used[route] = found
        return found


class StoreWatch:
    """A store that exposes its durable rows, and injects faults.

    Attributes:
        kept_rows: Retry rows by their match, done ones included.
        kept_backfills: Backfill rows by their name.
        dead_letters: Dead letters by their match.
        new_dead_letters: Those of them that were not inspected yet.
        crash_after: Power fails once this many more changes are durable; None: never.
        failing: Whether changes fail.
    """

    def __init__(self) -> None:
        self.kept_rows: dict[DoneKey, RetryRow] = {}
        self.kept_backfills: dict[tuple[str, int], BackfillRow] = {}
        self.all_dead_letters: dict[DoneKey, DeadLetter] = {}
        self.new_dead_letters: list[DeadLetter] = []
        self.crash_after: int | None = None
        self.failing = False

    def refuse(self) -> None:
        """Raise the injected fault before changes, if there is one."""
        if self.failing:
            raise StoreError("the simulated store was told to fail")

    def note(self, changes: Changes) -> None:
        """Record durable changes; then fail the power if that is due."""
        self.kept_rows.update(changes.rows)
        for key in changes.forget:
            self.kept_rows.pop(key, None)
        for name, backfill in changes.backfills.items():
            if backfill is None:
                self.kept_backfills.pop(name, None)
            else:
                self.kept_backfills[name] = backfill
        self.all_dead_letters.update(
            (dead_letter.key, dead_letter) for dead_letter in changes.dead_letters
        )
        self.new_dead_letters += changes.dead_letters
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                self.crash_after = None
                raise Crashed


class WatchedStore(StoreWatch, DeliveryStore):
    """A delivery store in a database in memory."""

    def __init__(self, budgets: Budgets | None) -> None:
        StoreWatch.__init__(self)
        DeliveryStore.__init__(self, memory_url(), 0, budgets)

    def apply(self, changes: Changes) -> list[GivenUp]:
        """See ``DeliveryStore.apply``."""
        self.refuse()
        given_up = super().apply(changes)
        self.note(changes)
        return given_up


class WatchedMemory(StoreWatch, MemoryStore):
    """The same with plain objects: a run takes half the time."""

    def __init__(self, budgets: Budgets | None) -> None:
        StoreWatch.__init__(self)
        MemoryStore.__init__(self, budgets)

    def apply(self, changes: Changes) -> list[GivenUp]:
        """See ``DeliveryStore.apply``."""
        self.refuse()
        given_up = super().apply(changes)
        self.note(changes)
        return given_up


class FaultyReservations(FileReservations):
    """Counts of deliveries that fail, or lose their power around a change.

    Attributes:
        crash_after: The power goes around the change after so many more; None: it does not.
        crash_before: Where: before that change is durable, or after it.
        failing: Changes are refused while this is true.
    """

    crash_after: int | None = None
    crash_before = False
    failing = False

    def exchange(self, partition: int, batch: ReservationBatch) -> list[ReservationAnswer]:
        """See ``FileReservations.exchange``."""
        if self.failing:
            raise StoreError("the simulated counts were told to fail")
        falls = False
        if self.crash_after is not None:
            self.crash_after -= 1
            falls = self.crash_after < 0
        if falls:
            self.crash_after = None
            if self.crash_before:
                raise Crashed
        grants = super().exchange(partition, batch)
        if falls:
            raise Crashed
        return grants


class SimulatedFiles:
    """``outcome.Files`` on a real file that is not synced; can tear a write.

    Attributes:
        torn_bytes: A write stops after so many bytes and the power goes; None: none does.
        whole_writes: Writes before that one, which are whole.
        failing: ``fdatasync`` fails while this is true.
    """

    def __init__(self, write: Callable[[int, memoryview], int]) -> None:
        self._write = write
        self.torn_bytes: int | None = None
        self.whole_writes = 0
        self.failing = False

    def write(self, fd: int, payload: memoryview) -> int:
        """Write, or be torn."""
        if self.torn_bytes is not None:
            if not self.whole_writes:
                torn, self.torn_bytes = self.torn_bytes, None
                self._write(fd, payload[:torn])
                raise Crashed
            self.whole_writes -= 1
        return self._write(fd, payload)

    def fdatasync(self, _fd: int) -> None:
        """Nothing, or a failure."""
        if self.failing:
            raise OSError("the simulated medium failed")

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Inject nothing meanwhile: an owner begins, which would be tried until it can."""
        armed = self.torn_bytes, self.failing
        self.torn_bytes, self.failing = None, False
        yield
        self.torn_bytes, self.failing = armed

    def touch(self, place: str) -> None:
        """The same for a ``MemoryOwnership``, which has no file to tear."""
        if place in {"history", "cursor"} and self.torn_bytes is not None:
            if not self.whole_writes:
                self.torn_bytes = None
                raise Crashed
            self.whole_writes -= 1
        if place == "cursor" and self.failing:
            raise StoreError("the simulated medium failed")


class LifeTimers:
    """Timers of one owner: none of them fires once it is dead.

    Attributes:
        alive: Whether it lives.
        current: Whether it is the newest owner; a former one may live, and not know it.
        stopped_until_s: Until then it is stopped, as by ``SIGSTOP``: nothing of it runs.
    """

    def __init__(self, timers: VirtualTimers) -> None:
        self._timers = timers
        self.alive = True
        self.current = True
        self.stopped_until_s = 0.0

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> VirtualTimer:
        """Call *fn* later, if the owner still lives then; once it goes on, if it is stopped."""
        return self._timers.call_later(delay_s, lambda: self._fire(fn))

    def _fire(self, fn: Callable[[], None]) -> None:
        left_s = self.stopped_until_s - self._timers.now_s()
        if left_s > 0:
            self._timers.call_later(left_s, lambda: self._fire(fn))
        elif self.alive:
            fn()

    def of_current(self, fn: Callable[_Given, None]) -> Callable[_Given, None]:
        """*fn*, which is not called any more once the owner is a former one."""

        def call(*args: _Given.args, **named: _Given.kwargs) -> None:
            if self.current:
                fn(*args, **named)

        return call


class LateWork:
    """``partitions.ports.Blocking`` in virtual time: one job after the other; each takes a while.

    Args:
        timers: Of the owner.
        delay_s: Draws the time before the work, and again the time until the loop learns of it.
        crashed: Called when the power went during the work.
    """

    def __init__(
        self, timers: LifeTimers, delay_s: Callable[[], float], crashed: Callable[[], None]
    ) -> None:
        self._timers = timers
        self._delay_s = delay_s
        self._crashed = crashed
        self._jobs: deque[tuple[Work, Told]] = deque()

    def run(self, work: Work, done: Told) -> None:
        """Run *work* later, tell *done* later still."""
        self._jobs.append((work, done))
        if len(self._jobs) == 1:
            self._begin_next()

    def _begin_next(self) -> None:
        if self._jobs:
            self._begun()
            self._timers.call_later(self._delay_s(), lambda: self._work(*self._jobs[0]))

    def _begun(self) -> None:
        """The next job begins."""

    def _durable(self) -> None:
        """Note that its work is done, before its owner is notified."""

    def _work(self, work: Work, done: Told) -> None:
        error: StoreError | None = None
        try:
            work()
        except StoreError as raised:
            error = raised
        except Crashed:
            if self._timers.alive:
                self._crashed()
            return
        else:
            self._durable()
        self._timers.call_later(self._delay_s(), lambda: self._tell(done, error))

    def _tell(self, done: Told, error: StoreError | None) -> None:
        self._jobs.popleft()
        self._begin_next()
        done(error)


class LateFlushes(LateWork):
    """The same for flushes, of which there is one at a time.

    Args:
        timers: Of the owner.
        delay_s: As ``LateWork``.
        begun: Called when a flush begins.
        durable: Called when its work is done, before the owner learns of it.
        crashed: As ``LateWork``.
    """

    def __init__(
        self,
        timers: LifeTimers,
        delay_s: Callable[[], float],
        *,
        begun: Callable[[], None],
        durable: Callable[[], None],
        crashed: Callable[[], None],
    ) -> None:
        super().__init__(timers, delay_s, crashed)
        self._on_begun = begun
        self._on_durable = durable

    @property
    def under_way(self) -> bool:
        """Whether there is one whose end the owner has not learnt."""
        return bool(self._jobs)

    def run(self, work: Work, done: Told) -> None:
        """Run *work* later, tell *done* later still."""
        assert not self._jobs, "two flushes at once"
        super().run(work, done)

    def _begun(self) -> None:
        self._on_begun()

    def _durable(self) -> None:
        self._on_durable()
