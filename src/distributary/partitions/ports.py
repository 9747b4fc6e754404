"""What the owner of a partition needs from its surroundings; ``Session`` and tests provide it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from distributary.core.engine.ports import Targets
from distributary.core.errors import StoreError
from distributary.core.flow import Logged

Job: TypeAlias = Callable[[], None]
"""Something to be done later, elsewhere."""


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


class NewestTargets(Targets, Protocol):
    """The engine's ``Targets``, kept up with the resource store."""

    def refresh(self) -> bool:
        """Look for changes, and take them in; blocks: before there is a loop."""

    def read(self) -> Job | None:
        """Look for changes, in a thread beside the loop; blocks.

        Returns:
            What takes them in, to be called on the loop; None: there are none.

        Raises:
            StoreError: They cannot be read now.
        """

    def end(self, route: str) -> None:
        """The record was met that deletes *route*: it has no target any more."""


class Records(Protocol):
    """Reads one partition of the log; never past the durable end."""

    def start(self) -> int:
        """Oldest record that is kept."""

    def durable_end(self) -> int:
        """The record after the last durable one."""

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Whole frames from *from_offset* on, and the offset after what was looked at."""

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Records of ``from_offset <= offset < to_offset``; gaps are passed over."""

    def kinds(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        """Records of one kind in a range, without reading the bodies of the others."""

    def offset_at(self, time_ms: int) -> int:
        """The first record that was appended at *time_ms* or later; the end where none was."""

    def offset_within(self, bytes_max: int) -> int:
        """Where the newest segments begin that have at most *bytes_max* bytes; one at least."""

    def route_snapshot(self) -> tuple[int, bytes] | None:
        """The routes that stood where retention last cut, and that offset."""

    def close(self) -> None:
        """Let the files go."""


class Blocking(Protocol):
    """Runs what blocks (fsync, SQL) beside the loop."""

    def run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        """Run *work* elsewhere; call *done* on the loop with its error, never from inside."""
