"""The one port of the engine: all that it has others do, as calls.

A call costs 0.1 us less than a value that somebody takes apart (the decision record has the
figures). The calls return at once: what takes a while comes back as an input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from distributary.core.deliver.destination import Destination
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.engine._life import Step
from distributary.core.flow import Attempt, DoneKey, Task
from distributary.core.outcome.dead_letter import DeadLetter
from distributary.core.outcome.rows import BackfillRow, ParkedRow, RetryRow
from distributary.core.policy import Verdict

Say: TypeAlias = Callable[[str, dict[str, object]], None]
"""Takes one line for people: (event, fields)."""
StepWatcher: TypeAlias = Callable[[Step, DoneKey, Task | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What the engine has others do.

    Attributes:
        send: Offer an attempt to its destination; its result is an input, never inside this call.
        send_again: The same, with the reserve for retries and replies.
        take_queued: Take back what has not started in the queue of this name.
        queue: The queue of this name as it stands.
        is_open: Whether its breaker is open.
        cut_off: Queues whose breaker has opened since this was asked.
        done: The live reader's match has its outcome.
        backfilled: A backfill's match has its outcome.
        put_row: A match waits as this row, or the row is done.
        forget_row: The row of this match is void.
        put_backfill: A route is backfilled as this row says.
        end_backfill: The row of this name is not needed any more.
        read_log: Bring the backfill of this name records from this offset on (``log_read``).
        find_lost: Find the changes of its route after this number that lay in a hole of the log
            which ends at this offset (``lost_found``).
        keep: A dead letter is kept.
        put_parked: A route is parked; None: it is not any more.
        ask_quota: There is something to ask of the store of counts, or to tell it.
        read: There are rows whose events must be read.
        wake_at: Rows are due then (monotonic, seconds).
        drained_soon: Give the input ``drained`` with this name in a turn of the loop.
        attempted: An attempt came to this, at this wall-clock time, milliseconds.
        report: Say it.
        warn: Say it to whoever looks after the server.
        chance: Draw from 0.0 to 1.0.
        watch: Is told each step of each match; for tests.
    """

    send: Callable[[Task, Destination], Admission]
    send_again: Callable[[Task, Destination], Admission]
    take_queued: Callable[[str], list[Task]]
    queue: Callable[[str], QueueState | None]
    is_open: Callable[[str], bool]
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
    ask_quota: Callable[[], None]
    read: Callable[[], None]
    wake_at: Callable[[float], None]
    drained_soon: Callable[[str], object]
    attempted: Callable[[Attempt, Verdict, int], None]
    report: Say
    warn: Say
    chance: Callable[[], float]
    watch: StepWatcher | None = None
