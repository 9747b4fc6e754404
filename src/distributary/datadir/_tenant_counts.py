"""What tenants have used at each receiver, so that their rates hold for the sum of all.

The control process counts as one more receiver: of requests over AMQP. Each counts in its own row
of a file in shared memory and reads those of the others. A
namespace has two slots in each row, chosen by a keyed hash: the lesser growth of the two is its
own, or more where other namespaces fall into both slots. Counts begin anew at 2**32.
"""

import enum
from pathlib import Path
from typing import Final

from distributary.datadir._shared_rows import SLOTS, SharedRows, make_rows

_MASK: Final = 0xFFFF_FFFF


class Used(enum.IntEnum):
    """What is counted."""

    EVENTS = 0
    BYTES = 1
    CALLS = 2


_WORDS: Final = len(Used) * 2 * SLOTS


def make_tenant_counts(path: Path, receivers: int) -> None:
    """Create the file for *receivers* receivers and, as the one after them, the control process.

    None of them has counted anything yet.

    Raises:
        OSError: It cannot be written.
    """
    make_rows(path, receivers + 1, _WORDS)


class TenantUse:
    """What one namespace uses, as one receiver counts and sees it.

    Args:
        own: The row of this receiver.
        others: Those of the others.
        slots: Both slots of the namespace.
    """

    __slots__ = ("_others", "_own", "_seen", "_slots")

    def __init__(self, own: memoryview, others: list[memoryview], slots: tuple[int, int]) -> None:
        self._own = own
        self._others = others
        self._slots = slots
        self._seen: dict[Used, list[tuple[int, int]]] = {}
        for used in Used:
            self.taken_elsewhere(used)

    def add(self, used: Used, count: int) -> None:
        """Count what this receiver has admitted."""
        base = used * 2 * SLOTS
        for slot in self._slots:
            self._own[base + slot] = (self._own[base + slot] + count) & _MASK

    def taken_elsewhere(self, used: Used) -> int:
        """Returns what the others have admitted since the last call."""
        base = used * 2 * SLOTS
        first, second = self._slots
        now = [(row[base + first], row[base + second]) for row in self._others]
        before = self._seen.get(used, now)
        self._seen[used] = now
        return sum(
            min(_growth(one[0], was[0]), _growth(one[1], was[1]))
            for one, was in zip(now, before, strict=True)
        )


def _growth(now: int, before: int) -> int:
    return (now - before) & _MASK


class TenantCounts:
    """One receiver's view.

    Args:
        path: File of ``make_tenant_counts``; None: there is no other receiver.
        number: Number of this receiver. Its row goes on where an earlier process left it: a step
            back would look like much use.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path | None = None, number: int = 0) -> None:
        self._rows = SharedRows(path, number, _WORDS)

    def of(self, namespace: str) -> TenantUse | None:
        """Returns what *namespace* uses; None: there is no other receiver to share it with."""
        rows = self._rows
        return TenantUse(rows.own, rows.others, rows.slots(namespace)) if rows.others else None
