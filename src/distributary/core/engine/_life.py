"""The life of a match: its states, and every step from one to another.

The table is complete: the diagram in the documentation is drawn from it, each step has a test, and
the simulation checks every step of every match against it.
"""

import enum
from typing import Final, NamedTuple


class MatchState(enum.Enum):
    """State of a match of an event and a route."""

    MATCHED = "Matched"
    """The live reader has just made it."""
    HELD = "Held"
    """In memory, waiting for a saturated destination: at the head of the intake, or as a reply."""
    RESERVING = "Reserving"
    """A durable row that has requested a reservation (``maxevents``)."""
    QUEUED = "Queued"
    """In its destination queue."""
    IN_FLIGHT = "InFlight"
    """An attempt is under way."""
    WAITING = "Waiting"
    """A durable row that is due at a known time."""
    DEFERRED = "Deferred"
    """A durable row that waits for its destination, route or reservation."""
    READING = "Reading"
    """A durable row whose event is being reread."""
    BACKFILLING = "Backfilling"
    """Covered by a backfill of its route."""
    DONE = "Done"
    """Has its final outcome."""


class Step(enum.Enum):
    """Transitions of a match; the value is the label in the diagram."""

    QUEUE = "the destination admits it"
    START = "place, rate and breaker allow"
    HOLD = "the destination is about to have room"
    RESERVE = "the subscription is counted"
    BEGIN_BACKFILL = "saturated, and a backfill begins"
    LEAVE_TO_BACKFILL = "a backfill has it"
    DEFER = "saturated, paused, no reservation, or unknown resource"
    DEMOTE = "the cursor must pass"
    RETRY = "failed for now"
    TURN_TO_DEAD_LETTER = "failed for good, to the dead letter sink"
    READ = "due, and its event is not in memory"
    AWAIT_EVENT = "its event is on its way"
    DELIVER = "delivered"
    KEEP = "failed for good, and kept"
    DROP = "dropped, with a reason"
    VOID = "the log has lost its record"
    SEND_AGAIN = "sent again by a run"


class LifeRow(NamedTuple):
    """A row of the table: one transition.

    Attributes:
        sources: States in which it is allowed.
        target: State after it; None: unchanged.
        effects: Names of the ``Effects`` that it may call.
    """

    sources: tuple[MatchState, ...]
    target: MatchState | None
    effects: tuple[str, ...] = ()


_M = MatchState

FINAL: Final = ("ended", "done", "backfilled", "put_row")
"""Effects that record an outcome: in the history, of a live match, a backfilled one, and a row."""

LIFE: Final[dict[Step, LifeRow]] = {
    Step.HOLD: LifeRow((_M.MATCHED, _M.IN_FLIGHT, _M.QUEUED), _M.HELD),
    Step.RESERVE: LifeRow(
        (_M.MATCHED, _M.HELD, _M.WAITING, _M.DEFERRED, _M.READING, _M.BACKFILLING),
        _M.RESERVING,
        ("ask_reservations", "put_row"),
    ),
    Step.QUEUE: LifeRow(
        (
            _M.MATCHED,
            _M.HELD,
            _M.RESERVING,
            _M.QUEUED,
            _M.IN_FLIGHT,
            _M.WAITING,
            _M.DEFERRED,
            _M.READING,
            _M.BACKFILLING,
        ),
        _M.QUEUED,
        ("send",),
    ),
    Step.START: LifeRow((_M.QUEUED,), _M.IN_FLIGHT),
    Step.BEGIN_BACKFILL: LifeRow(
        (_M.MATCHED, _M.HELD, _M.QUEUED), _M.BACKFILLING, ("put_backfill",)
    ),
    Step.LEAVE_TO_BACKFILL: LifeRow((_M.MATCHED, _M.HELD, _M.QUEUED), _M.BACKFILLING),
    Step.DEFER: LifeRow(
        (
            _M.MATCHED,
            _M.HELD,
            _M.RESERVING,
            _M.QUEUED,
            _M.WAITING,
            _M.READING,
            _M.DEFERRED,
        ),
        _M.DEFERRED,
        ("put_row",),
    ),
    Step.DEMOTE: LifeRow((_M.HELD, _M.QUEUED, _M.IN_FLIGHT), None, ("put_row",)),
    Step.RETRY: LifeRow((_M.IN_FLIGHT, _M.HELD, _M.QUEUED), _M.WAITING, ("put_row",)),
    Step.TURN_TO_DEAD_LETTER: LifeRow((_M.IN_FLIGHT, _M.HELD, _M.QUEUED), _M.WAITING, ("put_row",)),
    Step.READ: LifeRow((_M.WAITING, _M.DEFERRED, _M.RESERVING), _M.READING, ("read",)),
    Step.AWAIT_EVENT: LifeRow((_M.READING,), _M.WAITING),
    Step.DELIVER: LifeRow((_M.IN_FLIGHT, _M.HELD, _M.QUEUED), _M.DONE, FINAL),
    Step.KEEP: LifeRow(
        (
            _M.IN_FLIGHT,
            _M.HELD,
            _M.QUEUED,
            _M.WAITING,
            _M.DEFERRED,
            _M.READING,
            _M.BACKFILLING,
        ),
        _M.DONE,
        ("keep", *FINAL),
    ),
    Step.DROP: LifeRow(
        tuple(state for state in _M if state is not _M.DONE),
        _M.DONE,
        FINAL,
    ),
    Step.VOID: LifeRow((_M.WAITING, _M.DEFERRED, _M.READING, _M.DONE), _M.DONE, ("forget_row",)),
    Step.SEND_AGAIN: LifeRow((_M.DONE,), _M.WAITING, ("put_row",)),
}
"""All transitions of a match. Any other transition is a bug of the engine."""
