"""The outcome checker of a simulation: a naive model of what must happen to each match.

Called by ``partition`` with everything observable: published events, arrivals at sinks, answers,
and what became durable. Fails at the first violation of a promise of DESIGN section 1.
"""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from distributary.core.deliver import BLOCKED
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import TTL_ATTRIBUTE, Attempt, DoneKey, Position, Stage
from distributary.core.outcome import BackfillRow, DeadLetter, RetryRow
from distributary.core.policy import Reply
from kit.simulation.sinks import origin_id, reply_to

__all__ = ["Fate", "OutcomeChecker"]

GONE = 410
"""Status of a removed sink: the attempt does not count."""
_ADDED_NAMES = frozenset(
    {"knativeerrordest", "knativeerrorcode", "knativeerrordata", TTL_ATTRIBUTE}
)


@dataclass(slots=True, eq=False)
class Fate:
    """The state of one (event, matching route).

    Attributes:
        position: Position of the event.
        route: Uid of the route.
        event: The event.
        final: Its outcome: ``delivered``, ``dead-lettered``, ``kept`` or ``dropped``; None: open.
        final_life: The owner that brought it there, counted from 1.
        durable: Whether the outcome is on the medium.
        unsure: It had its outcome when an owner died, perhaps before that was on the medium.
        numbers: Attempt numbers that were answered, by stage, each with its owner.
        durable_number: The last of them that is on the medium, by stage.
        replied: The owner whose attempt brought a reply that has not been taken, and the number of
            that attempt.
        created_at: Where its route was created, if that lies behind it: the route begins in the
            past.
    """

    position: Position
    route: str
    event: Event
    final: str | None = None
    final_life: int = 0
    durable: bool = False
    unsure: bool = False
    numbers: dict[Stage, list[tuple[int, int]]] = field(default_factory=dict)
    durable_number: dict[Stage, int] = field(default_factory=dict)
    replied: tuple[int, int] | None = None
    created_at: int | None = None

    @property
    def key(self) -> DoneKey:
        """The match, as the outcome room names it."""
        return DoneKey(self.position.offset, self.position.index, self.route)

    @property
    def open(self) -> bool:
        """True where nothing has come of it yet."""
        return self.final is None and not self.unsure

    def __str__(self) -> str:
        return f"event {self.event.attributes['id']} at {self.position} for {self.route}"


class OutcomeChecker:
    """Keeps the account of one partition.

    Attributes:
        life: Number of the owner that lives, from 1.
        retry_max: Most retries that any revision of any route allows.
        replying: Routes that have a place for replies now. One that loses it may have no reply
            waiting for room: those are dropped untold.
        parking: Routes that an answer 410 parks.
    """

    def __init__(self) -> None:
        self.life = 0
        self.retry_max = 0
        self.replying: set[str] = set()
        self.parking: set[str] = set()
        self._fates: dict[tuple[str, str], Fate] = {}
        self._by_key: dict[DoneKey, Fate] = {}
        self._open: dict[tuple[str, str], Fate] = {}
        self._new: list[tuple[Fate, Stage | None, int]] = []
        self._in_flush = 0
        self._limits: dict[str, int | None] = {}
        self._acknowledged: dict[str, set[DoneKey]] = {}
        self._published: dict[str, tuple[Position, Event]] = {}
        self._at: dict[tuple[int, int], str] = {}
        self._replays: Counter[str] = Counter()
        self._again: Counter[tuple[str, str]] = Counter()
        self._redriving: set[str] = set()

    # -- what is expected ---------------------------------------------------------------------

    def expect(
        self, position: Position, route: str, event: Event, *, created_at: int | None = None
    ) -> None:
        """Expect an outcome of *event* at *position* for *route*, which matches it."""
        fate = Fate(position, route, event, created_at=created_at)
        name = str(event.attributes["id"]), route
        self._fates[name] = self._open[name] = self._by_key[fate.key] = fate

    def published(self, position: Position, event: Event) -> None:
        """Note an event of the log."""
        self._published[str(event.attributes["id"])] = position, event
        self._at[position.offset, position.index] = str(event.attributes["id"])

    def is_noted(self, position: Position) -> bool:
        """Whether ``published`` was told of the event at *position*; of a repeat it is not."""
        return (position.offset, position.index) in self._at

    def replayed(self, route: str) -> None:
        """Note a replay: *route* may get each event once more, or for once."""
        self._replays[route] += 1

    def may_redrive(self, route: str) -> None:
        """Note a redrive of *route*: what is kept of it until then may be sent once more."""
        self._redriving.add(route)

    def _reopen(self, fate: Fate) -> None:
        """Let a run send a match again that has had its outcome."""
        name = str(fate.event.attributes["id"]), fate.route
        again = fate.final == "kept" and fate.route in self._redriving
        if fate.final is not None and not again:
            # Twice: it may have begun before the outcome before it was heard of.
            again = self._again[name] < 2 * self._replays[fate.route]
            self._again[name] += again
        if again:
            self._begin_again(fate)

    def _begin_again(self, fate: Fate) -> None:
        self._in_flush -= sum(entry[0] is fate for entry in self._new[: self._in_flush])
        self._new = [entry for entry in self._new if entry[0] is not fate]
        self._forget_outcome(fate)

    def _perhaps(self, name: str, route: str) -> Fate | None:
        """The match of a replayed event that *route* did not match when it came."""
        if not self._replays[route] or name not in self._published:
            return None
        fate = Fate(self._published[name][0], route, self._published[name][1], unsure=True)
        self._fates[name, route] = self._by_key[fate.key] = fate
        return fate

    def _fate_at(self, key: DoneKey) -> Fate:
        known = self._by_key.get(key)
        fate = known or self._perhaps(self._at.get((key.offset, key.index), ""), key.route)
        assert fate is not None, f"{key} is no match"
        return fate

    @staticmethod
    def _forget_outcome(fate: Fate) -> None:
        fate.final, fate.durable, fate.unsure = None, False, True
        fate.numbers.clear()
        fate.durable_number.clear()

    def limit(self, route: str, events_max: int | None) -> None:
        """A revision of *route* lets it deliver so many events.

        More than any of them allowed it never does. One that had no limit for a while is not
        looked at: what was under way then did not count.
        """
        if events_max is None or route not in self._limits:
            self._limits.setdefault(route, events_max)
        limit = self._limits[route]
        if events_max is None or limit is None:
            self._limits[route] = None
        else:
            self._limits[route] = max(events_max, limit)

    def deleted(self, start: int, backfilling: Container[str]) -> None:
        """Retention has deleted the records below *start*.

        A replay that is not durable yet begins with the rest of its history.
        """
        for name, fate in list(self._open.items()):
            if (
                fate.position.offset < start
                and fate.created_at is not None
                and fate.route not in backfilling
            ):
                del self._open[name], self._fates[name], self._by_key[fate.key]

    def lost(self, from_offset: int, to_offset: int) -> None:
        """The medium lost these records: nothing is expected of them."""
        for name, fate in list(self._fates.items()):
            if from_offset <= fate.position.offset < to_offset:
                del self._fates[name], self._by_key[fate.key]
                self._open.pop(name, None)
        self._new = [entry for entry in self._new if entry[0].key in self._by_key]

    def fates(self) -> list[Fate]:
        """Every match so far."""
        return list(self._fates.values())

    def fate(self, event: str, route: str) -> Fate:
        """What became of the event with this id for *route*."""
        return self._fates[event, route]

    # -- what is seen -------------------------------------------------------------------------

    def sent(self, event: Event, route: str, stage: Stage, *, own: bool = False) -> None:
        """An attempt starts; *own*: to a Broker, which alone gets the hops left."""
        fate = self._fates.get((origin_id(event), route)) or self._perhaps(origin_id(event), route)
        assert fate is not None, f"{event} was sent to {route}, which does not match it there"
        assert own == (TTL_ATTRIBUTE in event.attributes), "who is told the passes left"
        _check_content(event, fate.event, stage)
        self._reopen(fate)
        if stage is Stage.REPLY:
            assert fate.replied is not None, f"the reply to {fate} was sent, and nobody sent it"
            assert fate.replied[0] == self.life, f"the reply to {fate} is of another life"
        assert not (fate.final and fate.durable), f"{fate} was {fate.final}, and is sent again"
        assert not (fate.final and fate.final_life == self.life), f"{fate} is sent twice"

    def answered(self, attempt: Attempt) -> None:
        """An attempt has its answer."""
        task = attempt.task
        fate = self._fates[origin_id(task.event), task.route]
        assert task.position == fate.position
        answer = attempt.answer
        if isinstance(answer, TransportError) and answer.reason == BLOCKED and answer.retryable:
            if task.stage is Stage.REPLY:  # Nor has the delivery that brought it.
                assert fate.numbers[Stage.PRIMARY].pop() == fate.replied
                fate.replied = None
            return  # A setting refused it before it was made: it has cost nothing.
        taken = isinstance(answer, Reply) and 200 <= answer.status < 300
        if task.stage is Stage.REPLY:
            self._reply_answered(fate, taken=taken)
            return
        if task.route in self.parking and isinstance(answer, Reply) and answer.status == GONE:
            fate.numbers.pop(task.stage, None)  # Whoever resumes begins with a first attempt.
            return
        if task.attempt == 1 and task.stage in fate.numbers and self._replays[task.route]:
            self._begin_again(fate)
        numbers = fate.numbers.setdefault(task.stage, [])
        here = [number for life, number in numbers if life == self.life]
        first = fate.durable_number.get(task.stage, 0) + 1
        if here:
            assert task.attempt == here[-1] + 1, f"{fate}: attempt {task.attempt} after {here}"
        else:
            assert task.attempt >= first, f"{fate}: attempt {task.attempt}, {first} was due"
            assert task.attempt <= max([first, *(number + 1 for _, number in numbers)])
        assert task.attempt <= 1 + self.retry_max, f"{fate}: attempt {task.attempt}"
        numbers.append((self.life, task.attempt))
        fate.replied = None
        if task.stage is Stage.PRIMARY and self._brings_reply(attempt):
            fate.replied = self.life, task.attempt  # Nothing of it is done yet.
            return
        if taken:
            if task.stage is Stage.PRIMARY:
                self._count(fate)
            self._end(fate, "delivered" if task.stage is Stage.PRIMARY else "dead-lettered")
        self._new.append((fate, task.stage, task.attempt))

    def _brings_reply(self, attempt: Attempt) -> bool:
        """Whether the delivery waits now until a reply is taken."""
        answer = attempt.answer
        has_event = isinstance(answer, Reply) and answer.event is not None
        return has_event and attempt.task.route in self.replying

    def _reply_answered(self, fate: Fate, *, taken: bool) -> None:
        assert fate.replied is not None
        _, number = fate.replied
        fate.replied = None
        if taken or fate.route not in self.replying:
            self._count(fate)
            self._end(fate, "delivered")
        self._new.append((fate, Stage.PRIMARY, number))

    def _count(self, fate: Fate) -> None:
        acknowledged = self._acknowledged.setdefault(fate.route, set())
        acknowledged.add(fate.key)
        limit = self._limits.get(fate.route)
        assert limit is None or len(acknowledged) <= limit, (
            f"{fate} is delivery {len(acknowledged)} of {limit}"
        )

    def kept(self, dead_letter: DeadLetter) -> None:
        """A dead letter is in the store."""
        fate = self._fate_at(dead_letter.key)
        (event,) = event_record.decode(dead_letter.event)
        _check_content(event, fate.event, Stage.DEAD_LETTER)
        self._end(fate, "kept")
        self._new.pop()
        fate.durable = True

    def dropped(self, fields: dict[str, object]) -> None:
        """The owner reports matches that end without delivery."""
        assert fields["reason"]
        if "to" in fields:
            for name, fate in list(self._open.items()):
                offset = fate.position.offset
                if fate.route == fields["route"] and _within(offset, fields["from"], fields["to"]):
                    # Some of them may still be under way: those get an outcome of their own.
                    fate.unsure = True
                    del self._open[name]
            return
        key = DoneKey(_int(fields["offset"]), _int(fields["index"]), str(fields["route"]))
        self._end(self._fate_at(key), "dropped")

    def redriven(self, route: str) -> None:
        """Note a redrive of the kept dead letters of *route*: any outcome will do."""
        for fate in self._fates.values():
            if fate.route == route and fate.final == "kept" and fate.durable:
                self._forget_outcome(fate)

    def reply_dropped(self, fields: dict[str, object]) -> None:
        """The owner reports a reply that goes nowhere: its delivery is done."""
        assert fields["reason"]
        key = DoneKey(_int(fields["offset"]), _int(fields["index"]), str(fields["route"]))
        fate = self._fate_at(key)
        if fate.replied is not None:
            self._reply_answered(fate, taken=True)

    def _end(self, fate: Fate, final: str) -> None:
        self._reopen(fate)
        assert fate.final is None, f"{fate} was {fate.final}, and now {final}"
        fate.final = final
        fate.final_life = self.life
        self._open.pop((str(fate.event.attributes["id"]), fate.route), None)
        self._new.append((fate, None, 0))

    # -- what is durable ----------------------------------------------------------------------

    def flush_begun(self) -> None:
        """What was seen so far is in the flush that begins."""
        self._in_flush = len(self._new)

    def flush_durable(
        self,
        cursor: int,
        rows: dict[DoneKey, RetryRow],
        backfills: Iterable[BackfillRow],
    ) -> None:
        """Check a durable flush: the cursor is below every match without a row or backfill."""
        for fate, stage, number in self._new[: self._in_flush]:
            if stage is None:
                fate.durable = True
            else:
                fate.durable_number[stage] = number
        del self._new[: self._in_flush]
        self._in_flush = 0
        by_route: dict[str, list[BackfillRow]] = {}
        for backfill in backfills:
            by_route.setdefault(backfill.route, []).append(backfill)
        for fate in self._open.values():
            if max(fate.position.offset, fate.created_at or 0) < cursor:
                row = rows.get(fate.key)
                waits = row is not None and not row.done
                assert waits or any(
                    backfill.holds(fate.position.offset, fate.position.index)
                    for backfill in by_route.get(fate.route, ())
                ), f"the cursor {cursor} has passed {fate}, and no row or lag remembers it"

    def died(self) -> None:
        """The owner has died: what was not durable may happen again."""
        for fate, _, _ in self._new:
            if fate.final is not None and not fate.durable:
                fate.unsure = True
                fate.final = None
        self._new.clear()
        self._in_flush = 0

    @property
    def undurable_count(self) -> int:
        """Answers and outcomes that are not on the medium."""
        return len(self._new)

    def ended(self) -> set[DoneKey]:
        """Matches whose outcome is on the medium."""
        return {fate.key for fate in self._fates.values() if fate.final and fate.durable}

    def finish(self) -> None:
        """Everything has come to rest: every match must have its outcome."""
        left = [str(fate) for fate in self._open.values()]
        assert not left, f"{len(left)} matches without an outcome: {left[:5]}"

    @property
    def open_count(self) -> int:
        """Matches of which nothing has come yet."""
        return len(self._open)


def _covers(backfill: BackfillRow, position: Position) -> bool:
    return backfill.holds(position.offset, position.index)


def _within(offset: int, first: object, end: object) -> bool:
    return _int(first) <= offset < _int(end)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _check_content(sent: Event, published: Event, stage: Stage) -> None:
    dead = stage is Stage.DEAD_LETTER
    assert dead == ("knativeerrordest" in sent.attributes), "error attributes where none belong"
    attributes = {name: v for name, v in sent.attributes.items() if name not in _ADDED_NAMES}
    is_reply = origin_id(sent) != sent.attributes["id"]
    assert is_reply or stage is not Stage.REPLY, "an event was sent where its reply belongs"
    assert not is_reply or stage is not Stage.PRIMARY, "a reply was sent to the sink"
    expected = reply_to(published) if is_reply else published
    assert attributes == expected.attributes, "other attributes than published"
    assert sent.data == expected.data, "other data than published"
