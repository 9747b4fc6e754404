"""Has receivers read the addresses that were opened or are gone, while passes go on.

A receiver that hangs, or a node that looks late, keeps what was opened from being ready, and
nothing else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.errors import DistributaryError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.reconcile import _work_queue
from distributary.knative.reconcile._dependents import Dependents
from distributary.knative.reconcile._known_channels import KnownChannels
from distributary.knative.reconcile._ports import Ingress

NEAR_S: Final = 0.05
"""Longest wait of a pass for receivers that read addresses, seconds: as a rule they have by then,
and what depends on them is finished in the same pass. As long as a pass of many objects."""


class Announcer:
    """Addresses that some receiver may not know yet.

    Args:
        ingress: The receivers.
        addresses: Is told what they know.
        dependents: Which objects to look at then.
        queue: Holds what waits for it.
        report: Takes the reason why they could not read them.
    """

    def __init__(
        self,
        ingress: Ingress,
        addresses: KnownChannels,
        dependents: Dependents,
        queue: _work_queue.WorkQueue,
        report: Callable[[str], None],
    ) -> None:
        self._ingress = ingress
        self._addresses = addresses
        self._dependents = dependents
        self._queue = queue
        self._report = report
        self._due: dict[Key, set[str]] = {}
        self._asked: dict[Key, set[str]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._late = False
        self._retry_s = _work_queue.RETRY_S_MIN

    def add(self, uids: Mapping[str, Key]) -> None:
        """Let receivers read whether they accept events for these Brokers and Channels."""
        for uid, key in uids.items():
            self._due.setdefault(key, set()).add(uid)
            self._idle.clear()
            self._wake.set()

    def waits(self, key: Key) -> bool:
        """Whether a receiver may not have read the address of *key* since it was added."""
        return key in self._due or key in self._asked

    async def wait(self) -> None:
        """Wait ``NEAR_S`` at most for receivers; not at all where they are late already."""
        if self._late or not (self._due or self._asked):
            return
        self._late = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NEAR_S):
                await self._idle.wait()

    async def turn(self) -> float:
        """Announce once what is due; waits for it. Returns the wait until the next call, seconds.

        What comes meanwhile is due the next time: a receiver may have read just before.
        """
        while not self._due:
            self._wake.clear()
            await self._wake.wait()
        self._asked, self._due = self._due, {}
        try:
            await self._ingress.look_again()
            self._tell()
        except DistributaryError as error:
            self._report(str(error))
            wait_s, self._retry_s = self._retry_s, self._retry_s * 2
            self._retry_s = min(self._retry_s, _work_queue.RETRY_S_MAX)
            return wait_s
        finally:
            for key, uids in self._asked.items():
                self._due.setdefault(key, set()).update(uids)
            self._asked = {}
        self._retry_s = _work_queue.RETRY_S_MIN
        return 0.0

    def _tell(self) -> None:
        asked, self._asked = self._asked, {}
        opened = self._addresses.new({uid: key for key, uids in asked.items() for uid in uids})
        for key in self._addresses.told(opened):
            self._queue.add_all(self._dependents.of(key))
        self._queue.release(asked)
        if not self._due:
            self._late = False
            self._idle.set()
