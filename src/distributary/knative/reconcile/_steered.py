"""Carries out what annotations say about deliveries, and finds which of them are halted."""

import asyncio
from collections.abc import Mapping
from typing import Final

from distributary.knative.apiserver.objects import Stored, timestamp
from distributary.knative.kinds import orders_of
from distributary.knative.reconcile._findings import Finding
from distributary.knative.reconcile._ports import Halt, Steering
from distributary.resource.orders import DISABLED, ENABLE, PAUSED

_HOLDS: Final = Finding("True", severity="Info")


class Steered:
    """The orders of Triggers and messaging Subscriptions.

    Args:
        steering: Carries them out.
    """

    def __init__(self, steering: Steering) -> None:
        self._steering = steering
        self._known: dict[str, dict[str, str]] | None = None
        self._halted: Mapping[str, Halt] = {}
        self._faults: dict[str, str] = {}

    async def halt(self, stored: Stored) -> None:
        """Pause or disable the route of *stored* if that is new in its annotations.

        Call it before its route is submitted, and ``obey`` after it: nothing is sent in between.

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
        await self._carry_out(stored, {**known, **halting})

    async def obey(self, stored: Stored) -> None:
        """Carry out what is new in the annotations of *stored*.

        Raises:
            StoreError: Not now; call it again.
        """
        orders = orders_of(stored.content)
        if orders != await self._obeyed(stored.uid):
            await self._carry_out(stored, orders)

    async def _obeyed(self, uid: str) -> Mapping[str, str]:
        """The orders of *uid* that were carried out."""
        if self._known is None:
            known = await asyncio.to_thread(self._steering.known)
            self._known = {uid: dict(said) for uid, said in known.items()}
        return self._known.get(uid, {})

    async def _carry_out(self, stored: Stored, orders: dict[str, str]) -> None:
        assert self._known is not None
        namespace = stored.key.namespace
        fault = await asyncio.to_thread(self._steering.obey, stored.uid, namespace, orders)
        self._known[stored.uid] = orders
        self._faults.pop(stored.uid, None)
        if fault is not None:
            self._faults[stored.uid] = fault
        await self._look_at(stored.uid)

    async def _look_at(self, uid: str) -> None:
        """Note whether the route *uid* is halted; of the others, ``news`` tells."""
        halted = (await asyncio.to_thread(self._steering.halted)).get(uid)
        others = {other: halt for other, halt in self._halted.items() if other != uid}
        self._halted = others if halted is None else {**others, uid: halted}

    async def news(self) -> list[str]:
        """Uids of routes that are newly halted, or not any more.

        Raises:
            StoreError: Not now; call it again.
        """
        before, self._halted = self._halted, await asyncio.to_thread(self._steering.halted)
        return [uid for uid in {*before, *self._halted} if before.get(uid) != self._halted.get(uid)]

    def forget(self, uid: str) -> None:
        """Forget a deleted object."""
        self._faults.pop(uid, None)
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
