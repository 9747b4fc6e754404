"""Values of dead letters: the kept event, the failure, and the budgets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from distributary.core.flow import DoneKey
from distributary.core.quotas import QuotaTable

ROUTE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Kept dead letters of one subscription, in all partitions together: a quarter of a million events
of 1 KB, more than anybody will read."""
BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""All kept dead letters: as large as 32 segments of the log, so that the log fills a disk first,
and the disk watermark reports it."""
AGE_MAX_S: Final = 30 * 86_400.0
"""Dead letters older than a month are no longer wanted."""
CLOCK_MS_MIN: Final = 1_672_531_200_000
"""The least that a right wall clock shows, milliseconds: the beginning of 2023, when this package
did not exist yet. A machine without a clock of its own shows 1970, or the build date of its system,
until it is told the time."""


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
        namespace: Of its route; None: unknown.
    """

    key: DoneKey
    checksum: int
    failure: Failure
    event: bytes
    kept_ms: int
    namespace: str | None = None


NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
"""Namespaces by route, where none is news."""

_OF_NAMESPACE: Final = "@"
"""Begins a selection of a namespace; no uid does."""


def letters_of(namespace: str, route: str = "") -> str:
    """The selection of dead letters of a *namespace*, or of a *route* if it is there."""
    return f"{_OF_NAMESPACE}{namespace}/{route}"


def selected(selection: str) -> tuple[str, str]:
    """Namespace and uid of the routes that *selection* means; either may be empty: all."""
    if not selection.startswith(_OF_NAMESPACE):
        return "", selection
    namespace, _, route = selection.removeprefix(_OF_NAMESPACE).partition("/")
    return namespace, route


@dataclass(frozen=True, slots=True)
class Budgets:
    """Limits of kept dead letters; the oldest beyond are given up, counted and reported.

    An event that several dead letters share counts once in all, and once for each of their routes.

    Attributes:
        route_bytes_max: Dead letters of one route, bytes.
        bytes_max: All dead letters of the partition, bytes; beyond it, the namespace that keeps
            most gives up its oldest.
        age_max_s: How long a dead letter is kept, seconds.
        quotas: What each namespace may keep.
        partitions: By how many the quotas are divided.
    """

    route_bytes_max: int = ROUTE_BYTES_MAX
    bytes_max: int = BYTES_MAX
    age_max_s: float = AGE_MAX_S
    quotas: QuotaTable = field(default_factory=QuotaTable)
    partitions: int = 1

    def namespace_bytes_max(self, namespace: str | None) -> int:
        """Dead letters of *namespace* in this partition, bytes; 0: no limit of its own."""
        if namespace is None:
            return 0
        whole = self.quotas.of(namespace).dead_letter_bytes
        return max(1, whole // self.partitions) if whole else 0

    def share(self, partitions: int) -> "Budgets":
        """Return the share of one of *partitions* partitions."""
        return Budgets(
            self.route_bytes_max // partitions,
            self.bytes_max // partitions,
            self.age_max_s,
            self.quotas,
            partitions,
        )


def given_up_first(kept: Mapping[str | None, int], excess_bytes: int) -> tuple[str | None, int]:
    """Who gives up dead letters first where all exceed their budget, and how many bytes at once.

    The namespace that keeps most, down to what the next one keeps; where several keep about as
    much, they take turns with a quarter of the excess.

    Args:
        kept: Bytes by namespace; None: of routes whose namespace is unknown. Not empty.
        excess_bytes: Beyond the budget, above 0.

    Returns:
        The namespace, and bytes from 1 to *excess_bytes*.
    """
    largest = max(kept, key=lambda namespace: kept[namespace])
    next_bytes = max((size for name, size in kept.items() if name != largest), default=0)
    step = max(kept[largest] - next_bytes, excess_bytes // 4, 1)
    return largest, min(step, excess_bytes)


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


class KeptDeadLetter(NamedTuple):
    """A dead letter in the store.

    Attributes:
        id: Its number, ascending with time.
        dead_letter: With its event as a dead letter sink would get it.
        event: The event without its error attributes, as in the log.
    """

    id: int
    dead_letter: DeadLetter
    event: bytes


class LetterChoice(NamedTuple):
    """Chooses kept dead letters of one partition.

    Attributes:
        route: Uid of their route, or ``letters_of`` a namespace; None: any.
        since_ms: Kept then or later, wall clock, milliseconds; None: any time.
        until_ms: Kept before this time, likewise.
        ids: By number; empty: any.
        through: Number of the last one; None: no end.
    """

    route: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    ids: tuple[int, ...] = ()
    through: int | None = None


EVERY_LETTER: Final = LetterChoice()


class KeptDeadLetters(NamedTuple):
    """The result of ``keep_house``.

    Attributes:
        routes: Those that may have dead letters.
        unnamed: Those of them whose namespace is not noted.
        given_up: Dead letters that were too old.
        more: True if there is more to do at once.
    """

    routes: list[str]
    given_up: list[GivenUp]
    more: bool
    unnamed: list[str]
