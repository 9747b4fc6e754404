"""What tenants use at the nodes that share a log and a store, so that rates hold over all of them.

Called by the node process twice a second: it reports what the receivers of its node have admitted,
and enters what other nodes report in a row beside theirs, where each receiver sees it as that of
one more receiver. Digests of names are the same at all nodes, which share a secret; names are
exchanged nowhere.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from distributary.datadir._shared_rows import SharedRows
from distributary.datadir._tenant_counts import (
    NEWEST,
    ROW_WORDS,
    OwnRow,
    SeenRow,
    Used,
    digests_of,
)

REPORTED_MAX: Final = 2_000
"""Namespaces in a report, those used last: 60 KB in the database twice a second. The rates of
further ones hold for each node alone."""

IDLE_S: Final = 60.0
"""A namespace that was not used for so long leaves the report, and begins from zero when it comes
back."""

STALE_S: Final = 2.0
"""After so long without a report of the others they are followed anew: what they used meanwhile is
not asked for. Else a tenant would wait as long as the database was away."""

Totals = dict[bytes, list[int]]
"""Counts of each namespace, by digest and in the order of ``Used``, since it is in the report."""

_ZERO: Final = [0] * len(Used)


class _Watched:
    """A row of this node, every entry of it."""

    def __init__(self, row: memoryview) -> None:
        self._row = row
        self._newest = 0
        self._seen: dict[bytes, SeenRow] = {}

    def grown(self) -> Iterator[tuple[bytes, list[int]]]:
        """What each namespace was admitted since the last call, where it was anything."""
        newest = self._row[NEWEST]
        if newest != self._newest:
            self._newest = newest
            for digest in digests_of(self._row):
                if digest not in self._seen:
                    self._seen[digest] = SeenRow(self._row, digest, past=True)
        for digest, seen in tuple(self._seen.items()):
            counts = [seen.growth(used) for used in Used]
            if any(counts):
                yield digest, counts
            elif not seen.there:
                del self._seen[digest]


class NodeUse:
    """The use of one node, and of those that it hears of. For one thread.

    Args:
        path: File of ``make_tenant_counts``.
        receivers: Number of receivers of this node.
        now_s: Monotonic clock.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path, receivers: int, now_s: Callable[[], float]) -> None:
        rows = SharedRows(path, receivers + 1, ROW_WORDS)
        self._watched = [_Watched(row) for row in rows.others]
        self._others = OwnRow(rows.own, now_s)
        self._now_s = now_s
        self._totals: Totals = {}
        self._used_s: dict[bytes, float] = {}
        self._heard: dict[str, Totals] = {}
        self._heard_s = float("-inf")

    def report(self) -> bytes:
        """What this node uses; empty: nothing with a rate."""
        now_s = self._now_s()
        for watched in self._watched:
            for digest, counts in watched.grown():
                before = self._totals.get(digest, _ZERO)
                self._totals[digest] = [a + b for a, b in zip(before, counts, strict=True)]
                self._used_s[digest] = now_s
        latest = sorted(self._used_s.items(), key=lambda used: -used[1])
        for number, (digest, used_s) in enumerate(latest):
            if number >= REPORTED_MAX or now_s - used_s >= IDLE_S:
                del self._totals[digest], self._used_s[digest]
        return msgspec.msgpack.encode(self._totals) if self._totals else b""

    def hear(self, reports: Mapping[str, bytes]) -> None:
        """Enter what other nodes have used since the last call, for the receivers of this one.

        Args:
            reports: Newest ``report`` of each living one, by what names its run.
        """
        now_s = self._now_s()
        if now_s - self._heard_s > STALE_S:
            self._heard = {}
        self._heard_s = now_s
        heard = {run: _decoded(report) for run, report in reports.items()}
        for run, totals in heard.items():
            before = self._heard.get(run)
            if before is not None:  # else it may have used this long ago
                for digest, counts in totals.items():
                    self._enter(digest, counts, before.get(digest, _ZERO))
        self._heard = heard

    def _enter(self, digest: bytes, counts: list[int], before: list[int]) -> None:
        # A namespace that was out of the report has begun again from zero.
        grown = [
            now - then if now >= then else now for now, then in zip(counts, before, strict=True)
        ]
        claim = self._others.claim(digest) if any(grown) else None
        if claim is not None:
            for used in Used:
                self._others.add(claim, used, grown[used])


def _decoded(report: bytes) -> Totals:
    try:
        return msgspec.msgpack.decode(report, type=dict[bytes, list[int]])
    except msgspec.MsgspecError:
        return {}  # of another version
