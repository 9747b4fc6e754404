"""What tenants have used at each receiver, so that their rates hold for the sum of all.

The control process counts as one more receiver: of requests over AMQP. Each counts in its own row
of a file in shared memory and reads those of the others. A row is a table with an entry for each
namespace that its receiver has admitted something of: a digest of the name, a number of the claim,
and the counts, which begin anew at 2**32. An entry is of one namespace alone: readers compare the
whole digest. Each row has one writer, so there is no lock:

- A writer clears the digest first; then it sets counts, claim and digest, in this order. Numbers of
  claims never come again.
- A reader reads claim, count, digest, and the claim once more: the count is of the namespace if the
  digest is, and both claims are one.
"""

import enum
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from distributary.datadir._shared_rows import DIGEST_BYTES, SharedRows, make_rows

CLAIMS_MAX: Final = 8_192
"""Namespaces that one receiver counts for the others: nearly as many as have a meter. Of further
ones the others see nothing, so that their rates hold for each receiver alone, until entries that
were not used for a while are freed."""

FREE_S: Final = 60.0
"""An entry that was not used for so long may be freed where there is no other. What it counted is
forgiven by then: a bucket is full again a second after its last event."""

_ENTRIES: Final = 2 * CLAIMS_MAX
_WINDOW: Final = 64
"""Entries in which a namespace may be: the first has the number of its hash. With half of all
taken, one in 100,000 namespaces finds none of its own free."""

_WORD_BYTES: Final = 4
_DIGEST_WORDS: Final = DIGEST_BYTES // _WORD_BYTES
_CLAIM: Final = _DIGEST_WORDS
_COUNTS: Final = _CLAIM + 1
_MASK: Final = 0xFFFF_FFFF


class Used(enum.IntEnum):
    """What is counted."""

    EVENTS = 0
    BYTES = 1
    CALLS = 2


_ENTRY_WORDS: Final = _COUNTS + len(Used)
_ENTRY_BYTES: Final = _ENTRY_WORDS * _WORD_BYTES
NEWEST: Final = (_ENTRIES + _WINDOW) * _ENTRY_WORDS
"""The word of a row with the number of its newest claim: another one, and there is a new entry."""

ROW_WORDS: Final = NEWEST + 1
"""Words of a row."""

_FREE: Final = bytes(DIGEST_BYTES)


def make_tenant_counts(path: Path, receivers: int, secret: bytes = b"") -> None:
    """Create the file; nothing is counted in it yet.

    It has rows for *receivers* receivers and, as those after them, for the control process and for
    what other nodes use (``NodeUse``).

    Args:
        path: Where.
        receivers: Number of receivers.
        secret: Of all nodes that share a store, so that a namespace has the same digest at each;
            empty: there are none.

    Raises:
        OSError: It cannot be written.
    """
    make_rows(path, receivers + 2, ROW_WORDS, secret)


def digests_of(row: memoryview) -> list[bytes]:
    """Of all namespaces that have an entry in *row*."""
    whole = row[:NEWEST].tobytes()
    starts = range(0, len(whole), _ENTRY_BYTES)
    found = (whole[start : start + DIGEST_BYTES] for start in starts)
    return [digest for digest in found if digest != _FREE]


def _home(digest: bytes) -> int:
    """The first word of the first entry in which *digest* may be."""
    return int.from_bytes(digest[:4], "little") % _ENTRIES * _ENTRY_WORDS


def _find(row: memoryview, digest: bytes) -> int:
    """The first word of the entry of *digest* in *row*; -1: there is none."""
    home = _home(digest)
    window = row[home : home + _WINDOW * _ENTRY_WORDS].tobytes()
    at = window.find(digest)
    while at >= 0 and at % _ENTRY_BYTES:  # counts that look like it
        at = window.find(digest, at + 1)
    return -1 if at < 0 else home + at // _WORD_BYTES


class Claim:
    """An entry of the own row.

    Attributes:
        start: Its first word; -1: it was freed.
        used: Whether anything was counted since the last look for entries to free.
    """

    __slots__ = ("start", "used")

    def __init__(self, start: int) -> None:
        self.start = start
        self.used = False


class OwnRow:
    """The row of this receiver, with the entries that an earlier process of its number left."""

    def __init__(self, row: memoryview, now_s: Callable[[], float]) -> None:
        self._row = row
        self._now_s = now_s
        self._looked_s = now_s()
        self._claims: dict[bytes, Claim] = {}
        self._newest = 0
        for start in range(0, len(row) - 1, _ENTRY_WORDS):
            digest = row[start : start + _DIGEST_WORDS].tobytes()
            if digest != _FREE:
                self._claims[digest] = Claim(start)
            self._newest = max(self._newest, row[start + _CLAIM])

    def claim(self, digest: bytes) -> Claim | None:
        """The entry of *digest*, which it has from now on; None: none is free."""
        found = self._claims.get(digest)
        if found is None:
            start = self._unused(digest)
            if start < 0 and self._free():
                start = self._unused(digest)
            if start < 0:
                return None
            found = self._claims[digest] = Claim(start)
            self._take(start, digest)
        return found

    def add(self, claim: Claim, used: Used, count: int) -> None:
        """Count what is admitted."""
        claim.used = True
        at = claim.start + _COUNTS + used
        self._row[at] = (self._row[at] + count) & _MASK

    def _unused(self, digest: bytes) -> int:
        if len(self._claims) >= CLAIMS_MAX:
            return -1
        home = _home(digest)
        for start in range(home, home + _WINDOW * _ENTRY_WORDS, _ENTRY_WORDS):
            if self._row[start : start + _DIGEST_WORDS].tobytes() == _FREE:
                return start
        return -1

    def _take(self, start: int, digest: bytes) -> None:
        row, self._newest = self._row, self._newest + 1
        for used in Used:
            row[start + _COUNTS + used] = 0
        row[start + _CLAIM] = self._newest & _MASK
        row[start : start + _DIGEST_WORDS] = memoryview(digest).cast("I")
        row[NEWEST] = self._newest & _MASK

    def _free(self) -> bool:
        """Free what was not used since the last call; False: that is too short ago."""
        if self._now_s() - self._looked_s < FREE_S:
            return False
        self._looked_s = self._now_s()
        for digest, claim in tuple(self._claims.items()):
            if not claim.used:
                self._row[claim.start : claim.start + _DIGEST_WORDS] = memoryview(_FREE).cast("I")
                claim.start = -1
                del self._claims[digest]
            claim.used = False
        return True


class SeenRow:
    """What was seen of one namespace in the row of another receiver.

    Args:
        row: The row.
        digest: Of the namespace.
        past: Whether what was admitted before counts too.
    """

    __slots__ = ("_claim", "_counts", "_digest", "_row", "_start")

    def __init__(self, row: memoryview, digest: bytes, *, past: bool = False) -> None:
        self._row = row
        self._digest = digest
        self._start = -1
        self._claim = 0  # no claim has this number
        self._counts = [0] * len(Used)
        if not past:
            for used in Used:
                self.growth(used)

    @property
    def there(self) -> bool:
        """Whether the namespace had an entry at the last look."""
        return self._start >= 0

    def growth(self, used: Used) -> int:
        """What was admitted since the last call."""
        count = self._read(used)
        if count is None:
            self._start = _find(self._row, self._digest)
            count = self._read(used)
        if count is None:
            return 0
        before, self._counts[used] = self._counts[used], count
        return (count - before) & _MASK

    def _read(self, used: Used) -> int | None:
        """The count of the entry; None: there is none at the place where it was."""
        start, row = self._start, self._row
        if start < 0:
            return None
        claim, count = row[start + _CLAIM], row[start + _COUNTS + used]
        if row[start : start + _DIGEST_WORDS].tobytes() != self._digest:
            self._start = -1
            return None
        if row[start + _CLAIM] != claim:  # freed and taken again in between: it has just begun
            return None
        if claim != self._claim:
            self._claim = claim
            self._counts = [0] * len(Used)
        return count


class TenantUse:
    """What one namespace uses, as one receiver counts and sees it."""

    __slots__ = ("_claim", "_digest", "_own", "_seen")

    def __init__(self, own: OwnRow, others: list[memoryview], digest: bytes) -> None:
        self._own = own
        self._digest = digest
        self._claim: Claim | None = None
        self._seen = [SeenRow(row, digest) for row in others]

    def add(self, used: Used, count: int) -> None:
        """Count what this receiver has admitted."""
        claim = self._claim
        if claim is None or claim.start < 0:
            claim = self._claim = self._own.claim(self._digest)
        if claim is not None:
            self._own.add(claim, used, count)

    def taken_elsewhere(self, used: Used) -> int:
        """Returns what the others have admitted since the last call."""
        return sum([seen.growth(used) for seen in self._seen])


class TenantCounts:
    """One receiver's view.

    Args:
        path: File of ``make_tenant_counts``; None: there is no other receiver.
        number: Number of this receiver. Its row goes on where an earlier process left it: a step
            back would look like much use.
        now_s: Monotonic clock.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(
        self,
        path: Path | None = None,
        number: int = 0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows = SharedRows(path, number, 0 if path is None else ROW_WORDS)
        self._own = OwnRow(self._rows.own, now_s)

    def of(self, namespace: str) -> TenantUse | None:
        """Returns what *namespace* uses; None: there is no other receiver to share it with."""
        rows = self._rows
        if not rows.others:
            return None
        return TenantUse(self._own, rows.others, rows.digest(namespace))
