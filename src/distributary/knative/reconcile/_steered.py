"""Carries out what annotations say about deliveries, and finds which of them are halted."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.clock import Clock
from distributary.knative.apiserver.objects import Stored, timestamp
from distributary.knative.kinds import orders_of
from distributary.knative.reconcile._findings import Finding
from distributary.knative.reconcile._ports import Halt, Steering
from distributary.resource.orders import DISABLED, ENABLE, PAUSED

AGAIN_S: Final = 60.0
"""How long a refused order waits to be tried again, seconds: too many runs are kept, until some are
over or cancelled."""

AGAIN_MAX: Final = 16
"""Most objects whose refused orders are tried again at one look: each asks the store for a run,
which takes its writer for a millisecond."""

_HOLDS: Final = Finding("True", severity="Info")

_SETTINGS: Final = frozenset((PAUSED, DISABLED, ENABLE))
"""Orders that set how a route delivers; the others are runs."""


class Steered:
    """The orders of Triggers and messaging Subscriptions.

    Args:
        steering: Carries them out.
        clock: Paces what is refused.
        exists: Whether there is an object with a uid: ``forget`` may be called during a wait.
    """

    def __init__(self, steering: Steering, clock: Clock, exists: Callable[[str], bool]) -> None:
        self._steering = steering
        self._clock = clock
        self._exists = exists
        self._known: dict[str, dict[str, str]] | None = None
        self._halted: dict[str, Halt] = {}
        self._seq = 0  # of the newest change of steering that was read
        self._faults: dict[str, str] = {}
        self._again_s: dict[str, float] = {}  # when to try refused orders again, by uid

    async def has_orders(self, stored: Stored) -> bool:
        """Whether ``halt`` and ``obey`` have something of *stored* to carry out.

        Raises:
            StoreError: Not now; call it again.
        """
        again_s = self._again_s.get(stored.uid)
        due = again_s is not None and self._clock.monotonic_s() >= again_s
        return due or orders_of(stored.content) != await self._obeyed(stored.uid)

    async def halt(self, stored: Stored) -> None:
        """Pause or disable the route of *stored* if that is new in its annotations.

        Call it before its route is submitted, and ``obey`` after it: nothing is sent in between.
        The lifecycle event of one that has no route yet comes when it starts.

        Raises:
            StoreError: Not now; call it again.
        """
        orders, known = orders_of(stored.content), await self._obeyed(stored.uid)
        halting = {
            name: "true"
            for name in (PAUSED, DISABLED)
            if orders.get(name) == "true" and known.get(name) != "true"
        }
        if not halting:
            return
        if DISABLED in halting and ENABLE in orders:  # of both at once, the route is disabled
            halting[ENABLE] = orders[ENABLE]
        # A run that was refused and is not wanted any more is not tried again.
        kept = {
            name: text
            for name, text in known.items()
            if name in _SETTINGS or orders.get(name) == text
        }
        await self._carry_out(stored, {**kept, **halting})

    async def obey(self, stored: Stored, *, routed: bool) -> None:
        """Carry out what is new in the annotations of *stored*, and what is to be tried again.

        Args:
            stored: The object.
            routed: Whether its route stands. Until then runs wait: partitions end those of a route
                that they do not know.

        Raises:
            StoreError: Not now; call it again.
        """
        if not await self.has_orders(stored):
            return
        orders = orders_of(stored.content)
        if not routed:
            known = await self._obeyed(stored.uid)
            orders = {
                name: text
                for name, text in orders.items()
                if name in _SETTINGS or known.get(name) == text
            }
            if orders == known:
                return
        await self._carry_out(stored, orders)

    async def _obeyed(self, uid: str) -> Mapping[str, str]:
        """The orders of *uid* that were carried out."""
        if self._known is None:
            await self._read_changes()  # before the first status is written
            known = await asyncio.to_thread(self._steering.known)
            self._known = {uid: dict(said) for uid, said in known.items() if self._exists(uid)}
        return self._known.get(uid, {})

    async def _carry_out(self, stored: Stored, orders: dict[str, str]) -> None:
        assert self._known is not None
        now_s = self._clock.monotonic_s()
        namespace = stored.key.namespace
        fault = await asyncio.to_thread(self._steering.obey, stored.uid, namespace, orders)
        if not self._exists(stored.uid):  # deleted meanwhile, and forgotten already
            return
        self._known[stored.uid] = orders
        self._faults.pop(stored.uid, None)
        self._again_s.pop(stored.uid, None)
        if fault is not None:
            self._faults[stored.uid] = fault
            self._again_s[stored.uid] = now_s + AGAIN_S
        self._note(stored.uid, await asyncio.to_thread(self._steering.halted, stored.uid))

    async def _read_changes(self) -> list[str]:
        """Read which routes are newly halted, or not any more; returns those."""
        self._seq, changed = await asyncio.to_thread(self._steering.changed, self._seq)
        return [uid for uid, halt in changed.items() if self._note(uid, halt)]

    def _note(self, uid: str, halt: Halt | None) -> bool:
        """Note whether the route *uid* is halted; False: that is known."""
        if not self._exists(uid) or self._halted.get(uid) == halt:
            return False
        if halt is None:
            del self._halted[uid]
        else:
            self._halted[uid] = halt
        return True

    async def news(self) -> list[str]:
        """Uids of routes that are newly halted, or not any more, or have orders to try again.

        Raises:
            StoreError: Not now; call it again.
        """
        news = await self._read_changes()
        now_s = self._clock.monotonic_s()
        again = [uid for uid, again_s in self._again_s.items() if now_s >= again_s][:AGAIN_MAX]
        for uid in again:  # to the end: the next look is for others
            self._again_s[uid] = self._again_s.pop(uid)
        return [*again, *news]

    def forget(self, uid: str) -> None:
        """Forget a deleted object."""
        self._faults.pop(uid, None)
        self._again_s.pop(uid, None)
        self._halted.pop(uid, None)
        if self._known is not None:
            self._known.pop(uid, None)

    def finding(self, uid: str) -> Finding:
        """Finding for the condition. For information: the route is active and ready."""
        halt = self._halted.get(uid)
        if halt is not None:
            reason = "Disabled" if halt.disabled else "Paused"
            message = f"since {timestamp(halt.since_ms)}: {halt.why}; what matches waits"
            return Finding("False", reason, message, "Info")
        fault = self._faults.get(uid)
        if fault is not None:
            return Finding("True", "OrderRefused", fault, "Info")
        return _HOLDS
