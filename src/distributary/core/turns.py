"""Turns among the namespaces that wait for places which all of them share.

Callers: ``net``, where domains take turns at look-ups of names as namespaces do elsewhere, and both
at reading certificates; ``subscriptions.refresh`` and ``subscriptions.consent``, whose requests to
foreign hosts have so many places in all; and what takes a few threads for long, for requests of the
APIs. Hides: who is next. A namespace with ten thousand requests that are due delays another one
until the next of its requests ends, and no longer.
"""

import asyncio
import contextlib
import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final, ParamSpec, TypeVar

QUESTIONS_MAX: Final = 4
"""Requests of clients that threads answer at a time: as many as there are connections to PostgreSQL
that read, and fewer than the five or more threads of a loop. What writes for all needs one too."""

_Answer = TypeVar("_Answer")
_Asked = ParamSpec("_Asked")


AT_ONCE: Final = -math.inf
"""When one may start that waits for nothing but a place."""

NEVER: Final = math.inf
"""When one may start that waits for the end of another."""


class _Namespace:
    """What waits in one namespace.

    Attributes:
        turn: Number of its last place, or of its coming; the lowest has waited longest.
        hosts: Keys by host; the first key has waited longest.
        ready: Hosts that may have one more, as far as is known; the first is next.
    """

    __slots__ = ("hosts", "ready", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.hosts: dict[str, OrderedDict[str, None]] = {}
        self.ready: OrderedDict[str, None] = OrderedDict()


class Turns:
    """What waits for a place, and who holds one. For one thread.

    The next place is for the namespace that holds fewest, of several for the one that has had none
    for longest. Within a namespace hosts take turns, and at one host what has waited longest is
    next. So a namespace alone may hold all places, and two that want all hold half each.

    A host that may have no more is set aside: nobody looks at it before its time, or before one of
    its keys ends. Its namespaces look at it then after the hosts that may have one already.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, _Namespace] = {}
        self._where: dict[str, tuple[str, str]] = {}
        self._held: dict[str, int] = {}
        self._holders: dict[str, tuple[str, str]] = {}
        self._numbers = itertools.count()
        # Namespaces with a host that is ready, as (places held, turn, name); some are outdated.
        self._order: list[tuple[int, int, str]] = []
        # Namespaces that wait at a host which may have no more, and when it may, where that is
        # known; some are outdated.
        self._aside: dict[str, dict[str, None]] = {}
        self._times: list[tuple[float, int, str]] = []

    def __contains__(self, key: str) -> bool:
        """Whether *key* waits."""
        return key in self._where

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._where

    def put(self, key: str, namespace: str, host: str) -> None:
        """Let *key* wait for a place, behind all of its namespace and host; once."""
        if key in self._where:
            return
        self._where[key] = namespace, host
        waiting = self._waiting.get(namespace)
        if waiting is None:
            waiting = self._waiting[namespace] = _Namespace(next(self._numbers))
        if host not in waiting.hosts:
            waiting.hosts[host] = OrderedDict()
            if host in self._aside:
                self._aside[host][namespace] = None
            else:
                self._make_ready(namespace, host)
        waiting.hosts[host][key] = None

    def discard(self, key: str) -> None:
        """Let *key* wait no longer, if it does."""
        if key not in self._where:
            return
        namespace, host = self._where.pop(key)
        waiting = self._waiting[namespace]
        del waiting.hosts[host][key]
        if not waiting.hosts[host]:
            del waiting.hosts[host]
            waiting.ready.pop(host, None)
            aside = self._aside.get(host, {})
            aside.pop(namespace, None)
            if not aside:
                self._aside.pop(host, None)
        if not waiting.hosts:
            del self._waiting[namespace]

    def take(self, free_s: Callable[[str], float], now_s: float = 0.0) -> str | None:
        """Give the next key a place, which it holds until ``end``.

        Args:
            free_s: When one more may start at a host, on the clock of *now_s*. It may be earlier
                than was said only once a key of that host has ended: ``NEVER`` is for a host that
                has one.
            now_s: The time.

        Returns:
            The key; None: nothing waits that may start.
        """
        while self._times and self._times[0][0] <= now_s:
            self._look_again(heapq.heappop(self._times)[2])
        while self._order:
            held, turn, namespace = self._order[0]
            waiting = self._waiting.get(namespace)
            if (
                waiting is None
                or not waiting.ready
                or (held, turn) != (self.held(namespace), waiting.turn)
            ):
                heapq.heappop(self._order)
                continue
            host = next(iter(waiting.ready))
            if self._may_start(host, free_s, now_s):
                return self._give(namespace, waiting, host)
            del waiting.ready[host]
            self._aside[host][namespace] = None
        return None

    def _may_start(self, host: str, free_s: Callable[[str], float], now_s: float) -> bool:
        if host in self._aside:
            return False
        at_s = free_s(host)
        if at_s <= now_s:
            return True
        self._aside[host] = {}
        if at_s < NEVER:
            heapq.heappush(self._times, (at_s, next(self._numbers), host))
        return False

    def _give(self, namespace: str, waiting: _Namespace, host: str) -> str:
        key = next(iter(waiting.hosts[host]))
        waiting.ready.move_to_end(host)
        waiting.turn = next(self._numbers)
        self.discard(key)
        self._holders[key] = namespace, host
        self._held[namespace] = self.held(namespace) + 1
        self._line_up(namespace)
        return key

    def _make_ready(self, namespace: str, host: str) -> None:
        ready = self._waiting[namespace].ready
        ready[host] = None
        if len(ready) == 1:
            self._line_up(namespace)

    def _line_up(self, namespace: str) -> None:
        """Note that *namespace* has something ready, if it has, and how many places it holds."""
        waiting = self._waiting.get(namespace)
        if waiting is None or not waiting.ready:
            return
        if len(self._order) > 2 * len(self._waiting):  # most are outdated
            self._order = [
                (self.held(name), one.turn, name)
                for name, one in self._waiting.items()
                if one.ready and name != namespace
            ]
            heapq.heapify(self._order)
        heapq.heappush(self._order, (self.held(namespace), waiting.turn, namespace))

    def _look_again(self, host: str) -> None:
        """Let the next ``take`` ask whether one more may start at *host*."""
        for namespace in self._aside.pop(host, ()):
            self._make_ready(namespace, host)

    def held(self, namespace: str) -> int:
        """How many places *namespace* holds."""
        return self._held.get(namespace, 0)

    def end(self, key: str) -> None:
        """Free the place of *key*."""
        namespace, host = self._holders.pop(key)
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._line_up(namespace)
        self._look_again(host)


class Places:
    """Places for which coroutines wait, and which namespaces take in turn. For one event loop.

    Args:
        count: So many.
        may_have: Whether a namespace that holds so many may have one more; by default it may. One
            that holds none may.
    """

    def __init__(
        self, count: int, may_have: Callable[[str, int], bool] = lambda _namespace, _held: True
    ) -> None:
        self._free = count
        self._may_have = may_have
        self._turns = Turns()
        self._numbers = itertools.count()
        self._waiting: dict[str, asyncio.Future[None]] = {}

    @contextlib.asynccontextmanager
    async def one(self, namespace: str, host: str | None = None) -> AsyncIterator[None]:
        """Wait for a place of *namespace*, and hold it; see ``take``."""
        place = await self.take(namespace, host)
        try:
            yield
        finally:
            self.free(place)

    async def take(self, namespace: str, host: str | None = None) -> str:
        """Wait for a place of *namespace*; returns it, to be freed by ``free``.

        Args:
            namespace: Who waits.
            host: What it waits for; within a namespace hosts take turns. None: all the same.
                ``may_have`` would be asked for it in place of the namespace.
        """
        place = str(next(self._numbers))
        turn = self._waiting[place] = asyncio.get_running_loop().create_future()
        self._turns.put(place, namespace, namespace if host is None else host)
        self._give()
        try:
            await turn
        except BaseException:
            if place in self._turns:  # cancelled before its turn
                self._turns.discard(place)
                del self._waiting[place]
            else:  # in the moment of its turn
                self.free(place)
            raise
        return place

    def free(self, place: str) -> None:
        """Let the next one have *place*."""
        self._turns.end(place)
        self._free += 1
        self._give()

    def _give(self) -> None:
        while self._free and (place := self._turns.take(self._free_s)) is not None:
            self._free -= 1
            turn = self._waiting.pop(place)
            if not turn.done():  # else its caller has been cancelled, and is about to free it
                turn.set_result(None)

    def _free_s(self, namespace: str) -> float:
        return AT_ONCE if self._may_have(namespace, self._turns.held(namespace)) else NEVER


_QUESTIONS: Final = Places(QUESTIONS_MAX)


async def in_thread(
    namespace: str, work: Callable[_Asked, _Answer], *asked: _Asked.args, **more: _Asked.kwargs
) -> _Answer:
    """Call *work*, which blocks, in a thread once it is the turn of *namespace*.

    For what a client asks: however much another namespace asks, it waits for one answer of it.
    """
    async with _QUESTIONS.one(namespace):
        return await asyncio.to_thread(work, *asked, **more)
