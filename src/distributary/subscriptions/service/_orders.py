"""Carries out what annotations of a Trigger or messaging Subscription say about its deliveries.

Called by the wiring of ``knative``, whose reconciler reads the annotations. An order is carried
out once, when its annotation appears or changes: what people set otherwise meanwhile stands.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.demand import DemandDetails, DemandKind
from distributary.core.errors import ConflictError, NotFoundError, RequestError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.resource.orders import (
    DISABLED,
    ENABLE,
    PAUSED,
    REDRIVE,
    REPLAY,
    RETRY,
    ReplayOrder,
)
from distributary.subscriptions.service._runs import run_key
from distributary.subscriptions.store.steering import Steering
from distributary.subscriptions.store.store import Store

BY: Final = "annotation"
"""Who asked, where an annotation did."""

_TURN: Final = "turn"
"""Beside the orders that were carried out: how often that was noted. It is in the ids of runs, so
a value that returns after another one, or after none, is a new run; and one that is repeated after
a crash, before it was noted, is the same one."""

_KINDS: Final[dict[str, DemandKind]] = {RETRY: "retry", REDRIVE: "redrive", REPLAY: "replay"}


class Halted(NamedTuple):
    """Why nothing is sent to a route.

    Attributes:
        disabled: True: it is disabled; False: it is paused.
        since_ms: Since when, wall clock, milliseconds.
        why: By whom or for what reason, for people.
    """

    disabled: bool
    since_ms: int
    why: str


class Orders:
    """Carries out orders. Blocking; safe from any thread.

    Args:
        store: Steering and demands.
        clock: For stamps.
        partitions: How many carry out a run.
    """

    def __init__(self, store: Store, clock: Clock, partitions: int) -> None:
        self._store = store
        self._clock = clock
        self._partitions = partitions

    def known(self) -> dict[str, dict[str, str]]:
        """The orders that were carried out, by uid."""
        return {uid: _without_turn(obeyed) for uid, obeyed in self._store.obeyed().items()}

    def halted(self, uid: str) -> Halted | None:
        """Why nothing is sent to a route; None: it is not halted."""
        one = self._store.steering([uid]).get(uid)
        return None if one is None else _halted(one)

    def changed(self, after: int) -> tuple[int, dict[str, Halted | None]]:
        """Routes that were halted, or not any more, after a change of this number, by uid.

        Returns:
            Number of the newest change, and what holds by then.
        """
        newest, changed = self._store.steered(after)
        return newest, {one.uid: _halted(one) for one in changed}

    def obey(self, uid: str, namespace: str, orders: Mapping[str, str]) -> str | None:
        """Carry out those of *orders* that are new; none where its object is gone.

        One that is refused is not noted: call it again later.

        Returns:
            Why one of them could not be carried out, for people; None: all were.

        Raises:
            StoreError: Not now; call it again.
        """
        before = self._store.obeyed_of(uid)
        turn = int(before.get(_TURN, "0")) + 1
        fault = None
        done = dict(orders)
        try:
            self._set(uid, orders, before)
            for name in _KINDS:
                text = orders.get(name)
                if text is None or before.get(name) == text:
                    continue
                try:
                    self._run(name, uid, namespace, text, turn)
                except (ConflictError, RequestError, ValueError) as error:
                    fault = f"{name}: {error}"
                    del done[name]
            if done != _without_turn(before):
                self._store.note_obeyed(uid, {**done, _TURN: str(turn)})
        except NotFoundError:
            pass  # It is deleted: its route ends with it.
        return fault

    def _set(self, uid: str, orders: Mapping[str, str], before: Mapping[str, str]) -> None:
        now_ms = self._clock.wall_ms()
        wants = orders.get(PAUSED) == "true", before.get(PAUSED) == "true"
        if wants == (True, False):
            self._store.pause(uid, BY, now_ms)
        elif wants == (False, True):
            self._store.resume(uid, BY, now_ms)
        wants = orders.get(DISABLED) == "true", before.get(DISABLED) == "true"
        if wants == (True, False):
            self._store.disable(uid, "by its annotation", BY, now_ms)
        elif wants == (False, True) or orders.get(ENABLE) not in {None, before.get(ENABLE)}:
            self._store.enable(uid, BY, now_ms)

    def _run(self, name: str, uid: str, namespace: str, text: str, turn: int) -> None:
        details = DemandDetails(by=BY)
        if name == REPLAY:
            order = ReplayOrder.read(text)
            details = DemandDetails(
                by=BY,
                since_ms=order.since_ms,
                until_ms=order.until_ms,
                rate=order.rate,
                partitions=self._partitions if order.rate is not None else 1,
            )
        said = f"{uid}/{name}/{turn}/{text}".encode()
        digest = hashlib.blake2b(said, digest_size=12).hexdigest()
        run = run_key(f"annotation-{digest}", namespace or DEFAULT_NAMESPACE)
        self._store.demand(_KINDS[name], uid, run, self._clock.wall_ms(), details=details)


def _without_turn(obeyed: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in obeyed.items() if name != _TURN}


def _halted(one: Steering) -> Halted | None:
    if one.disabled_ms is not None:
        return Halted(True, one.disabled_ms, one.disabled_reason or f"by {one.disabled_by}")
    if one.paused_ms is not None:
        return Halted(False, one.paused_ms, f"by {one.paused_by}")
    return None
