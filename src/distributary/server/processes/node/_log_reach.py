"""Whether this node reaches the log, and leads in vain where it does not and another node does.

PostgreSQL renews the lease of a leader that is cut off from Kafka alone. Its control part, and the
owners that it runs, would stand still for as long as that lasts.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import DistributaryError, LogLockedError
from distributary.core.log.kafka import KafkaEnds
from distributary.server.nodes import NodeRow, live

ASK_S: Final = 2.0
"""Interval of questions to the leaders of all partitions: one small request to each broker."""

ANSWER_S_MAX: Final = 3.0
"""Longest wait for their answers."""

REACHED_S: Final = 6.0
"""An answer that is older tells nothing: one that is in time is at most five seconds old."""

VAIN_S: Final = 15.0
"""How long another node must have reached the log while this one does not, until this one leads no
more: when Kafka comes back, nodes find it some seconds apart."""


class LogReach:
    """Of one node. For the event loop, but for ``reached``, which any thread may ask.

    Args:
        ask: Asks where all partitions end; blocks.
        name: Of this node.
        now_s: A clock that no one sets.
    """

    def __init__(self, ask: Callable[[], object], name: str, now_s: Callable[[], float]) -> None:
        self._ask = ask
        self._name = name
        self._now_s = now_s
        self._reached_s = float("-inf")
        self._vain_s: float | None = None

    @property
    def reached(self) -> bool:
        """Whether all of the log answered of late."""
        return self._now_s() - self._reached_s < REACHED_S

    async def follow(self) -> None:
        """Ask again and again; never returns."""
        while True:
            try:
                await asyncio.to_thread(self._ask)
            except DistributaryError:
                pass  # Whoever uses the log says so.
            else:
                self._reached_s = self._now_s()
            await asyncio.sleep(ASK_S)

    def _better(self, rows: Iterable[NodeRow]) -> str | None:
        """Name of a living node that reaches the log where this one does not."""
        if self.reached:
            return None
        others = (each.sign for each in live(rows) if each.sign.name != self._name)
        return next((sign.name for sign in others if sign.reaches_log), None)

    def is_vain(self, rows: Iterable[NodeRow]) -> bool:
        """Whether this node, which leads, is to leave that to another; call it again and again."""
        if self._better(rows) is None:
            self._vain_s = None
            return False
        if self._vain_s is None:
            self._vain_s = self._now_s()
        if self._now_s() - self._vain_s < VAIN_S:
            return False
        self._vain_s = None
        return True

    def check(self, rows: Iterable[NodeRow]) -> None:
        """Refuse to take the lead where another node can do more with it.

        Raises:
            LogLockedError: It is for that node.
        """
        better = self._better(rows)
        if better is not None:
            raise LogLockedError(f"the log is not reached from here, and is from {better}")


def reach_of_log(
    place: KafkaPlace, partitions: Callable[[], int], name: str, now_s: Callable[[], float]
) -> LogReach:
    """Returns the reach of the node *name* to the log at *place*."""
    ends = KafkaEnds(place, ANSWER_S_MAX)
    return LogReach(lambda: ends.read(partitions()), name, now_s)
