"""Every step that the life of a match allows, made by the engine alone, with its effects."""

import itertools
from types import SimpleNamespace

import pytest

from distributary.core.deliver import Admission, BreakerState, Destination, QueueState
from distributary.core.demand import Demand
from distributary.core.engine import LIFE, EngineLimits, MatchState, RouteTarget, Step
from distributary.core.engine.cuts import Cuts
from distributary.core.engine.effects import Effects
from distributary.core.engine.machine import Engine
from distributary.core.engine.reads import NoTask
from distributary.core.engine.state import PartitionState
from distributary.core.event import Event
from distributary.core.flow import (
    Attempt,
    DoneKey,
    Mark,
    Origin,
    Position,
    RouteRecord,
    Stage,
    Task,
)
from distributary.core.meter import Meter
from distributary.core.outcome import ReservationAnswer, RetryRow
from distributary.core.policy import DeliveryPolicy, Reply
from kit.simulation.life_checker import LifeChecker, transitions

SINK, DEAD, BACK = "http://sink.example/", "http://dead.example/", "http://back.example/"
ROUTE = "r"
POLICY = DeliveryPolicy(retry=1, backoff_delay_s=1.0)
RECORD = RouteRecord(seq=1, op="put", uid=ROUTE, revision=1)
ROWS = {MatchState.RESERVING, MatchState.WAITING, MatchState.DEFERRED, MatchState.READING}
"""States in which a row stands already."""
ACTING = {effect for row in LIFE.values() for effect in row.effects} - {"ask_reservations"}
"""Effects that send, write or read; a reservation is given back at any time."""


class _Backfills:
    """Says which matches a backfill has."""

    def __init__(self):
        self.by_route, self.open = {}, []
        self.all = False

    def covers(self, _route, offset, _index):
        return self.all or any(offset >= row.start for row in self.by_route.get(ROUTE, ()))

    def backfilling(self, _route):
        return bool(self.by_route) and not self.all

    def began_after(self, *_place):
        return False

    def add(self, row):
        self.by_route.setdefault(row.route, []).append(row)

    def holds(self, task):
        return task in self.open

    def finish(self, task):
        if task not in self.open:
            return False
        self.open.remove(task)
        return True

    def wake_for(self, _name):
        pass

    def wake(self):
        pass

    def drop(self, _route):
        return []


class Rig:
    """An engine, and verbs that bring one match from state to state."""

    def __init__(self):
        self.called, self.sent, self.offsets = [], [], itertools.count(1)
        self.admission = {}
        self.queued, self.batch, self.told, self.taken = [], [], [], []
        self.targets, self.records = {}, {ROUTE: RECORD}
        self.checker = LifeChecker()
        self.checker.met = type(self.checker.met)()
        self.lane_state = QueueState(
            SINK, 10, 0, 1, 1, BreakerState.CLOSED, 20_000.0, 0.1, 0.0, 0.0
        )
        self.full_is_exhausted = True
        self.task = None
        self.named = {"sink": Destination(SINK, policy=POLICY), "dead_letter": None, "revision": 1}
        self._target()
        effects = Effects(
            send=self._send,
            send_again=self._send,
            take_queued=self._take_queued,
            queue=lambda _name: self.lane_state if self.full_is_exhausted else None,
            is_open=lambda _name: False,
            probe=lambda _name: None,
            cut_off=lambda: [SINK],
            watch=self.checker.step,
            chance=lambda: 0.5,
            **{
                name: self._noting(name)
                for name in [
                    "done",
                    "backfilled",
                    "put_row",
                    "forget_row",
                    "put_backfill",
                    "end_backfill",
                    "read_log",
                    "find_lost",
                    "keep",
                    "put_parked",
                    "ask_reservations",
                    "read",
                    "wake_at",
                    "drained_soon",
                    "attempted",
                    "succeeded",
                    "ended",
                    "report",
                    "warn",
                ]
            },
        )
        table = SimpleNamespace(record=self.records.get, matches=None)
        self.state = PartitionState(
            partition=0,
            mark=Mark(0, 0),
            follower=SimpleNamespace(table=table, changed_at=lambda _route: 0),
            targets=SimpleNamespace(
                get=self.targets.get,
                sees=lambda _seq: True,
                all_go_to=lambda _uri: False,
                changed_uris=list,
                demands=lambda _seq: [],
                halted=frozenset,
            ),
            effects=effects,
            meter=Meter(),
            limits=EngineLimits(),
        )
        self.state.backfills = _Backfills()
        self.engine = Engine(self.state)
        self.engine.at(1.0, 1_000)

    def _noting(self, name):
        def note(*told):
            self.called.append(name)
            self.told.append((name, told))

        return note

    def _send(self, task, destination):
        admission = self.admission.get(destination.uri, Admission.ADMITTED)
        if admission is Admission.ADMITTED:
            self.called.append("send")
            self.sent.append((task, destination.uri))
            self.queued.append(task)
        return admission

    def _take_queued(self, name):
        self.taken.append(name)
        taken, self.queued = self.queued, []
        return taken

    def _target(self, **changed):
        self.named |= changed
        self.targets[ROUTE] = RouteTarget(**self.named)

    def _answer(self, answer):
        task, uri = self.sent[-1]
        if task in self.queued:
            self.started()
        self.engine.attempted(Attempt(task, answer, 0.1, uri))

    def _rows_read(self, task):
        rows = self.state.reads.take_batch()
        self.engine.rows_read([(row, task or self._reread(row)) for row in rows])

    def _reread(self, row):
        place = Position(0, row.key.offset, 0)
        return Task(place, 7, ROUTE, self.task.event, row.stage, row.attempt, 1, Origin.RETRY)

    # -- the subscription ---------------------------------------------------------------------

    def counted(self):
        self._target(events_max=5)

    def replying(self):
        self._target(reply=Destination(BACK, policy=POLICY), reply_kept=True)

    def with_dead_letters(self):
        self._target(dead_letter=Destination(DEAD, policy=POLICY))

    def without_dead_letters(self):
        self._target(dead_letter=None)

    def without_replies(self):
        self._target(reply=None)

    def elsewhere(self):
        self.admission[SINK] = Admission.FULL
        self._target(reply=Destination(SINK, policy=POLICY))

    def trying_once(self):
        self._target(sink=Destination(SINK, policy=DeliveryPolicy(retry=0)))

    def deleted(self):
        self.targets.clear()
        self.records.clear()

    # -- destinations -------------------------------------------------------------------------

    def full(self):
        self.admission[SINK] = self.admission[DEAD] = Admission.FULL
        self.full_is_exhausted = False

    def nearly_full(self):
        self.admission[SINK] = Admission.FULL
        self.full_is_exhausted = True

    def back_full(self):
        self.admission[BACK] = Admission.FULL

    def with_room(self):
        self.admission.clear()
        self.engine.drained(SINK)

    def asked_again(self):
        for uri in (SINK, DEAD, BACK):
            self.engine.drained(uri)

    def without_memory(self):
        self.state.limits = EngineLimits(reply_bytes_max=0)

    # -- matches ------------------------------------------------------------------------------

    def _made(self, origin):
        offset = next(self.offsets)
        event = Event({"specversion": "1.0", "id": f"{offset}", "source": "/", "type": "t"}, b"x")
        return Task(Position(0, offset, 0), 7, ROUTE, event, Stage.PRIMARY, 1, 1, origin)

    def match(self):
        self.task = self._made(Origin.LIVE)
        self.state.tracker.take(self.task.position.offset, 7, [self.task])
        self.engine.sending.take(self.task)

    def pinned(self):
        """Nothing may wait in the log any longer."""
        self.engine.set_budget(Cuts(others=1_000))

    def backfilled(self):
        self.task = self._made(Origin.BACKFILL)
        self.state.backfills.open.append(self.task)
        return self.engine.sending.offer_backfill(self.task)

    def redriven(self):
        key = DoneKey(next(self.offsets), 0, ROUTE)
        self.engine.outcomes.send_again(
            RetryRow(key, 7, Stage.PRIMARY, 1, 0, None, done=False, event=b"e")
        )

    def overtaken(self):
        """A backfill begins before the match."""
        self.state.backfills.by_route[ROUTE] = []
        self.state.backfills.all = True

    def behind_a_backfill(self):
        """A backfill has begun behind the match."""
        self.state.backfills.by_route[ROUTE] = [SimpleNamespace(start=99)]

    # -- what comes back ----------------------------------------------------------------------

    def offered_again(self):
        self.engine.sending.offer_held()

    def started(self):
        task = self.sent[-1][0]
        self.queued.remove(task)
        self.checker.started(str(task.event.attributes["id"]), task.route, task.stage)

    def ok(self):
        self._answer(Reply(204, None, None, b""))

    def busy(self):
        self._answer(Reply(503, None, None, b""))

    def no(self):
        self._answer(Reply(400, None, None, b""))

    def replied(self):
        event = Event({"specversion": "1.0", "id": "back", "source": "/", "type": "t"}, None)
        self._answer(Reply(200, None, None, b"", event=event))

    def granted(self):
        self._reservation_answered(ReservationAnswer.HELD)

    def short(self):
        self._reservation_answered(ReservationAnswer.WAIT)

    def _reservation_answered(self, grant):
        batch = self.state.reservations.take_batch()
        self.engine.reservations_answered(batch, [grant] * len(batch.requests))

    def late(self):
        self.engine.at(self.state.now_s + 3_600.0, self.state.now_ms + 3_600_000)

    def due(self):
        self.late()
        self.engine.due()

    def has_reservation(self):
        self.late()
        self.engine.drained(f"slot of {ROUTE}")

    def out_of_memory(self):
        for key in list(self.state.rows.rows):
            self.state.rows._let_go(key)

    def read(self):
        self._rows_read(None)

    def stored_later(self):
        self._rows_read(NoTask.LATER)

    def gone_from_the_log(self):
        self._rows_read(NoTask.VOID)

    def breaker_opens(self):
        self.engine.sending.yield_closed_queues()

    def destination_changed(self):
        self.full_is_exhausted = True
        self.engine.sending.take_back(SINK)

    def spilled(self):
        self.engine.outcomes.demote(self.task)

    def voided(self):
        rows = [*self.state.rows.rows, *self.state.rows.finished]
        self.engine.outcomes.void(rows[0])


SCENARIOS = """
MATCHED HOLD: nearly_full match
IN_FLIGHT HOLD: replying back_full match started replied
QUEUED HOLD: replying match started replied breaker_opens
MATCHED RESERVE: counted match
HELD RESERVE: nearly_full match counted offered_again
WAITING RESERVE: counted match granted started busy due
DEFERRED RESERVE: counted match short has_reservation
READING RESERVE: match started busy out_of_memory due counted read
BACKFILLING RESERVE: counted backfilled
MATCHED QUEUE: match
HELD QUEUE: nearly_full match with_room offered_again
RESERVING QUEUE: counted match granted
QUEUED QUEUE: match destination_changed
IN_FLIGHT QUEUE: replying match started replied
WAITING QUEUE: match started busy due
DEFERRED QUEUE: full behind_a_backfill match with_room
READING QUEUE: match started busy out_of_memory due read
BACKFILLING QUEUE: backfilled
QUEUED START: match started
MATCHED BEGIN_BACKFILL: full match
HELD BEGIN_BACKFILL: nearly_full match full offered_again
QUEUED BEGIN_BACKFILL: match breaker_opens
MATCHED LEAVE_TO_BACKFILL: overtaken match
HELD LEAVE_TO_BACKFILL: nearly_full match overtaken offered_again
QUEUED LEAVE_TO_BACKFILL: match overtaken breaker_opens
MATCHED DEFER: full behind_a_backfill match
HELD DEFER: nearly_full match full behind_a_backfill offered_again
RESERVING DEFER: counted match short
QUEUED DEFER: behind_a_backfill match breaker_opens
WAITING DEFER: match started busy full due
READING DEFER: match started busy out_of_memory full due read
DEFERRED DEFER: full behind_a_backfill match asked_again
HELD DEMOTE: nearly_full match spilled
QUEUED DEMOTE: match spilled
IN_FLIGHT DEMOTE: match started spilled
IN_FLIGHT RETRY: match started busy
HELD RETRY: replying back_full match started replied without_memory elsewhere asked_again
QUEUED RETRY: replying match started replied without_memory breaker_opens
IN_FLIGHT TURN_TO_DEAD_LETTER: with_dead_letters match started no
HELD TURN_TO_DEAD_LETTER: replying with_dead_letters trying_once back_full match started replied \
without_memory elsewhere asked_again
QUEUED TURN_TO_DEAD_LETTER: replying with_dead_letters trying_once match started replied \
without_memory breaker_opens
WAITING READ: match started busy out_of_memory due
DEFERRED READ: full behind_a_backfill match out_of_memory asked_again
RESERVING READ: counted match out_of_memory granted
READING AWAIT_EVENT: match started busy out_of_memory due stored_later
IN_FLIGHT DELIVER: match started ok
HELD DELIVER: replying back_full match started replied without_replies asked_again
QUEUED DELIVER: replying match started replied without_replies breaker_opens
IN_FLIGHT KEEP: match started no
HELD KEEP: replying trying_once back_full match started replied without_memory elsewhere asked_again
QUEUED KEEP: replying trying_once match started replied without_memory breaker_opens
WAITING KEEP: with_dead_letters match started no without_dead_letters due
DEFERRED KEEP: with_dead_letters match started no full due without_dead_letters asked_again
BACKFILLING KEEP: pinned backfilled
READING KEEP: with_dead_letters match started no out_of_memory due without_dead_letters read
MATCHED DROP: deleted match
HELD DROP: nearly_full match deleted offered_again
RESERVING DROP: counted match deleted granted
QUEUED DROP: match deleted destination_changed
IN_FLIGHT DROP: match started deleted busy
WAITING DROP: match started busy deleted due
DEFERRED DROP: full behind_a_backfill match deleted asked_again
READING DROP: match started busy out_of_memory due deleted read
BACKFILLING DROP: deleted backfilled
WAITING VOID: match started busy voided
DEFERRED VOID: full behind_a_backfill match voided
READING VOID: match started busy out_of_memory due gone_from_the_log
DONE VOID: match started busy due started ok voided
DONE SEND_AGAIN: redriven
"""
"""For each transition of the table the verbs of which the last one makes it."""


def scenarios():
    """By transition."""
    found = {}
    for line in SCENARIOS.strip().splitlines():
        name, verbs = line.split(": ")
        state, step = name.split()
        found[MatchState[state], Step[step]] = verbs.split()
    return found


def test_each_transition_of_the_table_has_a_scenario():
    """And no scenario is of a transition that the table does not allow."""
    assert set(scenarios()) == set(transitions())


@pytest.mark.parametrize(
    ("transition", "verbs"),
    [
        pytest.param(*item, id="-".join(part.name for part in item[0]))
        for item in scenarios().items()
    ],
)
def test_a_transition_is_made_from_its_state_with_its_effects(transition, verbs):
    """It sends and writes what the table says, and nothing else."""
    state, step = transition
    rig = Rig()
    for verb in verbs[:-1]:
        getattr(rig, verb)()
    assert not rig.checker.met[transition], "the last verb is to make the step"
    del rig.called[:]
    getattr(rig, verbs[-1])()
    assert rig.checker.met[transition] == 1
    called, allowed = set(rig.called), set(LIFE[step].effects)
    assert called & ACTING <= allowed
    assert called & allowed or not allowed or state in ROWS


def test_what_is_put_back_is_left_to_a_backfill_that_has_begun_before_it():
    """A task before it was refused there: sent as well, its event would arrive twice."""
    rig = Rig()
    rig.match()
    rig.overtaken()
    del rig.called[:]
    rig.destination_changed()
    assert "send" not in rig.called
    assert not rig.state.tracker.holds(rig.task)


def test_a_resumed_route_has_not_failed_while_it_was_parked():
    """Else its first failure would disable it at once, for a time in which nothing was sent."""
    rig = Rig()
    rig._target(parks=True)
    rig.state.failing.refused(ROUTE, SINK, 1_000)
    rig.match()
    rig.started()
    rig._answer(Reply(410, None, None, b""))
    assert rig.state.parked
    resume = Demand(1, "resume", ROUTE, "x", 1_000)
    rig.state.targets.demands = lambda seen: [] if seen else [resume]
    assert rig.state.failing.reported(ROUTE).since_ms == 1_000
    rig.engine.look()
    assert not rig.state.parked
    assert rig.state.failing.reported(ROUTE) is None


def test_the_queue_of_many_routes_that_are_paused_at_once_is_taken_back_once():
    """However many share it: each time it may hold thousands of matches of others."""
    rig = Rig()
    others = [f"other-{number}" for number in range(300)]
    rig.targets |= dict.fromkeys(others, rig.targets[ROUTE])
    rig.state.targets.halted = lambda: frozenset(others)
    rig.match()
    rig.engine.resources_changed()
    assert (rig.taken, rig.queued) == ([SINK], [rig.task])
