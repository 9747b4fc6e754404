"""Ports of the partition consumer; ``PartitionSession`` and tests implement them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from distributary.core.engine.ports import Targets
from distributary.core.errors import StoreError
from distributary.core.flow import Logged
from distributary.core.quotas import QuotaTable

Job: TypeAlias = Callable[[], None]
"""A callback to run later, perhaps on another thread."""


@dataclass(frozen=True, slots=True)
class BackfillBudget:
    """How much of one partition's log backfills and retry rows may keep from retention.

    Attributes:
        bytes_max: Size of segments, the newest included, bytes; 0: unlimited.
        age_max_s: Age of a record, seconds; 0.0: unlimited.
        quotas: What each namespace may keep, over all partitions.
        partitions: By how many the quotas are divided.
    """

    bytes_max: int = 0
    age_max_s: float = 0.0
    quotas: QuotaTable = field(default_factory=QuotaTable)
    partitions: int = 1

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        each = (self.quotas.others, *self.quotas.named.values())
        return bool(self.bytes_max or self.age_max_s or any(one.pinned_log_bytes for one in each))


class NewestTargets(Targets, Protocol):
    """The engine's ``Targets``, refreshed from the resource store."""

    def refresh(self) -> bool:
        """Read and apply changes; True where there were some. Blocks: call it before the loop."""

    def may_have_news(self) -> bool:
        """Whether there may be changes since the last call: cheap, and False only without any."""

    def read(self) -> Job | None:
        """Read changes; blocks: call it in a thread.

        Returns:
            A job that applies them, to be called on the loop; None: there are none.

        Raises:
            StoreError: The store cannot be read now.
        """

    def end(self, route: str) -> None:
        """Remove the target of *route*, whose deletion the log has reached."""


class Records(Protocol):
    """A reader of one partition of the log, up to its durable end."""

    def start(self) -> int:
        """Returns the offset of the oldest record kept."""

    def durable_end(self) -> int:
        """Returns the offset after the last durable record."""

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Returns whole frames from *from_offset* on, and the offset after them."""

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields records of ``from_offset <= offset < to_offset``; skips gaps."""

    def kinds(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        """Yields records of one kind in a range, without reading the bodies of others."""

    def offset_at(self, time_ms: int) -> int:
        """Returns the first offset appended at *time_ms* or later; the end where none was."""

    def offset_within(self, bytes_max: int) -> int:
        """Returns the start of the newest segments of at most *bytes_max* bytes; one at least."""

    def route_snapshot(self) -> tuple[int, bytes] | None:
        """Returns the offset of the last retention cut, and the routes in force there."""

    def close(self) -> None:
        """Close the files."""


class Blocking(Protocol):
    """Runs blocking work (fsync, SQL) outside the event loop."""

    def run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        """Run *work* in a thread; then call *done* on the loop with its error, never at once."""
