"""Dependencies of a partition consumer, injected by ``PartitionSession`` and by simulations."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from distributary.core.clock import AgeClock, Clock, Random
from distributary.core.deliver import Dispatcher, Timers
from distributary.core.engine.effects import StepWatcher
from distributary.core.engine.limits import EngineLimits
from distributary.core.errors import DistributaryError
from distributary.core.flow import Attempt
from distributary.core.meter import Meter
from distributary.core.outcome import FailingReports, Ownership, ReservationStore, TallyStore
from distributary.datadir import StatusPage
from distributary.partitions._history import Files
from distributary.partitions._once import Once
from distributary.partitions._tracing import AttemptSpans
from distributary.partitions.ports import BackfillBudget, Blocking, NewestTargets, Records
from distributary.partitions.recalls import Kept, KeptRecords, LogAlone, Recalls
from distributary.partitions.routes import RouteFollower


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """Ports and settings of a partition consumer.

    Attributes:
        partition: Partition number.
        make_records: Opens a reader of the partition; a reader has a position, so several are
            open at a time.
        follower: The routes at the cursor.
        targets: Newest revisions of resources.
        ownership: The partition's stored state, fitted to the log.
        reservations: Counts of deliveries, shared by all partitions.
        status_page: Status page of the partition.
        meter: Metrics of the partition.
        history_files: Writes files of the history; None: none is kept.
        failures_only: The history leaves out deliveries that succeed at the first attempt.
        blocking: Runs flushes.
        aside: Runs other blocking work, which neither waits for a flush nor delays one.
        reading: Runs reads of resources and of retry rows' records, which wait for no writer.
        tallies: Stores what became of each route's matches.
        routes_path: Cache file of the route table.
        ages: Tells ages, over all sessions of the process.
        failing: Takes the routes that fail.
        on_failed: Called once with the reason when the consumer cannot continue.
        on_taken: Called when the consumer has taken every record that it was fed.
        report: Takes an info line for people: (event, fields).
        backfill_budget: How much of the log backfills and rows may keep.
        warn: Takes a warning for people: (event, fields).
        limits: Limits of the engine.
        watch: Called with each step of each match; for tests.
        log_reading: Runs reads of a log that may be silent for long; None: it is files, which the
            loop reads itself in slices.
        tracing: Traces attempts; None: nobody does.
        recalls: What is recalled of the archive; None: there is none.
        journaling: Runs small flushes of the journal; None: ``blocking`` does.
        filing: Runs what is done with files of the history, on a share that may not answer; None:
            ``aside`` does.
        once: Finds the repeats among the records, where readers have to; None: there are none.
    """

    partition: int
    make_records: Callable[[], Records]
    follower: RouteFollower
    targets: NewestTargets
    ownership: Ownership
    reservations: ReservationStore
    status_page: StatusPage
    meter: Meter
    history_files: Files | None
    clock: Clock
    ages: AgeClock
    timers: Timers
    random: Random
    blocking: Blocking
    aside: Blocking
    reading: Blocking
    make_dispatcher: Callable[[Callable[[Attempt], None], Callable[[str], None]], Dispatcher]
    tallies: TallyStore
    routes_path: Path
    failing: FailingReports
    on_failed: Callable[[DistributaryError], None]
    on_taken: Callable[[], None]
    report: Callable[[str, dict[str, object]], None]
    warn: Callable[[str, dict[str, object]], None]
    backfill_budget: BackfillBudget
    limits: EngineLimits = EngineLimits()  # noqa: RUF009 - a value
    watch: StepWatcher | None = None
    failures_only: bool = False
    journaling: Blocking | None = None
    log_reading: Blocking | None = None
    tracing: AttemptSpans | None = None
    on_tick: Callable[[], None] = lambda: None
    recalls: Recalls | None = None
    filing: Blocking | None = None
    once: Once | None = None

    def kept(self, records: Records | None = None) -> Kept:
        """Returns a reader of what log and archive have of the partition.

        Args:
            records: Reads the log for it; None: a reader is opened.
        """
        records = records or self.make_records()
        return LogAlone(records) if self.recalls is None else KeptRecords(records, self.recalls)
