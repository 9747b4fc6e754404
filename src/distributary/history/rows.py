"""Rows of the history: recorded while an owner delivers, and encoded as one block for each flush.

A row is an attempt, or an outcome that no attempt brought; the attempt that brings an outcome has
it in its own row. A block names each event and each route once. Deliveries that succeed at the
first attempt, nearly all rows, are kept as they are until the flush, which makes columns of them
(``plain``): a tenth of a microsecond while they are recorded.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from distributary.core.errors import StoreError
from distributary.core.event import Event, binary
from distributary.core.event.binary import BinaryEvent
from distributary.core.flow import Attempt, DoneKey, Ending, Position, Stage, Task
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict
from distributary.history.plain import (
    NO_ROWS,
    OFFSETS,
    WIDTH,
    Plain,
    each_of,
    numbers,
    packed,
)

STAGES: Final = (None, "event", "dead-letter", "reply")
"""By the number of ``flow.Stage``."""
DECISIONS: Final = tuple(decision.value for decision in Decision)
"""By the number in a row. Blocks outlive a version: append only."""
OUTCOMES: Final = (None, "delivered", "dead-lettered", "dropped")
"""By the number of ``flow.Ending``; None: the match goes on."""
ANSWER_BYTES_MAX: Final = 1024
"""Bytes kept of the answer of a failed attempt: as many as a dead letter quotes."""
VALUE_CHARS_MAX: Final = 1024
"""Longer attribute values are truncated, which bounds the length of a row."""
ROUTES_KNOWN_MAX: Final = 10_000
"""Routes whose names are remembered after their deletion, for what is dropped with them."""

_NUMBERS: Final = {decision: number for number, decision in enumerate(Decision)}
_DELIVERED: Final = _NUMBERS[Decision.DELIVERED]
_NO_NAMES: Final = None, None, None
# A constant: a member read from its enumeration costs as much as several calls.
_PRIMARY: Final = Stage.PRIMARY
_REPLY: Final = Stage.REPLY
_ENDED_WELL: Final = Ending.DELIVERED


class RouteNames(NamedTuple):
    """What people call a route.

    Attributes:
        namespace: Of its subscription or Trigger; None: unknown.
        subscription: Its id or name; None: unknown.
        revision: The newest one; None: unknown.
    """

    namespace: str | None
    subscription: str | None
    revision: int | None


class EventNames(NamedTuple):
    """What identifies an event: its position, and its attributes, if they are known."""

    offset: int
    index: int  # type: ignore[assignment]  # a tuple's method, which nobody calls
    id: str | None
    source: str | None
    type: str | None


class Row(NamedTuple):
    """One row of a block.

    Attributes:
        event: Place of the event in the block.
        route: Place of the route in the block.
        time_ms: Wall clock, milliseconds.
        stage: Number of the stage; None: no attempt.
        attempt: Number of the attempt, from 1; None: no attempt.
        duration_us: From the start of the attempt to its answer, microseconds.
        status: Of the answer; None: there was none, or the protocol has no status.
        decision: Place in ``DECISIONS``; None: no attempt.
        reason: Of the decision, or of the outcome.
        outcome: Place in ``OUTCOMES``; 0: none yet.
        answer: The beginning of the answer of a failed attempt; None: there was none, or it may
            not be kept. Rows of earlier versions end before it.
    """

    event: int
    route: int
    time_ms: int
    stage: int | None
    attempt: int | None
    duration_us: int | None
    status: int | None
    decision: int | None
    reason: str | None
    outcome: int
    answer: str | None = None


class Block(NamedTuple):
    """The content of a block.

    Attributes:
        events: What ``rows`` are about.
        routes: Uids and names.
        rows: The rows after those of ``plain``.
        plain: The first rows. Blocks of earlier versions end before it.
    """

    events: list[EventNames]
    routes: list[tuple[str, str | None, str | None, int | None]]
    rows: list[Row]
    plain: Plain = NO_ROWS

    def concerns(self, offset: int) -> bool:
        """Whether a row is about an event of the record *offset*."""
        if offset in numbers(OFFSETS, self.plain.offsets):
            return True
        return any(event.offset == offset for event in self.events)

    def in_full(self) -> "Block":
        """Returns the same rows, in their order, without ``plain``: for few of them."""
        events, places, rows = list(self.events), dict[int, int](), list[Row]()
        for each in each_of(self.plain):
            place = places.setdefault(each.offset, len(events))
            if place == len(events):
                events.append(EventNames(each.offset, 0, each.id, each.source, each.type))
            rows.append(
                Row(
                    event=place,
                    route=each.route,
                    time_ms=each.time_ms,
                    stage=int(Stage.PRIMARY),
                    attempt=1,
                    duration_us=each.duration_us,
                    status=each.status,
                    decision=_DELIVERED,
                    reason=None,
                    outcome=int(Ending.DELIVERED),
                )
            )
        return Block(events, self.routes, rows + self.rows)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Block)


def decode(rows: bytes) -> Block:
    """Decode the rows of a block.

    Raises:
        StoreError: They are not what ``Recorder.take`` encodes: a newer version wrote them.
    """
    try:
        block = _decoder.decode(rows)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreError(f"the journal's rows of the history cannot be read: {error}") from error
    block.plain.check()
    return block


class Recorder:
    """Collects the rows of one partition until the next flush.

    Args:
        partition: Partition number.
        names: Returns the names of the route with a uid; None: unknown.
        failures_only: Leave out deliveries that succeed at the first attempt.
    """

    def __init__(
        self,
        partition: int,
        names: Callable[[str], RouteNames | None],
        *,
        failures_only: bool = False,
    ) -> None:
        self._partition = partition
        self._names = names
        self._failures_only = failures_only
        self._known: dict[str, RouteNames] = {}
        self._last: tuple[Attempt, Verdict, int] | None = None
        """The last attempt, whose row waits for what it ends."""
        self._begin()

    def _begin(self) -> None:
        self._plain: list[Any] = []
        self._rows: list[tuple[object, ...]] = []
        self._events: list[tuple[object, ...]] = []
        self._places: dict[Position, int] = {}
        self._routes: list[tuple[object, ...]] = []
        self._route_places: dict[str, int] = {}

    def attempted(self, attempt: Attempt, verdict: Verdict, now_ms: int) -> None:
        """Record *attempt*; ``ended`` may follow."""
        last = self._last
        if last is not None:
            self._put(last, 0)
        self._last = attempt, verdict, now_ms

    def succeeded(self, attempt: Attempt, key: DoneKey, now_ms: int) -> None:
        """Record *attempt*, by which the match *key* was delivered to its sink."""
        last = self._last
        if last is not None:
            self._last = None
            self._put(last, 0)
        task, answer = attempt.task, attempt.answer
        event = task.event
        if type(answer) is Reply and type(event) is BinaryEvent and task.attempt == 1:
            if self._failures_only:
                return
            place = self._route_places.get(key[2])
            if place is None:
                place = self._route(key[2])
            # One after the other, so that nothing of the attempt is kept, and no data (``head``).
            head = event.record[: event.data_at]
            self._plain += key[0], place, now_ms, attempt.duration_s, answer.status, head
        else:
            self._put((attempt, DELIVERED, now_ms), _ENDED_WELL)

    def ended(
        self, key: DoneKey, ending: Ending, reason: str | None, now_ms: int, task: Task | None
    ) -> None:
        """Record the outcome of a match, with the attempt that brought it if it is the last one."""
        last, self._last = self._last, None
        if last is not None:
            attempt, verdict, tried_ms = last
            of = attempt.task
            if of is task and ending is _ENDED_WELL and verdict is DELIVERED:
                if of.stage is _PRIMARY:
                    self.succeeded(attempt, key, tried_ms)
                else:
                    self._put(last, ending, reason)
                return
            if of is task or (of.route == key.route and of.position[1:] == key[:2]):
                self._put(last, ending, reason)
                return
            self._put(last, 0)
        self._put_alone(key, ending, reason, now_ms, task)

    def _put_alone(
        self, key: DoneKey, ending: Ending, reason: str | None, now_ms: int, task: Task | None
    ) -> None:
        """Append the row of an outcome that no attempt brought."""
        offset, index, route = key
        partition = -1 if task is None else task.position[0]
        event = self._event(
            Position(partition, offset, index), None if task is None else task.event
        )
        row = event, self._route(route), now_ms, None, None, None, None, None, reason, int(ending)
        self._rows.append(row)

    def _put(self, last: tuple[Attempt, Verdict, int], ending: int, why: str | None = None) -> None:
        """Append the row of an attempt."""
        attempt, verdict, now_ms = last
        task, answer = attempt.task, attempt.answer
        status = answer.status if type(answer) is Reply else None
        decision, reason, said = _DELIVERED, why, None
        if verdict is not DELIVERED:
            decision, reason = _NUMBERS[verdict.decision], why or verdict.reason
            if type(answer) is Reply and answer.body:
                # The transport has cut secrets, and what no subscriber may see of its sink.
                said = answer.body[:ANSWER_BYTES_MAX].decode("utf-8", "replace")
        elif self._failures_only and task.attempt == 1 and ending == Ending.DELIVERED:
            return
        place = self._places.get(task.position)
        if place is None:
            place = self._event(task.position, task.event if task.stage is not _REPLY else None)
        route = self._route_places.get(task.route)
        if route is None:
            route = self._route(task.route)
        duration_us = int(attempt.duration_s * 1e6)
        stage = int(task.stage)
        row: tuple[object, ...] = (
            place,
            route,
            now_ms,
            stage,
            task.attempt,
            duration_us,
            status,
            decision,
            reason,
            ending,
        )
        self._rows.append(row if said is None else (*row, said))

    def _put_odd(self, values: list[Any]) -> None:
        """Append the row of a delivery at the first attempt that is not to be in columns."""
        offset, route, time_ms, duration_s, status, head = values
        place = self._event(Position(self._partition, offset, 0), binary.decode(head))
        us = int(duration_s * 1e6)
        delivered = status, _DELIVERED, None, int(_ENDED_WELL)
        self._rows.append((place, route, time_ms, int(_PRIMARY), 1, us, *delivered))

    def _event(self, position: Position, event: Event | None) -> int:
        """Place of an event in the block."""
        place = self._places.get(position)
        if place is None:
            place = self._places[position] = len(self._events)
            names: tuple[str | None, ...] = _NO_NAMES
            if event is not None:
                names = _cut(event.text("id")), _cut(event.text("source")), _cut(event.text("type"))
            self._events.append((position[1], position[2], *names))
        return place

    def _route(self, uid: str) -> int:
        """Place of a route in the block."""
        place = self._route_places.get(uid)
        if place is None:
            place = self._route_places[uid] = len(self._routes)
            names = self._names(uid)
            if names is not None:
                if len(self._known) >= ROUTES_KNOWN_MAX:
                    self._known.clear()
                self._known[uid] = names
            self._routes.append((uid, *(names or self._known.get(uid) or _NO_NAMES)))
        return place

    def take(self) -> tuple[int, bytes]:
        """Returns the rows since the last call: how many, and their encoding."""
        last, self._last = self._last, None
        if last is not None:
            self._put(last, 0)
        plain = NO_ROWS
        if self._plain:
            plain, odd = packed(self._plain)
            for at in range(0, len(odd), WIDTH):
                self._put_odd(odd[at : at + WIDTH])
        count = plain.length + len(self._rows)
        if not count:
            return 0, b""
        content: tuple[object, ...] = self._events, self._routes, self._rows
        # Without such rows the block is one that earlier versions read too.
        encoded = _encoder.encode((*content, plain) if plain.offsets else content)
        self._begin()
        return count, encoded


def _cut(value: str | None) -> str | None:
    return value if value is None or len(value) <= VALUE_CHARS_MAX else value[:VALUE_CHARS_MAX]
