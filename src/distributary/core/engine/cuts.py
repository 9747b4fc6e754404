"""Where budgets of the log end: matches of backfills and rows below are not waited for."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from distributary.core.tenant import DEFAULT_NAMESPACE

PINNED: Final = "pinned-log"
"""Reason of the dead letters that a namespace's quota makes."""


class Cuts(NamedTuple):
    """Offsets in one partition; 0: no budget ends there.

    Attributes:
        everybody: Matches of all namespaces below it are given up.
        others: Matches below it become kept dead letters, of namespaces that are not named.
        named: The same by namespace.
    """

    everybody: int = 0
    others: int = 0
    named: Mapping[str, int] = {}

    def of(self, namespace: str | None) -> int:
        """Where the quota of *namespace* ends; None: the default one."""
        return self.named.get(namespace or DEFAULT_NAMESPACE, self.others)

    @property
    def highest(self) -> int:
        """Where the tightest budget ends."""
        return max(self.everybody, self.others, *self.named.values(), 0)
