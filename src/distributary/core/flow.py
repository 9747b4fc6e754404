"""The records that pass between the parts, from the received event to its outcome.

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

``outcome`` records what an attempt means: a ``DoneKey`` in the journal, a ``RetryRow``, or a
``DeadLetter``.

Route records are in the log beside the events: an event is matched by the routes below its offset
(DESIGN rule 4, route records). ``RouteRecord`` is their body.

The hot path makes one of these for every event and match, so they are tuples or
frozen structs and hold references, never copies.
"""

import enum
import struct
from typing import Any, Final, Literal, NamedTuple

import msgspec

from distributary.core.errors import EventError, Fault
from distributary.core.event import Event, binary
from distributary.core.event import record as event_record
from distributary.core.policy import Answer

TTL_DEFAULT: Final = 32
"""Initial and largest TTL of an event, in passes through Brokers and Channels (decision 17,
``knativebrokerttl``). Chains made by people have a few; two replying Triggers double an event at
each pass."""

PASSES_LEFT_MIN: Final = 2
"""Lowest TTL with which an event is sent to a Broker or Channel: the pass takes one, and an event
with none left would be rejected there."""

TTL_ATTRIBUTE: Final = "knativebrokerttl"
"""The attribute that carries the TTL from one Broker or Channel to the next. It is removed before
an event is stored, and never sent to subscribers."""


class RecordKind(enum.IntEnum):
    """What the body of a log record holds."""

    EVENTS = 1
    """One event or one batch: ``event.record.encode``."""
    ROUTE = 2
    """One change of one route: ``encode_route``."""
    ROUTE_SNAPSHOT = 3
    """All routes in force here: written before retention deletes older records."""
    TIMER_EVENT = 4
    """An event that a subscription's timer made, only for that subscription:
    ``encode_timer_event``."""
    ADDRESSED = 5
    """Events published to a Broker or Channel, or with a lower TTL: ``encode_addressed``. Those of
    ``EVENTS`` were published to the default broker and have the full TTL."""
    CARRIED = 6
    """The same with carried header fields: ``encode_carried``."""


class Position(NamedTuple):
    """Position of an event in the log: unique for ever within one log.

    Attributes:
        partition: Partition number, from 0.
        offset: Sequence number of the record in its partition, from 0.
        index: Index of the event in its record (a batch is one record), from 0.
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
    """A committed offset: all below *offset* is done; *checksum* is of the last record below it.

    ``checksum`` is 0 if that record is not known (an empty log, a gap).
    """

    offset: int
    checksum: int


class Received(msgspec.Struct, frozen=True):
    """Events of one request, checked and encoded; all or nothing.

    Attributes:
        body: ``event.record.encode`` of the events, or ``encode_addressed`` or
            ``encode_carried`` of that.
        event_count: How many events, from 1 to the batch limit.
        partition_key: Events with the same key share a partition; None: any partition.
        kind: What ``body`` is: ``EVENTS``, ``ADDRESSED`` or ``CARRIED``.
        by: Name of who sent them; empty: nobody was asked.
    """

    body: bytes
    event_count: int
    partition_key: str | None
    kind: RecordKind = RecordKind.EVENTS
    by: str = ""


class Logged(NamedTuple):
    """A record of one partition, durable (a named tuple: made once an event on the hot path).

    Attributes:
        offset: Its sequence number in the partition.
        time_ms: Wall clock at the append, milliseconds.
        checksum: CRC-32 over the record; an outcome with another checksum is void.
        kind: A ``RecordKind`` (as int: readers skip an unknown kind, and count it).
        body: What the appender wrote.
    """

    offset: int
    time_ms: int
    checksum: int
    kind: int
    body: bytes


class Origin(enum.IntEnum):
    """Which reader started a task, and so what waits for its outcome."""

    LIVE = 1
    """The live reader: the committed offset waits for it."""
    BACKFILL = 2
    """The backfill of the route: the backfill row waits for it."""
    RETRY = 3
    """A durable retry row: nothing waits; the row is finished."""
    REPLAY = 4
    """A replay, which sends it again: the position of its run waits for it."""


class Stage(enum.IntEnum):
    """The destination of a route that a task goes to."""

    PRIMARY = 1
    """To the sink of the route."""
    DEAD_LETTER = 2
    """To its dead letter sink, after the first stage failed for good."""
    REPLY = 3
    """The sink's reply, to the destination of the route's replies. No row has this stage: the
    delivery is done only once the reply is accepted, and is repeated as a whole."""


class Ending(enum.IntEnum):
    """How a match ended: its final outcome (DESIGN promise 3)."""

    DELIVERED = 1
    DEAD_LETTERED = 2
    """The dead letter sink has it, or it is kept."""
    DROPPED = 3
    """With a reason."""


class Task(msgspec.Struct, frozen=True, eq=False):
    """One attempt to be made: an event, and one destination of one route.

    A further attempt, or another destination, is another task of the same match
    (``msgspec.structs.replace``).

    Attributes:
        position: Of the event.
        checksum: Of its record.
        route: Uid of the route.
        event: The event to send (on the dead letter stage: with its error attributes).
        stage: Which destination.
        attempt: Number of the attempt, from 1 for each stage.
        logged_ms: When the record was appended (wall clock): for latency figures.
        origin: Which reader started it.
        ttl: Passes through Brokers and Channels that the event has left, from 1.
        carried: Carried header lines (``event.carried``), if the route is one of Knative's
            kinds; empty: none.
        about_route: The event tells of the route itself (``ABOUT_ROUTE``). Its outcome says nothing
            of how the route stands: a sink that refuses to hear that it fails would fail by that.
        replay: Number of the replay that sends it again; 0: none, or a start read it from its row.
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
    about_route: bool = False
    replay: int = 0


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """The result of sending a task once.

    Attributes:
        task: What was sent.
        answer: The sink's response or acknowledgement, or why there was none.
        duration_s: From the start of the attempt to its answer, seconds.
        sink: URI that it was sent to: the subscription may have changed its sink since.
    """

    task: Task
    answer: Answer
    duration_s: float
    sink: str = ""


class RouteRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of one route, as every partition of the log holds it.

    Holds only what matching needs: sinks, headers and credentials stay in the store, since any
    Spark job may read the log (DESIGN rule 4, route records).

    Attributes:
        seq: Number of the change, from 1, one sequence for the whole system. Ignore a record
            whose seq is not above the last applied one: it was rolled forward twice.
        op: ``put`` (create or replace) or ``delete``.
        uid: The route: unique for ever; a recreated id gets a new uid.
        revision: Revision of the resource that these filters belong to, from 1.
        source: Exact match on the event's ``source``; None: any.
        types: Any-of match on the event's ``type``; empty: any.
        filters: Filter expressions (Subscriptions API ``filters``), all must hold; empty: all pass.
        begin_ms: Only on the change that creates a route that begins in the past: with the first
            record appended at this wall-clock time or later, milliseconds; 0: with the oldest
            retained one. None: with the record after this one. (``config.start``)
        address: Uid of the Broker or Channel of the route; empty: the default broker. A route
            matches no event of another address.
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
    """Encode the body of a log record of kind ``ROUTE`` (JSON, so that people can read the log)."""
    return _route_encoder.encode(record)


def decode_route(body: bytes) -> RouteRecord:
    """Decode the change in *body*.

    Raises:
        EventError: *body* is not a route record. Never skip it: restore it from the store or
            stop the partition (DESIGN rule 4, route records).
    """
    try:
        return _route_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EventError([Fault("$", "route-record", str(error))]) from error


ABOUT_ROUTE: Final = 0
"""Number of a timer event that tells of its route, whatever the filters of that are."""

TOLD: Final = "!"
"""``AddressedEvents.address`` of such an event; nothing has this address."""

ABOUT_ROUTE_TYPE: Final = "dev.distributary.subscription."
"""How the ``type`` of such an event begins."""


class TimerEvent(NamedTuple):
    """One event that the timer of a subscription made (DESIGN rule 6, timers).

    Attributes:
        uid: The only route that sees it.
        revision: Of the resource whose timer it is.
        number: Of the timer event, from 1; with uid and revision unique for ever. Numbers may
            be skipped. ``ABOUT_ROUTE``: no timer made it, it tells of the route itself.
        event: The event. The filters of the route apply to it, unless it tells of the route.
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
    """Encode the body of a log record of kind ``TIMER_EVENT``.

    Raises:
        EventError: The event is not valid.
    """
    record = event_record.encode([timer_event.event])
    return _timer_event_encoder.encode(
        _TimerEventBody(timer_event.uid, timer_event.revision, timer_event.number, record)
    )


def decode_timer_event(body: bytes) -> TimerEvent:
    """Decode the timer event in *body*.

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
    """The events of one record, and the routes that they are for.

    Attributes:
        address: Uid of the Broker or Channel that they were published to; empty: the default
            broker. A recreated one has another. ``TOLD``: no filter holds them back.
        ttls: TTL of each event, 1 to 255; above ``TTL_DEFAULT`` in older logs alone.
        events: The events, without the attribute ``knativebrokerttl`` (decision 17).
        carried: Carried header lines of all of them (``event.carried``).
        route: Uid of the only route that sees them, for events of its subscription's timer.
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
    """Encode the body of a log record of kind ``ADDRESSED``.

    Args:
        address: Uid of the Broker or Channel; empty: the default broker.
        ttls: TTL of each event.
        record: ``event.record.encode`` of the events.
    """
    return _addressed_encoder.encode(_AddressedBody(address, ttls, record))


_CARRIED_HEAD: Final = struct.Struct("<BBHIII")  # format, flags, events, three lengths
_CARRIED_FORMAT: Final = 1  # no body of kind ADDRESSED begins with it


def encode_carried(address: str, ttls: tuple[int, ...], record: bytes, carried: bytes) -> bytes:
    """Encode the body of a log record of kind ``CARRIED``: see docs/design/files.md.

    Args:
        address: Uid of the Broker or Channel; empty: the default broker.
        ttls: TTL of each event.
        record: ``event.record.encode`` of the events.
        carried: Carried header lines (``event.carried.lines``).
    """
    place = address.encode()
    head = _CARRIED_HEAD.pack(_CARRIED_FORMAT, 0, len(ttls), len(place), len(carried), 0)
    return b"".join((head, bytes(ttls), place, carried, record))


def address_of(body: bytes) -> str:
    """Return the address of a record of kind ``ADDRESSED`` or ``CARRIED`` without decoding events.

    Raises:
        EventError: *body* is not such a record.
    """
    return _addressed_body(body)[0].address


def decode_addressed(body: bytes) -> AddressedEvents:
    """Decode the events in *body*, of kind ``ADDRESSED`` or ``CARRIED``, and their address.

    Raises:
        EventError: *body* is not such a record.
    """
    found, carried = _addressed_body(body)
    events = event_record.decode(found.record)
    if len(events) != len(found.ttls):
        raise _not_addressed("as many events as passes")
    return AddressedEvents(found.address, found.ttls, events, carried)


# Constants: in Python 3.11 a member read from its enumeration costs as much as several calls.
_EVENTS: Final = int(RecordKind.EVENTS)
_WITH_ADDRESS: Final = int(RecordKind.ADDRESSED), int(RecordKind.CARRIED)
_ALL_PASSES: Final = (TTL_DEFAULT,)


def events_of(logged: Logged) -> AddressedEvents | None:
    """Decode the events of a log record of any kind; None: it holds none.

    Raises:
        EventError: The record cannot be read.
    """
    kind = logged.kind
    if kind == _EVENTS:
        body = logged.body
        event = binary.decode(body)
        events = event_record.decode(body) if event is None else [event]
        # Once an event on the hot path: the tuple's own constructor takes a third of the time.
        return tuple.__new__(AddressedEvents, ("", _ALL_PASSES * len(events), events, b"", ""))
    if kind in _WITH_ADDRESS:
        return decode_addressed(logged.body)
    if kind == RecordKind.TIMER_EVENT:
        timer_event = decode_timer_event(logged.body)
        address = TOLD if timer_event.number == ABOUT_ROUTE else ""
        return AddressedEvents(address, (TTL_DEFAULT,), [timer_event.event], b"", timer_event.uid)
    return None


def events_for(logged: Logged, address: str, route: str) -> AddressedEvents | None:
    """As ``events_of``; None too if none of them is for *route*, which is at *address*.

    Events that were published elsewhere are not decoded.

    Raises:
        EventError: The record cannot be read.
    """
    if logged.kind in _WITH_ADDRESS:
        return decode_addressed(logged.body) if address_of(logged.body) == address else None
    if logged.kind == _EVENTS and address:
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
