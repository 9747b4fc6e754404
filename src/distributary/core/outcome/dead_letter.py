"""Values of dead letters: the kept event, the failure, and the budgets."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.core.flow import DoneKey

ROUTE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Kept dead letters of one subscription, in all partitions together: a quarter of a million events
of 1 KB, more than anybody will read."""
BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""All kept dead letters: as large as 32 segments of the log, so that the log fills a disk first,
and the disk watermark reports it."""
AGE_MAX_S: Final = 30 * 86_400.0
"""Dead letters older than a month are no longer wanted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a delivery failed, as a dead letter records it (decision 16, dead letters).

    Attributes:
        reason: A short reason for people and logs.
        dest: URI of the destination that failed, without its query (``shown_uri``).
        code: Status of the last response; None if there was none (never invented).
        data: Base64 of at most 1,024 bytes of the last response's body; None if there was none.
    """

    reason: str
    dest: str
    code: int | None = None
    data: str | None = None


class DeadLetter(NamedTuple):
    """An undeliverable event that no dead letter sink accepted.

    Attributes:
        key: The match.
        checksum: Of its record.
        failure: Why.
        event: ``event.record.encode`` of the one event, with its error attributes: a whole copy,
            since the log may delete its own.
        kept_ms: Wall clock when it was kept, milliseconds.
    """

    key: DoneKey
    checksum: int
    failure: Failure
    event: bytes
    kept_ms: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits of kept dead letters; the oldest beyond are given up, counted and reported.

    An event that several dead letters share counts once in all, and once for each of their routes.

    Attributes:
        route_bytes_max: Dead letters of one route, bytes.
        bytes_max: All dead letters of the partition, bytes.
        age_max_s: How long a dead letter is kept, seconds.
    """

    route_bytes_max: int = ROUTE_BYTES_MAX
    bytes_max: int = BYTES_MAX
    age_max_s: float = AGE_MAX_S

    def share(self, partitions: int) -> "Budgets":
        """Return the share of one of *partitions* partitions."""
        return Budgets(
            self.route_bytes_max // partitions, self.bytes_max // partitions, self.age_max_s
        )


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Dead letters, or matches, that a budget ended.

    Attributes:
        route: Uid of their route.
        count: How many.
        reason: Which budget: ``kept-bytes``, ``kept-age``, ``retention``.
    """

    route: str
    count: int
    reason: str
