"""Runs that people ask for: redrives, purges, replays and retries; their progress, and their ends.

A run is a *demand* in the store of the control process, and a row of progress in the delivery
database of each partition, which its consumer writes.
"""

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from distributary.core.clock import Clock
from distributary.core.demand import Demand, DemandDetails, DemandKind
from distributary.core.errors import Fault, NotFoundError, ResourceError
from distributary.core.outcome import DeliveryRowsReader, RunRow
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.subscriptions.store import demands as limits
from distributary.subscriptions.store.demands import KEPT_MS, RUN_KINDS, RouteName, namespace_of
from distributary.subscriptions.store.steering import Steering
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import SubscriptionPage

RunPhase: TypeAlias = Literal["running", "cancelling", "cancelled", "ended-early", "done"]
PHASES: Final[tuple[RunPhase, ...]] = (
    "running",
    "cancelling",
    "cancelled",
    "ended-early",
    "done",
)
SLICE: Final = 100
"""Least number of runs that are read at once where a list has a filter by state."""
_SENDS: Final = frozenset(("replay", "redrive"))
"""Kinds of runs that wait while nothing is sent to their route."""
LOOKED_MAX: Final = 1_000
"""Runs looked at for one part of a list: with a filter by state a part may be short."""


class Missing(NamedTuple):
    """Records of a partition that a replay passed, since their events are missing.

    Attributes:
        partition: Number of the partition.
        from_offset: The first one.
        to_offset: After the last one.
        records: How many of those between are missing.
    """

    partition: int
    from_offset: int
    to_offset: int
    records: int


class RunState(NamedTuple):
    """Progress of a run, over all partitions.

    Attributes:
        demand: The request.
        name: Owner of its route; None: it is of all routes, or its owner is deleted.
        rows: Its progress where it has begun.
        partitions: How many there are.
        cancelled: Whether somebody has cancelled it.
        waits_for: What a partition waits for before it can go on, in words; empty: nothing.
        missing: By partition, what a replay passed because neither log nor archive has it.
    """

    demand: Demand
    name: RouteName | None
    rows: list[RunRow]
    partitions: int
    cancelled: bool
    waits_for: str = ""
    missing: Sequence[Missing] = ()

    @property
    def done(self) -> bool:
        """Whether every partition has finished."""
        return len(self.rows) == self.partitions and all(row.done for row in self.rows)

    @property
    def phase(self) -> RunPhase:
        """Its state, for people."""
        if not self.done:
            return "cancelling" if self.cancelled else "running"
        if any(row.cancelled for row in self.rows):
            return "cancelled"
        return "ended-early" if any(row.route_deleted for row in self.rows) else "done"

    def total(self, name: str) -> int:
        """The sum of one count of its rows."""
        return sum(getattr(row, name) for row in self.rows)

    @property
    def oldest_ms(self) -> int | None:
        """Where the log begins only after the time that was asked for; None: nothing is missing."""
        return max((row.oldest_ms for row in self.rows if row.oldest_ms is not None), default=None)


Awaited: TypeAlias = Callable[[int, int], str]
"""Returns what a read of a record waits for, by partition and offset, in words; empty: nothing."""


def nothing_awaited(_partition: int, _offset: int) -> str:
    """The ``Awaited`` of a log whose records are all there."""
    return ""


class Runs:
    """Starts, lists and ends runs. Blocking; safe from any thread.

    Methods raise ``StoreError`` where state cannot be read now; no demand was made then.

    Args:
        store: Resources and demands.
        clock: For stamps.
        readers: Of the deliveries of each partition, in their order.
        awaited: Tells what a run waits for.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        readers: Sequence[DeliveryRowsReader],
        awaited: Awaited = nothing_awaited,
    ) -> None:
        self._store = store
        self._clock = clock
        self._readers = readers
        self._awaited = awaited

    @property
    def partitions(self) -> int:
        """How many partitions carry out a run."""
        return len(self._readers)

    def ask(
        self, kind: DemandKind, route: str, run: str | None, namespace: str, details: DemandDetails
    ) -> Demand:
        """Ask for a run; idempotent within *run*, the client's id.

        Raises:
            ConflictError: The run has another demand.
            RequestError: Too many runs are kept.
        """
        name = run_key(run or uuid.uuid4().hex, namespace)
        return self._store.demand(kind, route, name, self._clock.wall_ms(), details=details)

    def find(self, run: str, namespace: str = DEFAULT_NAMESPACE) -> RunState:
        """Progress of a run that was asked for in *namespace*.

        Raises:
            NotFoundError: It is unknown, or no longer kept.
        """
        (found,) = self._states([self._demand(run, namespace)])
        return found

    def _demand(self, run: str, namespace: str) -> Demand:
        # The name of another namespace's run has a blank, which no client's has.
        demand = None if " " in run else self._store.find_demand(run_key(run, namespace))
        if demand is None or demand.kind not in RUN_KINDS:
            raise NotFoundError("there is no run of this id, or it is over and forgotten")
        return demand

    def cancel(self, run: str, by: str, namespace: str = DEFAULT_NAMESPACE) -> RunState:
        """End a run where it is; one that is over stays as it is. Idempotent.

        Raises:
            NotFoundError: It is unknown, or no longer kept.
        """
        demand = self._demand(run, namespace)
        (found,) = self._states([demand])
        if found.done:
            return found
        details = DemandDetails(by=by, of=demand.seq)
        name = _cancel_key(demand.run)
        self._store.demand("cancel", "", name, self._clock.wall_ms(), details=details)
        return found._replace(cancelled=True)

    def forget_ended(self) -> None:
        """Forget what was asked for more than a week ago and is over in all partitions.

        Sooner where there are many: the oldest runs that are over leave half of all places free. A
        run that goes on is kept: without its demand no later owner would go on with it.
        Idempotent; call it from time to time.

        Raises:
            StoreError: Not now.
        """
        before_ms, seq = self._clock.wall_ms() - KEPT_MS, 0
        under_way = set[int]()
        while old := self._store.oldest_demands(before_ms, seq):
            seq = old[-1].seq
            runs = {each.seq: each.run for each in old if each.kind in RUN_KINDS}
            over = self._over(list(runs))
            under_way.update(runs.keys() - over)
            # What ends a run comes after it, and is kept with it.
            others = [each for each in old if each.seq not in runs]
            ended = [each.seq for each in others if each.details.of not in under_way]
            self._forget({seq: runs[seq] for seq in over}, ended)
        self._make_room()

    def _make_room(self) -> None:
        """Forget the oldest runs that are over where more than half of all places are taken."""
        by_namespace: dict[str, list[tuple[int, str]]] = {}
        for seq, run in self._store.runs_kept():
            by_namespace.setdefault(namespace_of(run), []).append((seq, run))
        for runs in by_namespace.values():
            self._thin(runs, len(runs) - limits.DEMANDS_OF_NAMESPACE_MAX // 2)
        kept = self._store.runs_kept()
        self._thin(kept, len(kept) - limits.DEMANDS_MAX // 2)

    def _thin(self, runs: list[tuple[int, str]], spare: int) -> None:
        """Forget *spare* of these runs, the oldest that are over."""
        slice_ = limits.FORGOTTEN_AT_ONCE_MAX
        for first in range(0, len(runs), slice_):
            if spare <= 0:
                return
            some = dict(runs[first : first + slice_])
            over = sorted(self._over(list(some)))[:spare]
            spare -= len(over)
            self._forget({seq: some[seq] for seq in over}, [])

    def _over(self, seqs: list[int]) -> set[int]:
        """Those of these runs that every partition has finished."""
        by_partition = [reader.runs(seqs) for reader in self._readers]
        return {seq for seq in seqs if _over_in_all(seq, by_partition)}

    def _forget(self, runs: Mapping[int, str], others: Sequence[int]) -> None:
        """Forget these runs, by number, with what cancels them, and other demands."""
        ends = self._store.find_demands([_cancel_key(run) for run in runs.values()])
        if seqs := [*runs, *others, *(end.seq for end in ends)]:
            self._store.forget_demands(seqs)

    def page(
        self,
        limit: int,
        cursor: str | None,
        namespace: str,
        *,
        subscription: str | None = None,
        route: str | None = None,
        kind: str | None = None,
        phase: str | None = None,
    ) -> SubscriptionPage[RunState]:
        """Return a part of the runs of *namespace*, the newest first.

        Raises:
            NotFoundError: The subscription does not exist in the namespace.
            ResourceError: *cursor* is invalid.
        """
        if subscription is not None:
            route = self._store.find(subscription, namespace).uid
        before = _read_cursor(cursor)
        found: list[RunState] = []
        looked = 0
        more = True
        size = limit if phase is None else max(limit, SLICE)
        while more and len(found) < limit and looked < LOOKED_MAX:
            demands = self._store.page_demands(namespace, before, size, route=route, kind=kind)
            more = len(demands) == size
            looked += len(demands)
            for place, state in enumerate(self._states(demands), 1):
                before = state.demand.seq
                if phase in {None, state.phase}:
                    found.append(state)
                if len(found) == limit:
                    more = more or place < len(demands)
                    break
        return SubscriptionPage(found, str(before) if more else None)

    def _states(self, demands: list[Demand]) -> list[RunState]:
        seqs = [demand.seq for demand in demands]
        by_partition = [reader.runs(seqs) for reader in self._readers]
        names = self._store.route_names({demand.route for demand in demands})
        ends = self._store.find_demands([_cancel_key(demand.run) for demand in demands])
        ended = {demand.details.of for demand in ends}
        sending = {
            demand.route
            for demand in demands
            if demand.kind in _SENDS and not _over_in_all(demand.seq, by_partition)
        } - {""}
        steering = self._store.steering(sorted(sending)) if sending else {}
        return [
            RunState(
                demand,
                names.get(demand.route),
                [rows[demand.seq] for rows in by_partition if demand.seq in rows],
                len(self._readers),
                demand.seq in ended,
                self._waits_for(demand, by_partition, steering.get(demand.route)),
                [
                    Missing(partition, row.missing_from, row.missing_to, row.missing)
                    for partition, rows in enumerate(by_partition)
                    if (row := rows.get(demand.seq)) is not None
                    and row.missing_from is not None
                    and row.missing_to is not None
                ],
            )
            for demand in demands
        ]

    def _waits_for(
        self, demand: Demand, by_partition: list[dict[int, RunRow]], steering: Steering | None
    ) -> str:
        if demand.kind not in _SENDS or _over_in_all(demand.seq, by_partition):
            return ""
        if steering is not None and not demand.details.dry:
            if steering.disabled_ms is not None:
                return "its subscription, or object, is disabled"
            if steering.paused_ms is not None:
                return "its subscription, or object, is paused"
        if demand.kind != "replay":
            return ""
        for partition, rows in enumerate(by_partition):
            row = rows.get(demand.seq)
            if row is not None and not row.done and (found := self._awaited(partition, row.at)):
                return found
        return ""


def _over_in_all(seq: int, by_partition: list[dict[int, RunRow]]) -> bool:
    return all((row := rows.get(seq)) is not None and row.done for rows in by_partition)


def run_name(demand: Demand) -> str:
    """Name of a run, as the client chose it."""
    return demand.run.rpartition(" ")[2]


def run_key(run: str, namespace: str) -> str:
    """Name of a run in the store: clients of two namespaces may choose the same."""
    return run if namespace == DEFAULT_NAMESPACE else f"{namespace} {run}"


def _cancel_key(run: str) -> str:
    """Name in the store of the demand that ends *run*; no client's begins like that."""
    namespace, blank, _ = run.rpartition(" ")
    digest = hashlib.blake2b(run.encode(), digest_size=16).hexdigest()
    return f"{namespace}{blank}~{digest}"


def _read_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        message = "this cursor did not come from a Link header of this server"
        raise ResourceError([Fault("cursor", "value", message)])
    return int(cursor)
