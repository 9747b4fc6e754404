"""A simulation of a partition whose owners are on several machines, and of what they share.

As ``simulation.Partition``, but its owners hold a lease that runs out, and keep their state in a
database that can be away or break a connection at a commit. An owner may be stopped, or be believed
dead, while it lives: then another one goes on, and the former one must write nothing. The log may
show its end late, and have a record of a route twice.

Called by ``runs`` and tests.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from distributary.core.deliver import Destination, Dispatcher
from distributary.core.errors import StoreAwayError, StoreError
from distributary.core.event import Event
from distributary.core.flow import Attempt, RecordKind, RouteRecord, encode_route
from distributary.core.journal_frames import HistoryBlock
from distributary.core.outcome import FailingRoutesFile, Ownership
from distributary.core.outcome._numbered import NumberedOwnership
from distributary.core.outcome._patience import Patience
from distributary.core.postgres_lease import (
    MARGIN_S,
    POLL_S,
    RENEWED_AGAIN_S,
    RENEWED_EVERY_S,
    TTL_S,
)
from distributary.history.names import HistoryFile
from distributary.partitions._history import Files
from distributary.partitions.context import PartitionContext
from distributary.testing.memory_log import LaggingLog
from distributary.testing.scripted_transport import Step
from kit.simulation.database import (
    FencedReservations,
    FencedTallies,
    Owner,
    SharedDatabase,
    SimulatedFlushes,
    watched,
)
from kit.simulation.life import Life, take_new
from kit.simulation.partition import FLUSH_S_MAX, Partition
from kit.simulation.ports import Crashed, LateFlushes, LateWork, LifeTimers
from kit.simulation.sinks import answers, replied

__all__ = ["SharedPartition"]

AWAY_S_MAX = 120.0
"""Longest wait of an owner for the database."""
WOKEN_S_MAX = 1.0
"""Within this time after it goes on, a former owner makes its last attempt."""
BELIEVED_S_MAX = TTL_S
"""The same of one that never stopped, and was believed dead: until its lease has run out."""


class _Held:
    """The lease of one owner, as it sees it."""

    def __init__(self, owner: Owner, until_s: float) -> None:
        self.owner = owner
        self.until_s = until_s
        self.holds = False

    def lapsing(self, now_s: float) -> bool:
        """As ``PostgresLease.lapsing``."""
        return now_s >= self.until_s - MARGIN_S


class SharedPartition(Partition):
    """A partition that many machines may own.

    Args:
        folder: For status pages and counts.
        seed: Of every chance in it.

    Attributes:
        database: What the owners share.
        twice: The next record of a route is in the log twice: a produce timed out and was stored.
        read_s_max: Longest time that a read of the log beside the live path takes, and again until
            its owner learns of it, seconds.
        copies: Attempts of former owners.
        formers_stopped: How many owners were stopped until another one had their lease.
        flushes_stopped: How many of them stood within a flush.
    """

    log: LaggingLog

    def __init__(self, folder: Path, seed: int = 0) -> None:
        super().__init__(folder, seed, in_memory=True)
        self.log = LaggingLog(self.clock)
        self.database = SharedDatabase(self.clock, TTL_S)
        self.twice = False
        self.read_s_max = FLUSH_S_MAX
        self.copies = 0
        self.formers_stopped = self.flushes_stopped = 0
        self._flushes: dict[LifeTimers, LateFlushes] = {}
        self._former: list[Life] = []
        self._dispatchers: dict[LifeTimers, Dispatcher] = {}
        self._held: dict[LifeTimers, _Held] = {}
        self._last_attempt_s: dict[LifeTimers, float] = {}

    # -- an owner ------------------------------------------------------------------------------

    def _own(self, timers: LifeTimers) -> tuple[Ownership, Callable[[], None]]:
        self._board = f"board-{self.checker.life}"  # each machine has its own
        owner, until_s = self._take_lease()
        held = self._held[timers] = _Held(owner, until_s)
        timers.call_later(RENEWED_EVERY_S, lambda: self._renew(timers))
        patience = Patience(self.clock, AWAY_S_MAX, lambda pause_s: self._wait(timers, pause_s))
        store = watched(self.store)
        flushes = SimulatedFlushes(self.database, store, owner, lambda: timers.current)
        rows = store.behind(lambda: self.database.check(owner))
        ownership = NumberedOwnership(flushes, rows, patience, touch=self._touch(timers))
        return ownership, lambda: self._let_go(timers, held)

    def _take_lease(self) -> tuple[Owner, float]:
        while True:
            began_s = self.clock.monotonic_s()
            try:
                owner = self.database.take(f"{self.checker.life} {began_s}")
            except StoreAwayError:
                owner = None
            if owner is not None:
                return owner, began_s + TTL_S
            self.advance(POLL_S)

    def _let_go(self, timers: LifeTimers, held: _Held) -> None:
        self._held.pop(timers, None)
        # Half of those that die do so without a word, and the driver knows.
        self.database.release(held.owner)

    def _wait(self, timers: LifeTimers, pause_s: float) -> None:
        """Block one thread of an owner; everything else goes on."""
        self.advance(pause_s)
        while timers.alive and timers.stopped_until_s > self.clock.monotonic_s():
            self.advance(POLL_S)
        if not timers.alive:
            raise Crashed

    def _touch(self, timers: LifeTimers) -> Callable[[str], None]:
        def touch(_place: str) -> None:
            assert timers.alive, "a dead owner flushes"

        return touch

    def _renew(self, timers: LifeTimers) -> None:
        held = self._held.get(timers)
        if held is None:
            return
        began_s = self.clock.monotonic_s()
        pause_s = RENEWED_EVERY_S
        try:
            if not self.database.renew(held.owner):
                self._end_former(timers)
                return
            held.until_s = began_s + TTL_S
        except StoreAwayError:
            pause_s = RENEWED_AGAIN_S
        timers.call_later(pause_s, lambda: self._renew(timers))

    def _end_former(self, timers: LifeTimers) -> None:
        """The process of a former owner learns of its successor, and exits."""
        assert not timers.current, "the newest owner was told that there is another"
        timers.alive = False
        self._held.pop(timers, None)

    def _adapted(self, context: PartitionContext, timers: LifeTimers) -> PartitionContext:
        held = self._held[timers]

        def check() -> None:
            self.database.check(held.owner)

        return dataclasses.replace(
            context,
            make_records=self.log.reader,
            log_reading=LateWork(timers, self._read_s, self.crash),
            reservations=FencedReservations(self.reservations, check),
            tallies=FencedTallies(self.tallies, check),
            history_files=_FencedHistory(self.history, timers),
            failing=FailingRoutesFile(self._folder / f"failing-{self.checker.life}.json"),
            on_tick=lambda: self._look_at_lease(timers, held),
        )

    def _read_s(self) -> float:
        return self._chance.random() * self.read_s_max

    def _look_at_lease(self, timers: LifeTimers, held: _Held) -> None:
        """As a session does: start nothing while the lease is nearly over."""
        lapsing = held.lapsing(self.clock.monotonic_s())
        if lapsing != held.holds:
            held.holds = lapsing
            dispatcher = self._dispatchers[timers]
            dispatcher.hold("lease") if lapsing else dispatcher.go_on("lease")

    def _blocking(self, timers: LifeTimers) -> LateFlushes:
        made = self._flushes[timers] = super()._blocking(timers)
        return made

    def _dispatcher(
        self,
        timers: LifeTimers,
        on_attempt: Callable[[Attempt], None],
        on_drained: Callable[[str], None],
    ) -> Dispatcher:
        made = self._dispatchers[timers] = super()._dispatcher(timers, on_attempt, on_drained)
        return made

    # -- former owners ---------------------------------------------------------------------------

    def stop(self, seconds: float) -> None:
        """Stop the owner's process for so long; if its lease is free, another one goes on.

        Where the database comes back later than the owner wakes, the owner renews its lease.
        """
        life = self._life
        assert life is not None
        until_s = self.clock.monotonic_s() + seconds
        life.timers.stopped_until_s = until_s
        if self.database.free_s + POLL_S < until_s:
            self.formers_stopped += 1
            self.flushes_stopped += self._flushes[life.timers].under_way
            self._retire(life, until_s + WOKEN_S_MAX)
            self.start()

    def believe_dead(self) -> None:
        """The driver takes the partition from an owner that lives, and starts another one."""
        life = self._life
        assert life is not None
        self.database.usurp()
        self._retire(life, self.clock.monotonic_s() + BELIEVED_S_MAX)
        self.start()

    @property
    def formers_ended(self) -> bool:
        """Whether there were former owners, and all of them have learnt of their successors."""
        return bool(self._former) and not any(life.timers.alive for life in self._former)

    def _retire(self, life: Life, last_attempt_s: float) -> None:
        """Make *life* a former owner, which goes on until it learns of it."""
        life.timers.current = False
        self._last_attempt_s[life.timers] = last_attempt_s
        self._former.append(life)
        self.checker.died()
        for letter in take_new(self.store):
            self.checker.kept(letter)
        self._life = None

    def _script(self, timers: LifeTimers, event: Event, destination: Destination) -> Step:
        if timers.current:
            return super()._script(timers, event, destination)
        last_s = self._last_attempt_s[timers]
        assert self.clock.monotonic_s() <= last_s, "a former owner goes on making attempts"
        self.copies += 1
        return replied(self.sinks.get(destination.uri, answers())(self._chance), event)

    # -- the log ---------------------------------------------------------------------------------

    def put_route(self, *args: Any, **named: Any) -> None:
        """See ``Partition.put_route``; what the checker expects of a past needs the whole log."""
        self.log.catch_up()
        super().put_route(*args, **named)

    def _append_change(self, record: RouteRecord) -> None:
        self.log.catch_up()
        super()._append_change(record)
        if self.twice:
            self.twice = False
            self.log.append([(RecordKind.ROUTE, encode_route(record))])

    # -- to its end ------------------------------------------------------------------------------

    def rest(self) -> None:
        """See ``Partition.rest``."""
        self.database.away_until_s, self.database.doubt = 0.0, None
        self.log.away_until_s, self.read_s_max = 0.0, FLUSH_S_MAX
        self.log.catch_up()
        super().rest()

    def replace(self) -> None:
        """See ``Partition.replace``."""
        self.log.catch_up()
        super().replace()

    def close(self) -> None:
        """See ``Partition.close``."""
        self.database.away_until_s = 0.0
        super().close()
        for life in self._former:
            life.timers.alive = False
            life.status_page.close()


class _FencedHistory:
    """Files of the history on the machine of one owner: of a former one they are nobody's."""

    def __init__(self, files: Files, timers: LifeTimers) -> None:
        self._files = files
        self._timers = timers

    def _check(self) -> None:
        if not self._timers.current:
            raise StoreError("the files of a former owner")

    def write(self, blocks: Sequence[HistoryBlock]) -> list[HistoryFile]:
        self._check()
        return self._files.write(blocks)

    def publish(self, files: Sequence[HistoryFile]) -> int:
        self._check()
        return self._files.publish(files)

    def recover(self, filed: int) -> None:
        self._check()
        self._files.recover(filed)
