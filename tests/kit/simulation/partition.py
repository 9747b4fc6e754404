"""A simulation of one partition from log to sinks, in virtual time, with crashes of its owner.

``Partition`` runs a real ``partitions.consumer.PartitionConsumer`` with real dispatcher, journal
and delivery store over a log in memory, and scripted sinks. ``crash`` replaces an owner and loses
all that is not durable, ``rollover`` drains it; an ``OutcomeChecker`` checks every promise.
``runs.play`` makes a run of a seed, the same each time; ``SharedPartition`` is for many
machines.
"""

import dataclasses
import functools
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from distributary.core.clock import AgeClock
from distributary.core.deliver import Destination, Dispatcher, Limits
from distributary.core.engine import EngineLimits, Step
from distributary.core.errors import DistributaryError
from distributary.core.event import Event
from distributary.core.flow import (
    TTL_DEFAULT,
    Attempt,
    DoneKey,
    Position,
    RecordKind,
    RouteRecord,
    Task,
    encode_route,
)
from distributary.core.journal import JournalState
from distributary.core.log import Reader
from distributary.core.meter import Meter
from distributary.core.outcome import Budgets, FailingRoutesFile, Ownership
from distributary.core.policy import DeliveryPolicy
from distributary.datadir import MappedStatusPage, StatusField
from distributary.partitions import stands_in
from distributary.partitions._tallying import STORED_EVERY_S
from distributary.partitions.consumer import PartitionConsumer
from distributary.partitions.context import PartitionContext
from distributary.partitions.ports import BackfillBudget
from distributary.partitions.routes import follow_from
from distributary.testing.memory_log import MemoryLog
from distributary.testing.memory_tallies import MemoryTallies
from distributary.testing.scripted_transport import ScriptedTransport
from distributary.testing.scripted_transport import Step as Scripted
from distributary.testing.virtual import SeededRandom, VirtualClock, VirtualTimers
from kit.simulation import life as simulated_life
from kit.simulation.events import Publisher, expect_history
from kit.simulation.history import SimulatedHistory
from kit.simulation.life import Life
from kit.simulation.life_checker import LifeChecker
from kit.simulation.naive_routes import matches
from kit.simulation.outcome_checker import OutcomeChecker
from kit.simulation.ports import (
    SMALL_LIMITS,
    FaultyReservations,
    LateFlushes,
    LateWork,
    LifeTimers,
    Line,
    SimulatedFiles,
    SimulatedTargets,
    TargetsView,
)
from kit.simulation.sinks import (
    Behaviour,
    addressee,
    answers,
    hangs,
    replied,
    replies,
    target_of,
)
from kit.simulation.tally_checker import TallyChecker

__all__ = ["Behaviour", "Partition", "answers", "hangs", "replies"]

FLUSH_S_MAX = 0.02
"""Longest delay of a flush before its work, and again before its owner is notified."""
FEED_S = 0.004
"""How often the reader polls for new records."""
REST_S_MAX = 3_600.0
"""With healthy sinks everything must be done within this virtual time."""


class Partition:
    """A partition with everything around it.

    Args:
        folder: For the journal and the status page.
        seed: Of every chance in it.
        limits: Of the dispatcher.
        budgets: Of kept dead letters; *backfill_budget*: of what backfills keep of the log.
        in_memory: Owners keep what they flush in memory, not in a journal and a database.

    Attributes:
        sinks: Behaviour of the sink by URI; absent: it acknowledges after 5 ms.
        reports: Info lines of owners, in order.
        warnings: Warnings of owners, in order.
        failures: Failures of owners, in order.
        sends: Every attempt: when, the id of its event, and the URI.
        engine_limits: Of the next owner.
        history: Files of the history.
        archived_to: Records below are in an archive; None: there is none.
    """

    def __init__(
        self,
        folder: Path,
        seed: int = 0,
        limits: Limits = SMALL_LIMITS,
        budgets: Budgets | None = None,
        backfill_budget: BackfillBudget = BackfillBudget(),  # noqa: B008 - a value
        *,
        in_memory: bool = False,
    ) -> None:
        self.archived_to: int | None = None
        self._folder = folder
        self._chance = random.Random(seed)  # noqa: S311 - repeatable chance for tests
        self._limits = limits
        self._backfill_budget = backfill_budget
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.ages = AgeClock(self.clock, from_start=True)
        self.log, self.targets = MemoryLog(self.clock), SimulatedTargets()
        self.store = simulated_life.watch(budgets, in_memory=in_memory)
        self._board = "board"
        self._state, self.history = JournalState(), SimulatedHistory()
        self.reservations = FaultyReservations(folder / "quota.db", self.clock)
        self.tallies, self.tally_checker = MemoryTallies(), TallyChecker()
        self.files = SimulatedFiles(os.write)
        self.checker, self.lives_of_matches = OutcomeChecker(), LifeChecker()
        self.engine_limits = EngineLimits()
        self.sinks: dict[str, Behaviour] = {}
        self.reports, self.warnings = list[Line](), list[Line]()
        self.failures: list[DistributaryError] = []
        self.sends: list[tuple[float, str, str]] = []
        self._routes: dict[str, RouteRecord] = {}
        self._publisher = Publisher(self._chance)
        self._life: Life | None = None

    def put_route(
        self,
        route: str,
        sink: str,
        *,
        types: Sequence[str] = (),
        dead_letter: str | None = None,
        policy: DeliveryPolicy | None = None,
        begin_ms: int | None = None,
        events_max: int | None = None,
        address: str = "",
        reply: str | None = None,
        reply_kept: bool = False,
        parks: bool = False,
    ) -> None:
        """Create or update a route: into the store first, then into the log.

        An update may move it to another address. A new one may begin in the past; the first
        record of *begin_ms* or later is its first.
        """
        policy = policy or DeliveryPolicy(retry=2, timeout_s=1.0)
        self.checker.retry_max = max(self.checker.retry_max, policy.retry)
        old = self._routes.get(route)
        revision = 1 if old is None else old.revision + 1
        (self.checker.replying.discard if reply is None else self.checker.replying.add)(route)
        target = dataclasses.replace(
            target_of(route, sink, policy, dead_letter, reply, own=reply_kept),
            revision=revision,
            events_max=events_max,
            reply_kept=reply_kept,
            parks=parks,
        )
        self.targets.put(route, target)
        self.checker.limit(route, events_max)
        if parks:
            self.checker.parking.add(route)
        if old is not None and (old.types, old.address) == (tuple(types), address):
            return  # The filters are unchanged: no record is appended.
        record = RouteRecord(
            seq=self.targets.last_seq() + 1,
            op="put",
            uid=route,
            revision=revision,
            types=tuple(types),
            begin_ms=begin_ms if old is None else None,
            address=address,
        )
        if record.begin_ms is not None:
            expect_history(self.log, self.checker, record, record.begin_ms)
        self._append_change(record)
        self._routes[route] = record

    def delete_route(self, route: str) -> None:
        """Delete a route: from the store first, then by a record in the log."""
        self.targets.delete(route)
        seq = self.targets.last_seq() + 1
        old = self._routes.pop(route)
        self.tally_checker.deleted.add(route)
        self._append_change(RouteRecord(seq=seq, op="delete", uid=route, revision=old.revision))

    def _append_change(self, record: RouteRecord) -> None:
        self.targets.changes.append(record)
        self.log.append([(RecordKind.ROUTE, encode_route(record))])

    @property
    def routes(self) -> list[str]:
        """Routes in force."""
        return list(self._routes)

    def publish(self, *types: str, address: str = "", ttl: int = TTL_DEFAULT) -> list[str]:
        """Append one record with an event of each of *types*; the ids of the events.

        They go to the Broker or Channel with *address*; the first of them has *ttl* passes left.
        """
        kind, body, events = self._publisher.record(types, address, ttl)
        offset = self.log.append([(kind, body)])
        for index, event in enumerate(events):
            self.checker.published(Position(0, offset, index), event)
            for route, record in self._routes.items():
                if record.address == address and matches(record, event.attributes):
                    self.checker.expect(Position(0, offset, index), route, event)
        return [str(event.attributes["id"]) for event in events]

    def timer_event(self, route: str, name: str) -> str:
        """Append an event of type *name* that the timer of *route* made; its id.

        The route may be gone: a timer event can be on its way when its subscription is deleted.
        """
        body, event = self._publisher.timer_event(route, name)
        offset = self.log.append([(RecordKind.TIMER_EVENT, body)])
        self.checker.published(Position(0, offset, 0), event)
        record = self._routes.get(route)
        if record is not None and matches(record, event.attributes):
            self.checker.expect(Position(0, offset, 0), route, event)
        return str(event.attributes["id"])

    @property
    def consumer(self) -> PartitionConsumer:
        """The current owner."""
        assert self._life is not None
        return self._life.consumer

    @property
    def status_page(self) -> MappedStatusPage:
        """The status page of the current owner."""
        assert self._life is not None
        return self._life.status_page

    @property
    def cursor(self) -> int:
        """The durable cursor."""
        assert self._life is not None
        return self._life.ownership.state.mark.offset

    @property
    def failure(self) -> DistributaryError | None:
        """Why the owner stopped; None: it did not."""
        assert self._life is not None
        return self._life.failure

    def start(self) -> None:
        """Start a new owner from the durable state."""
        assert self._life is None
        self.checker.life += 1
        self.lives_of_matches.begin()
        self.tally_checker.begin(self.tallies.kept)
        timers = LifeTimers(self.timers)
        ownership, let_go = self._own(timers)
        ownership.fit(lambda mark: stands_in(cast("Reader", self.log), mark))
        cursor = ownership.state.mark.offset
        status_page = MappedStatusPage(self._folder / self._board)
        path = self._folder / "routes"
        context = PartitionContext(
            partition=0,
            make_records=lambda: self.log,
            follower=follow_from(path, self.log, self.targets, cursor),
            targets=TargetsView(self.targets),
            ownership=ownership,
            reservations=self.reservations,
            tallies=self.tallies,
            status_page=status_page,
            meter=Meter(),
            history_files=self.history,
            clock=self.clock,
            ages=self.ages,
            timers=timers,
            random=SeededRandom(self._chance.randrange(1 << 30)),
            blocking=self._blocking(timers),
            aside=self._aside(timers),
            reading=self._aside(timers),
            make_dispatcher=lambda answered, drained: self._dispatcher(timers, answered, drained),
            routes_path=path,
            failing=FailingRoutesFile(self._folder / "failing.json"),
            on_failed=timers.of_current(self._on_failed),
            on_taken=lambda: None,
            report=timers.of_current(functools.partial(self._report, self.reports)),
            warn=timers.of_current(functools.partial(self._report, self.warnings)),
            backfill_budget=self._backfill_budget,
            limits=self.engine_limits,
            watch=timers.of_current(self._stepped),
        )
        consumer = PartitionConsumer(self._adapted(context, timers))
        self._life = Life(consumer, timers, ownership, let_go, status_page, cursor)
        consumer.start()
        self._feed(self._life)

    def _own(self, _timers: LifeTimers) -> tuple[Ownership, Callable[[], None]]:
        """Own the partition; returns its state, and what releases it."""
        return simulated_life.own(self.store, self.files, self._folder / "journal", self._state)

    def _adapted(self, context: PartitionContext, _timers: LifeTimers) -> PartitionContext:
        """The ports of the owner of *timers*; for other back ends than those of files."""
        return context

    def _blocking(self, timers: LifeTimers) -> LateFlushes:
        return LateFlushes(
            timers,
            lambda: self._chance.random() * FLUSH_S_MAX,
            begun=timers.of_current(self.checker.flush_begun),
            durable=timers.of_current(self._on_durable),
            crashed=self.crash,
        )

    def _aside(self, timers: LifeTimers) -> LateWork:
        return LateWork(timers, lambda: self._chance.random() * FLUSH_S_MAX, self.crash)

    def _dispatcher(
        self,
        timers: LifeTimers,
        on_attempt: Callable[[Attempt], None],
        on_drained: Callable[[str], None],
    ) -> Dispatcher:
        def answered(attempt: Attempt) -> None:
            if (
                timers.alive and timers.current
            ):  # The last answers, of closing connections, are ignored.
                if attempt.task.position.offset >= self.log.start():  # else redriven as it is
                    self._publisher.check_task(attempt.task)
                self.checker.answered(attempt)
                self.lives_of_matches.answered(attempt.task)
            on_attempt(attempt)

        return Dispatcher(
            {"HTTP": ScriptedTransport(timers, functools.partial(self._script, timers))},
            clock=self.clock,
            timers=timers,
            random=SeededRandom(self._chance.randrange(1 << 30)),
            on_attempt=answered,
            limits=self._limits,
            on_drained=on_drained,
        )

    def _script(self, _timers: LifeTimers, event: Event, destination: Destination) -> Scripted:
        route, stage = addressee(destination)
        for letter in simulated_life.take_new(self.store):  # a run may be there before the flush
            self.checker.kept(letter)
        self.checker.sent(event, route, stage, own=destination.own)
        event_id = str(event.attributes["id"])
        self.lives_of_matches.started(event_id, route, stage)
        self.sends.append((self.clock.monotonic_s(), event_id, destination.uri))
        return replied(self.sinks.get(destination.uri, answers())(self._chance), event)

    def _feed(self, life: Life) -> None:
        """The reader: chunks of a few records, whenever there are any."""
        if not life.timers.alive or life.failure is not None:
            return
        if life.consumer.buffered_bytes < 4096:
            chunk, after = self.log.read_chunk(life.read_to, self._chance.randrange(50, 2000))
            if after > life.read_to:
                life.read_to = after
                life.consumer.feed(after, chunk)
        life.timers.call_later(FEED_S, lambda: self._feed(life))

    def _report(self, told: list[Line], event: str, fields: dict[str, object]) -> None:
        told.append((event, fields))
        if event == "dropped" and "to" in fields and "count" not in fields:
            self.checker.dropped(fields)
        elif event == "reply-dropped":
            self.checker.reply_dropped(fields)

    def _stepped(self, step: Step, key: DoneKey, task: Task | None) -> None:
        self.lives_of_matches.step(step, key, task)
        self.tally_checker.step(step, key, task)
        if step is Step.DROP:
            self.checker.dropped(key._asdict() | {"reason": "a step"})

    def _on_failed(self, error: DistributaryError) -> None:
        assert self._life is not None
        assert self._life.failure is None, "told twice that the owner failed"
        self._life.failure = error
        self.failures.append(error)

    def _on_durable(self) -> None:
        for dead_letter in simulated_life.take_new(self.store):
            self.checker.kept(dead_letter)
        store = self.store
        self.checker.flush_durable(self.cursor, store.kept_rows, store.kept_backfills.values())
        floor = self.status_page[StatusField.KEEP_FROM]
        simulated_life.check_floor(floor, self.cursor, store, self.archived_to)

    def crash(self) -> None:
        """Kill the owner between two instructions."""
        life = self._life
        assert life is not None
        life.timers.alive = False
        self._end(life)

    def rollover(self, deadline_s: float = 5.0) -> int:
        """Drain and end the owner; returns the number of unfinished attempts."""
        life = self._life
        assert life is not None
        left: list[int] = []
        life.consumer.drain(deadline_s, left.append)
        until_s = self.clock.monotonic_s() + deadline_s + 10.0
        while not left and self._life is life and self.clock.monotonic_s() < until_s:
            self.timers.advance(0.05)
        if self._life is not life:
            return 0  # The power went meanwhile.
        assert left, "the drain never ended"
        if life.failure is None and not left[0]:
            assert self.checker.undurable_count == 0, "drained, and not everything is durable"
        sends = len(self.sends)
        life.timers.alive = False
        simulated_life.finish(life.consumer.dispatcher.close(abort=True))
        assert len(self.sends) == sends, "an attempt started after the drain"
        self._end(life)
        return left[0]

    def _end(self, life: Life) -> None:
        self.checker.died()
        for letter in simulated_life.take_new(self.store):
            self.checker.kept(letter)
        life.let_go()
        life.status_page.close()
        self._life = None

    @property
    def lives(self) -> bool:
        """Whether there is an owner that has not failed."""
        return self._life is not None and self._life.failure is None

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.timers.advance(seconds)

    def retain(self) -> None:
        """Delete all records below the published retention floor."""
        floor = self.status_page[StatusField.KEEP_FROM]
        if floor > self.log.start():
            self.log.drop(min(floor, self.log.durable_end()))
            routes = {backfill.route for backfill in self.store.kept_backfills.values()}
            self.checker.deleted(self.log.start(), routes)

    def end_used_up(self) -> None:
        """Delete routes that have made all their deliveries, as the control leader does."""
        for route in simulated_life.used_up(self.reservations, self.targets, self._routes):
            self.delete_route(route)

    def at_rest(self) -> bool:
        """Whether nothing waits, durably."""
        waits = self.checker.open_count or self.store.kept_rows or self.store.kept_backfills
        runs = simulated_life.runs_are_done(self.targets.asked, self.store)
        return self.lives and not waits and runs and self.cursor == self.log.durable_end()

    def rest(self) -> None:
        """Heal every sink, resume every route, and wait until all is done, ``REST_S_MAX`` long."""
        self.sinks.clear()
        self.targets.unhalt_all()
        self.reservations.failing = self.history.failing = False
        until_s = self.clock.monotonic_s() + REST_S_MAX
        while not self.at_rest() and self.clock.monotonic_s() < until_s:
            if not self.lives:
                self.replace()
            self.end_used_up()
            self.advance(1.0)
        self.checker.finish()
        self.history.complete(self.checker.ended(), self.advance)
        self.advance(STORED_EVERY_S + 1.0)
        self.tally_checker.check(self.tallies.kept, self.targets.now, lives=self.lives)
        assert not self.store.kept_rows, f"rows that never end: {self.store.kept_rows}"
        assert not self.store.kept_backfills, f"lags that never end: {self.store.kept_backfills}"
        assert self.cursor == self.log.durable_end(), "the cursor stands still"

    def replace(self) -> None:
        """Replace a failed owner, as a supervisor does."""
        self.files.failing = self.store.failing = self.reservations.failing = False
        if self._life is not None:
            self.crash()
        self.start()

    def close(self) -> None:
        """Close everything."""
        if self._life is not None:
            self.crash()
        self.store.close()
        self.reservations.close()
