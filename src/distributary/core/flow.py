"""The records that pass between the parts. Read this file and you know the system.

::

    Received -> Logged -> Task -> Attempt -> outcome (+ followups: retry, dead letter)
     ingest      log     route    ---- deliver ----

==========  =========================  ======================================
record      made by                    read by
==========  =========================  ======================================
Received    ``server.ingest``          ``log`` (appended as one record)
Logged      ``log``                    ``engine`` (decoded, matched by ``route``)
Task        ``engine``, one a match    ``deliver`` (sent until an answer)
Attempt     ``deliver``                ``engine`` (classified by ``policy``)
==========  =========================  ======================================

What an attempt means is written down in ``outcome``'s own words: a ``DoneKey`` in the journal,
a ``RetryRow``, or a ``DeadLetter``.

Route records travel in the log beside the events, so that the routes which see an event are
those that stand before it (DESIGN rule 4); ``RouteRecord`` is their body.

The hot path makes one of these for every event and match, so they are tuples or
frozen structs and hold references, never copies.
"""

import enum
import struct
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec

from distributary.core.errors import EventError, Fault
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.policy import Answer

TTL_MAX: Final = 255
"""Most passes through Brokers and Channels that a record can hold: what older logs gave events."""

TTL_DEFAULT: Final = 32
"""Passes through Brokers and Channels that an event has at first, and at most (decision 17). Chains
of people's making have a few; two replying Triggers double an event at each pass."""

PASSES_LEFT_MIN: Final = 2
"""An event is sent to a Broker or Channel with this many passes or more: that takes one, and none
left would be refused there."""

TTL_ATTRIBUTE: Final = "knativebrokerttl"
"""The attribute that carries the passes left from one Broker or Channel to the next. Neither the
log's events nor subscribers have it."""


class RecordKind(enum.IntEnum):
    """What the body of a log record holds."""

    EVENTS = 1
    """One event or one batch: ``event.record.encode``."""
    ROUTE = 2
    """One change of one route: ``encode_route``."""
    ROUTE_SNAPSHOT = 3
    """All routes that stand here: written before retention deletes what is older."""
    TIMER_EVENT = 4
    """An event that a subscription's timer made, for that subscription alone:
    ``encode_timer_event``."""
    ADDRESSED = 5
    """Events published to a Broker or Channel, or with passes left: ``encode_addressed``. Those of
    ``EVENTS`` were published to the default broker and have all their passes."""
    CARRIED = 6
    """The same with header fields that go along with the events: ``encode_carried``."""


class Position(NamedTuple):
    """Where an event stands: unique for ever within one log.

    Attributes:
        partition: Partition number, from 0.
        offset: Sequence number of the record in its partition, from 0.
        index: Place of the event in its record (a batch is one record), from 0.
    """

    partition: int
    offset: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which no position needs


class DoneKey(NamedTuple):
    """A match: the event at (offset, index) of this partition, for one route."""

    offset: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which no key needs
    route: str


class Mark(NamedTuple):
    """A cursor: everything below *offset* is done; *checksum* is of the last record below it.

    ``checksum`` is 0 where that record is not known (an empty log, a gap).
    """

    offset: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Received:
    """Events that one request brought, checked and encoded; all or nothing.

    Attributes:
        body: ``event.record.encode`` of the events, or ``encode_addressed`` or
            ``encode_carried`` of that.
        event_count: How many events, from 1 to the batch limit.
        partition_key: Events with the same key share a partition; None: any partition.
        kind: What ``body`` is: ``EVENTS``, ``ADDRESSED`` or ``CARRIED``.
    """

    body: bytes
    event_count: int
    partition_key: str | None
    kind: RecordKind = RecordKind.EVENTS


class Logged(NamedTuple):
    """A record of one partition, durable (a named tuple: made once an event on the hot path).

    Attributes:
        offset: Its sequence number in the partition.
        time_ms: Wall clock at the append, milliseconds.
        checksum: CRC-32 over the record; an outcome is void if it does not carry the same.
        kind: A ``RecordKind`` (kept as int: an unknown kind is skipped by readers, with a count).
        body: What the appender wrote.
    """

    offset: int
    time_ms: int
    checksum: int
    kind: int
    body: bytes


class Origin(enum.IntEnum):
    """Who brought a task, and so what its outcome lets go."""

    LIVE = 1
    """The live reader: the cursor waits for it."""
    BACKFILL = 2
    """The backfill of the route: its row waits for it."""
    RETRY = 3
    """A durable retry row: neither waits; the row is finished."""


class Stage(enum.IntEnum):
    """Which destination of a route a task goes to."""

    PRIMARY = 1
    """To the sink of the route."""
    DEAD_LETTER = 2
    """To its dead letter sink, after the first stage failed for good."""
    REPLY = 3
    """What the sink answered the event with, to where the route's replies go. No row has this
    stage: the delivery is not done until the reply is taken, and is made again as a whole."""


class Task(msgspec.Struct, frozen=True, eq=False):
    """One attempt to be made: an event, and one destination of one route.

    A further attempt, or another destination, is another task of the same match
    (``msgspec.structs.replace``).

    Attributes:
        position: Where the event stands.
        checksum: Of its record.
        route: Uid of the route.
        event: What is sent (on the dead letter stage: with its error attributes).
        stage: Which destination.
        attempt: Number of the attempt, from 1 for each stage.
        logged_ms: When the record was appended (wall clock): for latency figures.
        origin: Who brought it.
        ttl: Passes through Brokers and Channels that the event has left, from 1.
        carried: Header lines that go along (``event.carried``), where the route is one of
            Knative's kinds; empty: none.
    """

    position: Position
    checksum: int
    route: str
    event: Event
    stage: Stage
    attempt: int
    logged_ms: int
    origin: Origin
    ttl: int = TTL_DEFAULT
    carried: bytes = b""


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """What came of sending a task once.

    Attributes:
        task: What was sent.
        answer: The sink's reply, or why there was none.
        duration_s: From the start of the attempt to its answer, seconds.
        sink: URI that it was sent to: the subscription may have another one by now.
    """

    task: Task
    answer: Answer
    duration_s: float
    sink: str = ""


class RouteRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of one route, as it stands in every partition of the log.

    Holds what decides about matching and nothing else: sinks, headers and credentials stay
    in the store, since any Spark job may read the log (DESIGN rule 4).

    Attributes:
        seq: Number of the change, from 1, one sequence for the whole system. A record whose
            seq is not above the last applied one has been rolled forward twice: ignore it.
        op: ``put`` (create or replace) or ``delete``.
        uid: The route: unique for ever; a recreated id gets a new uid.
        revision: Revision of the resource that these filters belong to, from 1.
        source: Exact match on the event's ``source``; None: any.
        types: Any-of match on the event's ``type``; empty: any.
        filters: Filter expressions (Subscriptions API ``filters``), all must hold; empty: all pass.
        begin_ms: Only on the change that creates a route: it begins in the past, with the first
            record that was appended at this wall-clock time or later, milliseconds; 0: with the
            oldest that is kept. None: with the record after this one. (``config.start``)
        address: Where it listens: uid of a Broker or Channel; empty: the default broker. A route
            sees no event of another address.
        present: Attributes that an event must have, with any value (a Trigger's
            ``filter.attributes`` with an empty string); all of them, by AND with the others.
    """

    seq: int
    op: Literal["put", "delete"]
    uid: str
    revision: int
    source: str | None = None
    types: tuple[str, ...] = ()
    filters: tuple[dict[str, Any], ...] = ()
    begin_ms: int | None = None
    address: str = ""
    present: tuple[str, ...] = ()


_route_decoder = msgspec.json.Decoder(RouteRecord)
_route_encoder = msgspec.json.Encoder()


def encode_route(record: RouteRecord) -> bytes:
    """Body of a log record of kind ``ROUTE`` (JSON, so that people can read the log)."""
    return _route_encoder.encode(record)


def decode_route(body: bytes) -> RouteRecord:
    """The change in *body*.

    Raises:
        EventError: *body* is not a route record. Never skip it: restore it from the store or
            stop the partition (DESIGN rule 4).
    """
    try:
        return _route_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EventError([Fault("$", "route-record", str(error))]) from error


class TimerEvent(NamedTuple):
    """One event that the timer of a subscription made (DESIGN rule 6).

    Attributes:
        uid: The route that alone sees it.
        revision: Of the resource whose timer it is.
        number: Of the timer event, from 1; with uid and revision unique for ever. Some may be
            missing.
        event: The event. The filters of the route apply to it.
    """

    uid: str
    revision: int
    number: int
    event: Event


class _TimerEventBody(msgspec.Struct, frozen=True, array_like=True):
    uid: str
    revision: int
    number: int
    record: bytes


_timer_event_decoder = msgspec.msgpack.Decoder(_TimerEventBody)
_timer_event_encoder = msgspec.msgpack.Encoder()


def encode_timer_event(timer_event: TimerEvent) -> bytes:
    """Body of a log record of kind ``TIMER_EVENT``.

    Raises:
        EventError: The event holds what no event may.
    """
    record = event_record.encode([timer_event.event])
    return _timer_event_encoder.encode(
        _TimerEventBody(timer_event.uid, timer_event.revision, timer_event.number, record)
    )


def decode_timer_event(body: bytes) -> TimerEvent:
    """The timer event in *body*.

    Raises:
        EventError: *body* is not such a record.
    """
    try:
        found = _timer_event_decoder.decode(body)
        (event,) = event_record.decode(found.record)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise EventError([Fault("$", "tick", str(error))]) from error
    return TimerEvent(found.uid, found.revision, found.number, event)


class AddressedEvents(NamedTuple):
    """The events of one record, and for whom they are.

    Attributes:
        address: Uid of the Broker or Channel to which they were published; empty: the default
            broker. A recreated one has another.
        ttls: For each event the passes that it has left, 1 to ``TTL_MAX``.
        events: The events, without the attribute ``knativebrokerttl`` (decision 17).
        carried: Header lines that go along with each of them (``event.carried``).
        route: Uid of the route that alone sees them: a timer of its subscription made them.
            Empty: they are for all routes of *address*.
    """

    address: str
    ttls: tuple[int, ...]
    events: list[Event]
    carried: bytes = b""
    route: str = ""


class _AddressedBody(msgspec.Struct, frozen=True, array_like=True):
    address: str
    ttls: tuple[int, ...]
    record: bytes


_addressed_decoder = msgspec.msgpack.Decoder(_AddressedBody)
_addressed_encoder = msgspec.msgpack.Encoder()


def encode_addressed(address: str, ttls: tuple[int, ...], record: bytes) -> bytes:
    """Body of a log record of kind ``ADDRESSED``.

    Args:
        address: Uid of the Broker or Channel; empty: the default broker.
        ttls: For each event the passes that it has left.
        record: ``event.record.encode`` of the events.
    """
    return _addressed_encoder.encode(_AddressedBody(address, ttls, record))


_CARRIED_HEAD: Final = struct.Struct("<BBHIII")  # format, flags, events, three lengths
_CARRIED_FORMAT: Final = 1  # no body of kind ADDRESSED begins with it


def encode_carried(address: str, ttls: tuple[int, ...], record: bytes, carried: bytes) -> bytes:
    """Body of a log record of kind ``CARRIED``: see docs/design/files.md.

    Args:
        address: Uid of the Broker or Channel; empty: the default broker.
        ttls: For each event the passes that it has left.
        record: ``event.record.encode`` of the events.
        carried: Header lines that go along (``event.carried.lines``).
    """
    place = address.encode()
    head = _CARRIED_HEAD.pack(_CARRIED_FORMAT, 0, len(ttls), len(place), len(carried), 0)
    return b"".join((head, bytes(ttls), place, carried, record))


def address_of(body: bytes) -> str:
    """The address of a record of kind ``ADDRESSED`` or ``CARRIED``, without a look at its events.

    Raises:
        EventError: *body* is not such a record.
    """
    return _addressed_body(body)[0].address


def decode_addressed(body: bytes) -> AddressedEvents:
    """The events in *body*, of kind ``ADDRESSED`` or ``CARRIED``, and where they were published.

    Raises:
        EventError: *body* is not such a record.
    """
    found, carried = _addressed_body(body)
    events = event_record.decode(found.record)
    if len(events) != len(found.ttls):
        raise _not_addressed("as many events as passes")
    return AddressedEvents(found.address, found.ttls, events, carried)


_EVENTS: Final = int(RecordKind.EVENTS)
_ALL_PASSES: Final = (TTL_DEFAULT,)


def events_of(logged: Logged) -> AddressedEvents | None:
    """The events that a record of the log holds, whatever its kind; None: it holds none.

    Raises:
        EventError: The record cannot be read.
    """
    kind = logged.kind
    if kind == _EVENTS:
        events = event_record.decode(logged.body)
        # Once an event on the hot path: the tuple's own constructor takes a third of the time.
        return tuple.__new__(AddressedEvents, ("", _ALL_PASSES * len(events), events, b"", ""))
    if kind in (RecordKind.ADDRESSED, RecordKind.CARRIED):
        return decode_addressed(logged.body)
    if kind == RecordKind.TIMER_EVENT:
        timer_event = decode_timer_event(logged.body)
        return AddressedEvents("", (TTL_DEFAULT,), [timer_event.event], b"", timer_event.uid)
    return None


def events_for(logged: Logged, address: str, route: str) -> AddressedEvents | None:
    """As ``events_of``; None too where none of them is for *route*, which is at *address*.

    Events that were published elsewhere are not decoded.

    Raises:
        EventError: The record cannot be read.
    """
    if logged.kind in (RecordKind.ADDRESSED, RecordKind.CARRIED):
        return decode_addressed(logged.body) if address_of(logged.body) == address else None
    if logged.kind == RecordKind.EVENTS and address:
        return None
    found = events_of(logged)
    return found if found is None or found.route in ("", route) else None


def _addressed_body(body: bytes) -> tuple[_AddressedBody, bytes]:
    try:
        if body[:1] == b"\x01":
            return _carried_body(body)
        return _addressed_decoder.decode(body), b""
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, struct.error) as error:
        raise _not_addressed(str(error)) from error


def _carried_body(body: bytes) -> tuple[_AddressedBody, bytes]:
    _, flags, events, address_bytes, carried_bytes, more = _CARRIED_HEAD.unpack_from(body)
    address_at = _CARRIED_HEAD.size + events
    carried_at = address_at + address_bytes
    record_at = carried_at + carried_bytes
    if flags or more or record_at > len(body):
        raise _not_addressed("flags or sections that are not known, or a section cut short")
    ttls = tuple(body[_CARRIED_HEAD.size : address_at])
    address = body[address_at:carried_at].decode()
    return _AddressedBody(address, ttls, body[record_at:]), body[carried_at:record_at]


def _not_addressed(message: str) -> EventError:
    return EventError([Fault("$", "addressed", message)])


DemandKind = Literal["resume", "redrive", "purge"]


class Demand(NamedTuple):
    """Something that owners are asked to do, each with its own partition.

    Attributes:
        seq: Its number, from 1.
        kind: ``resume``: send to a parked route again. ``redrive``: send kept dead letters again.
            ``purge``: delete them.
        route: Uid of the route; empty: all of them.
        run: Its id, for people; asked for twice it is one.
        asked_ms: Wall clock, milliseconds.
    """

    seq: int
    kind: DemandKind
    route: str
    run: str
    asked_ms: int
