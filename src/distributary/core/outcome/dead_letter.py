"""A dead letter that is kept, why it failed, and what is kept of all of them at most."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.core.flow import DoneKey

ROUTE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Kept dead letters of one subscription, in all partitions together: a quarter of a million events
of 1 KB, which is more than anybody looks at, and a disk has it."""
BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""Kept dead letters of all: as large as 32 segments of the log, so that it is the log that fills a
disk, and the disk watermark that speaks of it."""
AGE_MAX_S: Final = 30 * 86_400.0
"""A dead letter nobody has asked for in a month is not asked for any more."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a delivery failed: what a dead letter says about it (decision 16).

    Attributes:
        reason: A short reason for people and logs.
        dest: URI of the destination that failed, without its query (``shown_uri``).
        code: Status of the last answer; None where no answer came (never invented).
        data: Base64 of at most 1,024 bytes of the last answer's body; None where none came.
    """

    reason: str
    dest: str
    code: int | None = None
    data: str | None = None


class DeadLetter(NamedTuple):
    """An event that could not be delivered and has no dead letter sink that took it.

    Attributes:
        key: The match.
        checksum: Of its record.
        failure: Why.
        event: ``event.record.encode`` of the one event, with its error attributes: kept whole,
            since the log may delete its own copy.
        kept_ms: Wall clock when it was kept, milliseconds.
    """

    key: DoneKey
    checksum: int
    failure: Failure
    event: bytes
    kept_ms: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """How much is kept; the oldest dead letters beyond are given up, counted and told.

    An event that several dead letters share counts once in all, and once for each of their routes.

    Attributes:
        route_bytes_max: Dead letters of one route, bytes.
        bytes_max: All dead letters of the partition, bytes.
        age_max_s: Seconds that a dead letter is kept.
    """

    route_bytes_max: int = ROUTE_BYTES_MAX
    bytes_max: int = BYTES_MAX
    age_max_s: float = AGE_MAX_S

    def share(self, partitions: int) -> "Budgets":
        """The part of one of so many partitions."""
        return Budgets(
            self.route_bytes_max // partitions, self.bytes_max // partitions, self.age_max_s
        )


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Dead letters, or matches, that a budget ended.

    Attributes:
        route: Whose.
        count: How many.
        reason: Which budget: ``kept-bytes``, ``kept-age``, ``retention``.
    """

    route: str
    count: int
    reason: str
