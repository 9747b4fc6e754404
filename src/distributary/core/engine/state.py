"""The state of a partition's engine, shared by its parts in place of callbacks between them."""

from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from distributary.core.engine._life import Step
from distributary.core.engine.backfills import Backfills
from distributary.core.engine.cuts import Cuts
from distributary.core.engine.effects import Effects
from distributary.core.engine.failing import Failing
from distributary.core.engine.limits import EngineLimits
from distributary.core.engine.ports import ActiveRoutes, Targets
from distributary.core.engine.reads import Reads
from distributary.core.engine.replays import Replays
from distributary.core.engine.reservations import Reservations, key_of
from distributary.core.engine.retry_rows import RetryRows
from distributary.core.engine.tallies import Tallies
from distributary.core.engine.tracker import Tracker
from distributary.core.flow import DoneKey, Mark, Origin, Task
from distributary.core.meter import Meter
from distributary.core.outcome.rows import ParkedRow
from distributary.core.outcome.tallies import Tally


class Dropped:
    """Matches of one route that were dropped for one reason: the first, the last, how many."""

    __slots__ = ("count", "first", "last")

    def __init__(self, key: DoneKey) -> None:
        self.first = self.last = key
        self.count = 0


class PartitionState:
    """The state of one partition, and the engine's ports.

    Args:
        partition: Partition number.
        mark: The durable cursor.
        follower: The routes at the live reader.
        targets: The newest revision of each route's resource.
        effects: The port.
        meter: Counters.
        limits: Of the engine.
        stored_tally: Returns the stored tally of a route; None: it has none.

    Attributes:
        now_s: Monotonic time of the input, seconds.
        now_ms: Wall-clock time of the input, milliseconds.
        live: Offset of the next record of the live reader.
        durable: The last cursor known to be on the medium.
        stopped: True: nothing new starts.
    """

    def __init__(
        self,
        *,
        partition: int,
        mark: Mark,
        follower: ActiveRoutes,
        targets: Targets,
        effects: Effects,
        meter: Meter,
        limits: EngineLimits,
        stored_tally: Callable[[str], Tally | None] = lambda _route: None,
    ) -> None:
        self.partition = partition
        self.follower = follower
        self.targets = targets
        self.effects = effects
        self.meter = meter
        self.limits = limits
        self.now_s = 0.0
        self.now_ms = 0
        self.live = self.durable = mark.offset
        self.stopped = False
        self.tracker = Tracker(mark)
        self.backfills = Backfills(partition, limits, effects)
        self.replays = Replays()
        self.failing = Failing()
        self.tallies = Tallies(stored_tally, self._exists)
        self.rows = RetryRows(limits)
        self.reservations = Reservations(limits)
        self.reads = Reads(limits, effects.read)
        self.parked: dict[str, ParkedRow] = {}
        """By route: its sink is gone. Nothing is sent until it is resumed."""
        self.paused: AbstractSet[str] = frozenset()
        """Routes that people paused or disabled."""
        self.halted: set[str] = set()
        """Parked and paused routes together."""
        self.cuts = Cuts()
        """Matches of backfills and rows below these records are not waited for."""
        self.given_up: Counter[tuple[str, str]] = Counter()
        """Matches that budgets have ended since the last report, by route and reason."""
        self.dropped: dict[tuple[str, str], Dropped] = {}
        """Matches dropped since the last report, by route and reason."""

    def load_parked(self, rows: Iterable[ParkedRow]) -> None:
        """Load the parked routes that the last owner left."""
        for row in rows:
            self.parked[row.route] = row
            self.halted.add(row.route)

    def _exists(self, route: str) -> bool:
        return self.targets.get(route) is not None or self.follower.table.record(route) is not None

    def unseen(self, route: str) -> bool:
        """Whether *route*, which has no target, may have one that is not read yet."""
        record = self.follower.table.record(route)
        return record is not None and not self.targets.sees(record.seq)

    def let_go(self, task: Task) -> bool:
        """Release *task* in its stream; False if the stream did not wait for it."""
        if task.origin is Origin.LIVE:
            return self.tracker.finish(task)
        if task.origin is Origin.REPLAY:
            return self.end_replay(task)
        return task.origin is Origin.BACKFILL and self.backfills.finish(task)

    def end_replay(self, task: Task) -> bool:
        """Record that the replay of *task* waits for it no more; False if none did."""
        key = tuple.__new__(DoneKey, (task.position[1], task.position[2], task.route))
        replay = self.replays.finish(task, key)
        if replay is None:
            return False
        # Remembered for the run alone, until its position has passed. ``key_of`` inlined, and
        # ``_replace``: every delivery of a replay comes here.
        key = tuple.__new__(DoneKey, (key[0], key[1], replay.name))
        self.effects.backfilled(key, task.checksum)
        return True

    def is_row(self, task: Task) -> bool:
        """True if *task* is represented by its row: no stream waits for it."""
        if task.origin is Origin.RETRY:
            return True
        if key_of(task) not in self.rows.rows:
            return False
        if task.origin is Origin.REPLAY:
            return not self.replays.holds(task)
        stream = self.tracker if task.origin is Origin.LIVE else self.backfills
        return not stream.holds(task)

    def step(self, step: Step, key: DoneKey, task: Task | None = None) -> None:
        """Report a step of a match to the watcher, for tests."""
        watch = self.effects.watch
        if watch is not None:
            watch(step, key, task)
