"""The output port of the engine: each effect is a call.

A call costs 0.1 us less than a value that the shell interprets (the decision record has the
figures). The calls return at once: results that take time come back as inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from distributary.core.deliver.destination import Destination
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.engine._life import Step
from distributary.core.flow import Attempt, DoneKey, Ending, Task
from distributary.core.outcome.dead_letter import DeadLetter
from distributary.core.outcome.rows import BackfillRow, ParkedRow, RetryRow
from distributary.core.policy import Verdict

Say: TypeAlias = Callable[[str, dict[str, object]], None]
"""Writes one log line: (event, fields)."""
StepWatcher: TypeAlias = Callable[[Step, DoneKey, Task | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects that the shell of a partition carries out.

    Attributes:
        send: Offer an attempt to its destination; its result is an input, never inside this call.
        send_again: The same, with the reserve for retries and replies.
        take_queued: Take back the unstarted tasks of the queue with this name.
        queue: State of the queue with this name.
        is_open: Whether its breaker is open.
        probe: End the pause of its breaker, if it is open; never inside this call.
        cut_off: Queues whose breaker has opened since the last call.
        done: Record the outcome of a live match.
        backfilled: Record the outcome of a backfilled match.
        put_row: Write a retry row, waiting or done.
        forget_row: Delete the row of this match, which is void.
        put_backfill: Write a backfill row.
        end_backfill: Delete the backfill row with this name.
        read_log: Read records from this offset on for the backfill with this name (``log_read``).
        find_lost: Find the changes of its route after this number in a gap of the log that ends at
            this offset (``lost_found``).
        keep: Store a dead letter.
        put_parked: Record that a route is parked; None: it is not any more.
        ask_reservations: Send the batch to the reservation store after the next flush.
        read: Read the events of the batch in ``Reads``.
        wake_at: Call ``due`` at this time (monotonic, seconds).
        drained_soon: Give the input ``drained`` with this name in the next turn of the loop.
        attempted: Record an attempt, its verdict and its wall-clock time in milliseconds.
        succeeded: Record an attempt that delivered the event of this match to its sink, at this
            wall-clock time: ``attempted`` and ``ended`` in one. Nearly all attempts are such.
        ended: Record how a match ended (an ``Ending``), why, and when (wall clock, milliseconds);
            the task, if there is one. Called after ``attempted`` for the attempt that brought it.
        report: Log for information.
        warn: Log for the operator's attention.
        chance: Draw from 0.0 to 1.0.
        watch: Receives each step of each match; for tests.
    """

    send: Callable[[Task, Destination], Admission]
    send_again: Callable[[Task, Destination], Admission]
    take_queued: Callable[[str], list[Task]]
    queue: Callable[[str], QueueState | None]
    is_open: Callable[[str], bool]
    probe: Callable[[str], None]
    cut_off: Callable[[], list[str]]
    done: Callable[[DoneKey, int], None]
    backfilled: Callable[[DoneKey, int], None]
    put_row: Callable[[RetryRow], None]
    forget_row: Callable[[DoneKey], None]
    put_backfill: Callable[[BackfillRow], None]
    end_backfill: Callable[[tuple[str, int]], None]
    read_log: Callable[[tuple[str, int], int], None]
    find_lost: Callable[[tuple[str, int], int, int], None]
    keep: Callable[[DeadLetter], None]
    put_parked: Callable[[str, ParkedRow | None], None]
    ask_reservations: Callable[[], None]
    read: Callable[[], None]
    wake_at: Callable[[float], None]
    drained_soon: Callable[[str], object]
    attempted: Callable[[Attempt, Verdict, int], None]
    succeeded: Callable[[Attempt, DoneKey, int], None]
    ended: Callable[[DoneKey, Ending, str | None, int, Task | None], None]
    report: Say
    warn: Say
    chance: Callable[[], float]
    watch: StepWatcher | None = None
