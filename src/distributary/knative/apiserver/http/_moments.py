"""Snapshots of lists that are read in pages: whose they are, and how many are kept.

Called by ``Lists``. A snapshot shares its objects with the store while they do not change.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.access import Identity
from distributary.knative.apiserver.objects import ObjectChange, Stored

MOMENTS_OF_ONE_MAX: Final = 16
"""Snapshots kept for all who act in the same namespaces: clients read a kind or two at a time.
Beyond it theirs that was used least lately is dropped: who continues that list gets 410 and lists
again."""

MOMENTS_MAX: Final = 64
"""Snapshots kept in all; beyond it those who have most lose one. Each holds 8 bytes for each object
of its list: at worst 100 MiB, for lists of 200,000."""

REPLACED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Objects that have changed since and are in snapshots, bytes; beyond it those who have most of it
lose one. In memory they need up to eight times as much, as in the window of changes."""


class Moment(NamedTuple):
    """A list of a kind in one version, as one reader had it.

    Attributes:
        reader: Name of the identity. No other one finds it.
        resource: ``Kind.resource``.
        namespace: None: of all namespaces.
        version: Of the list.
    """

    reader: str
    resource: str
    namespace: str | None
    version: int


@dataclass(slots=True)
class _Kept:
    items: Sequence[Stored]
    owner: tuple[str, ...]
    replaced_bytes: int = 0


class Moments:
    """Snapshots of lists, those used least lately first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Moment, _Kept] = OrderedDict()
        self._replaced_bytes = 0

    def find(self, moment: Moment) -> Sequence[Stored] | None:
        """The objects at *moment*; None: they are not kept."""
        kept = self._kept.get(moment)
        return None if kept is None else kept.items

    def keep(self, moment: Moment, reader: Identity, items: Sequence[Stored]) -> None:
        """Keep *items* at *moment* for the next page of *reader*."""
        owner = reader.namespaces
        self._kept.setdefault(moment, _Kept(items, owner))
        self._kept.move_to_end(moment)
        counts = Counter(kept.owner for kept in self._kept.values())
        if counts[owner] > MOMENTS_OF_ONE_MAX:
            self._drop_one_of(owner)
        elif len(self._kept) > MOMENTS_MAX:
            self._drop_one_of(max(counts, key=counts.__getitem__))

    def note(self, change: ObjectChange) -> None:
        """Count the state of an object that only snapshots hold after *change*."""
        before = change.before
        if before is None:
            return
        key = change.stored.key
        for moment, kept in self._kept.items():
            if (
                moment.resource == key.resource
                and moment.namespace in (None, key.namespace)
                and moment.version >= before.version
            ):
                kept.replaced_bytes += before.size_bytes
                self._replaced_bytes += before.size_bytes
        while self._replaced_bytes > REPLACED_BYTES_MAX:
            sizes: Counter[tuple[str, ...]] = Counter()
            for kept in self._kept.values():
                sizes[kept.owner] += kept.replaced_bytes
            self._drop_one_of(max(sizes, key=sizes.__getitem__))

    def _drop_one_of(self, owner: tuple[str, ...]) -> None:
        first = next(moment for moment, kept in self._kept.items() if kept.owner == owner)
        self._replaced_bytes -= self._kept.pop(first).replaced_bytes
