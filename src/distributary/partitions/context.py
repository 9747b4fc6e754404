"""What an owner needs from outside: filled in by ``Session``, and by simulations."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from distributary.core.clock import Clock, Random
from distributary.core.deliver import Dispatcher, Timers
from distributary.core.engine.effects import StepWatcher
from distributary.core.engine.limits import EngineLimits
from distributary.core.errors import DistributaryError
from distributary.core.flow import Attempt
from distributary.core.meter import Meter
from distributary.core.outcome import Ownership, Quota
from distributary.datadir import StatusPage
from distributary.partitions.attempt_log import AttemptLog
from distributary.partitions.ports import BackfillBudget, Blocking, NewestTargets, Records
from distributary.partitions.routes import RouteFollower


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """Ports and settings of an owner.

    Attributes:
        partition: Partition number.
        make_records: Opens a reader of the partition; readers keep their place, so several are
            open at a time.
        follower: The routes at the cursor.
        targets: Newest revisions.
        ownership: Of the partition, fitted to the log.
        quota: Counts of deliveries, shared with the owners of the other partitions.
        status_page: Of the partition.
        meter: Of the partition's role.
        attempts: The attempt log.
        blocking: Runs the flushes.
        aside: Runs what else blocks, and must not wait for a flush nor hold one up.
        reading: Runs what reads resources, and records of rows: it waits for nothing that writes.
        routes_path: Where the route table is kept.
        failing_path: Where it is told which routes fail.
        on_failed: Called once with the reason when the owner cannot go on.
        report: Takes one line for people: (event, fields).
        backfill_budget: What backfills and rows may keep of the log.
        warn: The same for what somebody has to look at.
        limits: Of the engine.
        watch: Is told each step of each match; for tests.
    """

    partition: int
    make_records: Callable[[], Records]
    follower: RouteFollower
    targets: NewestTargets
    ownership: Ownership
    quota: Quota
    status_page: StatusPage
    meter: Meter
    attempts: AttemptLog
    clock: Clock
    timers: Timers
    random: Random
    blocking: Blocking
    aside: Blocking
    reading: Blocking
    make_dispatcher: Callable[[Callable[[Attempt], None], Callable[[str], None]], Dispatcher]
    routes_path: Path
    failing_path: Path
    on_failed: Callable[[DistributaryError], None]
    report: Callable[[str, dict[str, object]], None]
    warn: Callable[[str, dict[str, object]], None]
    backfill_budget: BackfillBudget
    limits: EngineLimits = EngineLimits()  # noqa: RUF009 - a value
    watch: StepWatcher | None = None
