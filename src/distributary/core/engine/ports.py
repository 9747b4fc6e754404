"""What the owner of a partition needs from its surroundings; ``server`` and tests provide it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from distributary.core.deliver import Destination, TimerHandle, Timers
from distributary.core.errors import StoreError
from distributary.core.flow import Demand, Logged, Task
from distributary.core.outcome import BackfillRow
from distributary.core.policy import Verdict
from distributary.core.route import RouteTable

__all__ = [
    "BREAKER_OPEN",
    "ActiveRoutes",
    "BackfillBudget",
    "Backfills",
    "Blocking",
    "FailingRoutes",
    "Job",
    "Records",
    "RouteTarget",
    "Targets",
    "TimerHandle",
    "Timers",
    "waits_for_resource",
]


BREAKER_OPEN: Final = "breaker-open"
"""Why nothing is sent to a destination whose breaker is open."""

Job: TypeAlias = Callable[[], None]
"""Something to be done later, elsewhere."""


@dataclass(frozen=True, slots=True)
class RouteTarget:
    """Where a route delivers now: the newest revision of its resource.

    Attributes:
        revision: Of the resource.
        sink: The subscriber's sink.
        dead_letter: Its dead letter sink; None: what fails for good is kept in the store.
        events_max: How many deliveries it may make in all; None: any number.
        reply: Where an event goes that the sink answers with; None: it is dropped.
        reply_kept: The reply goes back to the Broker: where that cannot store it, the dead letter
            is the original event. Else it goes to a Subscription's ``reply``: where that does not
            take it, the dead letter is the reply (decision 15).
        parks: An answer 410 parks it: nothing is sent until somebody resumes (decision 13).
    """

    revision: int
    sink: Destination
    dead_letter: Destination | None
    events_max: int | None = None
    reply: Destination | None = None
    reply_kept: bool = False
    parks: bool = False


@dataclass(frozen=True, slots=True)
class BackfillBudget:
    """What backfilled routes and waiting rows may keep of the log of one partition.

    Attributes:
        bytes_max: Bytes of segments, the newest included; 0: any number.
        age_max_s: Age of a record, seconds; 0.0: any.
    """

    bytes_max: int = 0
    age_max_s: float = 0.0

    def __bool__(self) -> bool:
        """True where anything is limited."""
        return bool(self.bytes_max or self.age_max_s)


class Targets(Protocol):
    """The newest revision of every route's resource (DESIGN rule 5).

    All but ``refresh`` and ``read`` belong to the loop and wait for nothing.
    """

    def refresh(self) -> bool:
        """Look for changes, and take them in; blocks: before there is a loop."""
        ...

    def read(self) -> Job | None:
        """Look for changes, in a thread beside the loop; blocks.

        Returns:
            What takes them in, to be called on the loop; None: there are none.

        Raises:
            StoreError: They cannot be read now.
        """
        ...

    def end(self, route: str) -> None:
        """The record was met that deletes *route*: it has no target any more."""
        ...

    def sees(self, seq: int) -> bool:
        """True where change *seq* was taken in: a route of it without a target is deleted."""
        ...

    def all_go_to(self, uri: str) -> bool:
        """True where no resource is known to have another sink than *uri*.

        Resources count whose route record still lies ahead in the log: their sinks wait too.
        """
        ...

    def changed_uris(self) -> list[str]:
        """Sinks whose waiting tasks may belong elsewhere since the last call.

        These are the URIs that changed or deleted routes had before.
        """
        ...

    def demands(self, after_seq: int) -> list[Demand]:
        """What owners were asked to do, those with a number above *after_seq*, in order."""
        ...

    def get(self, route: str) -> RouteTarget | None:
        """The target of the route with this uid; None: its resource is deleted, or not read yet."""
        ...


class Records(Protocol):
    """Reads one partition of the log; never past the durable end."""

    def start(self) -> int:
        """Oldest record that is kept."""
        ...

    def durable_end(self) -> int:
        """The record after the last durable one."""
        ...

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Whole frames from *from_offset* on, and the offset after what was looked at."""
        ...

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Records of ``from_offset <= offset < to_offset``; gaps are passed over."""
        ...

    def kinds(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        """Records of one kind in a range, without reading the bodies of the others."""
        ...

    def offset_at(self, time_ms: int) -> int:
        """The first record that was appended at *time_ms* or later; the end where none was."""
        ...

    def offset_within(self, bytes_max: int) -> int:
        """Where the newest segments begin that have at most *bytes_max* bytes; one at least."""
        ...

    def route_snapshot(self) -> tuple[int, bytes] | None:
        """The routes that stood where retention last cut, and that offset."""
        ...

    def close(self) -> None:
        """Let the files go."""
        ...


class Blocking(Protocol):
    """Runs what blocks (fsync, SQL) beside the loop."""

    def run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        """Run *work* elsewhere; call *done* on the loop with its error, never from inside."""
        ...


class ActiveRoutes(Protocol):
    """The routes at the live reader."""

    @property
    def table(self) -> RouteTable:
        """They, compiled."""
        ...

    def changed_at(self, route: str) -> int:
        """Where the filters of *route* that stand now were met; 0: before the live path began."""
        ...


class Backfills(Protocol):
    """The routes that are backfilled: each goes over the log again."""

    @property
    def by_route(self) -> Mapping[str, object]:
        """Those that are backfilled."""
        ...

    def add(self, row: BackfillRow) -> None:
        """Begin a backfill, or go on with one; remember one that has ended."""
        ...

    def began_after(self, route: str, offset: int, index: int) -> bool:
        """True where a backfill of *route* began behind this place, since this owner did."""
        ...

    def covers(self, route: str, offset: int, index: int) -> bool:
        """True where a backfill has this match, so that the live reader must pass it."""
        ...

    def backfilling(self, route: str) -> bool:
        """True where a backfill of *route* has not come up to the live reader yet."""
        ...

    def wake(self) -> None:
        """Time has passed: those that have rested longest look again."""
        ...

    def wake_for(self, uri: str) -> None:
        """The sink *uri* has room: those that it refused longest ago try again."""
        ...

    def finish(self, task: Task) -> bool:
        """A match that a backfill brought needs no more care; False where that was so already."""
        ...

    def holds(self, task: Task) -> bool:
        """True where a backfill waits for *task*, which it has brought."""
        ...

    def stuck(self) -> list[Task]:
        """Open matches that must become rows, so that what is finished behind them is passed."""
        ...

    def drop(self, route: str) -> list[tuple[int, int]]:
        """The route is deleted: its backfills end where they are.

        Returns:
            First and end of the records that each of them had before it.
        """
        ...


class FailingRoutes(Protocol):
    """Which routes fail now; told to people."""

    @property
    def any(self) -> bool:
        """Whether an attempt of any route has failed since its last delivery."""
        ...

    def failed(self, route: str, verdict: Verdict, dest: str) -> None:
        """An attempt of *route* at *dest* has failed."""
        ...

    def refused(self, route: str, dest: str, reason: str = BREAKER_OPEN) -> bool:
        """Nothing of *route* is sent to *dest* now; False where that was known already."""
        ...

    def delivered(self, route: str) -> None:
        """A delivery of *route* has succeeded, or the route is deleted."""
        ...


def waits_for_resource(route: str) -> str:
    """Where matches wait whose resource was not read yet: no URI of a sink is like it."""
    return f"resource of {route}"
