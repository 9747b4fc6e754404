"""Counts of deliveries in memory; passes the contract of ``outcome.Quota``."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from distributary.core.outcome import Grant, Slot, SlotWish


@dataclass
class _Count:
    events_max: int
    delivered: int = 0
    closed: bool = False
    held: dict[tuple[int, Slot], bool] = field(default_factory=dict)
    """By partition and slot: whether it rests."""

    @property
    def used_up(self) -> bool:
        return self.closed or self.delivered >= self.events_max


class MemoryQuota:
    """A ``Quota`` for owners in one process."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}
        self._turn = threading.Lock()

    @property
    def exists(self) -> bool:
        """See ``Quota.exists``."""
        return bool(self._counts)

    def take(
        self,
        partition: int,
        wishes: Sequence[SlotWish],
        *,
        free: Iterable[Slot] = (),
        resting: Iterable[Slot] = (),
    ) -> list[Grant]:
        """See ``Quota.take``."""
        self.free(partition, free)
        with self._turn:
            for slot in resting:
                held = self._held(slot)
                if (partition, slot) in held:
                    held[partition, slot] = True
            for wish in wishes:
                count = self._counts.setdefault(wish.slot.key.route, _Count(wish.events_max))
                count.events_max = wish.events_max
            return [self._grant(partition, wish.slot) for wish in wishes]

    def _grant(self, partition: int, slot: Slot) -> Grant:
        count = self._counts[slot.key.route]
        mine = (partition, slot)
        if mine not in count.held:
            if count.used_up:
                return Grant.USED_UP
            if count.delivered + len(count.held) >= count.events_max:
                return Grant.WAIT
        count.held[mine] = False
        return Grant.HELD

    def _held(self, slot: Slot) -> dict[tuple[int, Slot], bool]:
        count = self._counts.get(slot.key.route)
        return {} if count is None else count.held

    def free(self, partition: int, slots: Iterable[Slot]) -> None:
        """See ``Quota.free``."""
        with self._turn:
            for slot in slots:
                self._held(slot).pop((partition, slot), None)

    def count(self, partition: int, slots: Iterable[Slot]) -> None:
        """See ``Quota.count``."""
        with self._turn:
            for slot in slots:
                if self._held(slot).pop((partition, slot), None) is not None:
                    self._counts[slot.key.route].delivered += 1

    def slots(self, partition: int) -> dict[Slot, bool]:
        """See ``Quota.slots``."""
        with self._turn:
            return {
                slot: rests
                for count in self._counts.values()
                for (where, slot), rests in count.held.items()
                if where == partition
            }

    def used_up(self) -> list[str]:
        """See ``Quota.used_up``."""
        with self._turn:
            found = (uid for uid, count in self._counts.items() if not count.closed)
            return sorted(uid for uid in found if self._counts[uid].used_up)

    def delivered(self, uid: str) -> int:
        """See ``Quota.delivered``."""
        count = self._counts.get(uid)
        return 0 if count is None else count.delivered

    def forget(self, *uids: str) -> None:
        """See ``Quota.forget``."""
        with self._turn:
            for uid in uids:
                if uid in self._counts:
                    self._counts[uid].closed = True
                    self._counts[uid].held.clear()
