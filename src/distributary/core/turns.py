"""Turns among the namespaces that wait for places which all of them share.

Callers: ``net``, where domains take turns at look-ups of names as namespaces do elsewhere;
``subscriptions.refresh`` and ``subscriptions.consent``, whose requests to foreign hosts
have so many places in all; and what takes a few threads for long, for requests of the APIs. Hides:
who is next. A namespace with ten thousand requests that are due delays another one until the next
of its requests ends, and no longer.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Final, ParamSpec, TypeVar

QUESTIONS_MAX: Final = 4
"""Requests of clients that threads answer at a time: as many as there are connections to PostgreSQL
that read, and fewer than the five or more threads of a loop. What writes for all needs one too."""

_Answer = TypeVar("_Answer")
_Asked = ParamSpec("_Asked")


class Turns:
    """What waits for a place, and who holds one. For one thread.

    The next place is for the namespace that holds fewest, of several for the one that has had none
    for longest. Within a namespace hosts take turns, and at one host what has waited longest is
    next. So a namespace alone may hold all places, and two that want all hold half each.
    """

    def __init__(self) -> None:
        # By namespace, by host, keys. The first namespace, host and key have waited longest.
        self._waiting: dict[str, dict[str, dict[str, None]]] = {}
        self._where: dict[str, tuple[str, str]] = {}
        self._held: dict[str, int] = {}
        self._holders: dict[str, str] = {}

    def __contains__(self, key: str) -> bool:
        """Whether *key* waits."""
        return key in self._where

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._where

    def put(self, key: str, namespace: str, host: str) -> None:
        """Let *key* wait for a place, behind all of its namespace and host; once."""
        if key not in self._where:
            self._where[key] = namespace, host
            self._waiting.setdefault(namespace, {}).setdefault(host, {})[key] = None

    def discard(self, key: str) -> None:
        """Let *key* wait no longer, if it does."""
        if key in self._where:
            namespace, host = self._where.pop(key)
            hosts = self._waiting[namespace]
            del hosts[host][key]
            if not hosts[host]:
                del hosts[host]
            if not hosts:
                del self._waiting[namespace]

    def take(self, may_start: Callable[[str], bool]) -> str | None:
        """Give the next key a place, which it holds until ``end``.

        Args:
            may_start: Whether one more may start at a host.

        Returns:
            The key; None: nothing waits that may start.
        """
        for namespace in sorted(self._waiting, key=lambda name: self._held.get(name, 0)):
            hosts = self._waiting[namespace]
            host = next((name for name in hosts if may_start(name)), None)
            if host is not None:
                key = next(iter(hosts[host]))
                hosts[host] = hosts.pop(host)  # last among its hosts
                self._waiting[namespace] = self._waiting.pop(namespace)
                self.discard(key)
                self._holders[key] = namespace
                self._held[namespace] = self._held.get(namespace, 0) + 1
                return key
        return None

    def held(self, namespace: str) -> int:
        """How many places *namespace* holds."""
        return self._held.get(namespace, 0)

    def end(self, key: str) -> None:
        """Free the place of *key*."""
        namespace = self._holders.pop(key)
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]


class Places:
    """Places for which coroutines wait, and which namespaces take in turn. For one event loop.

    Args:
        count: So many.
        may_have: Whether a namespace that holds so many may have one more; by default it may.
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
    async def one(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a place of *namespace*, and hold it."""
        place = await self.take(namespace)
        try:
            yield
        finally:
            self.free(place)

    async def take(self, namespace: str) -> str:
        """Wait for a place of *namespace*; returns it, to be freed by ``free``."""
        place = str(next(self._numbers))
        turn = self._waiting[place] = asyncio.get_running_loop().create_future()
        self._turns.put(place, namespace, namespace)
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
        while self._free and (place := self._turns.take(self._may_start)) is not None:
            self._free -= 1
            turn = self._waiting.pop(place)
            if not turn.done():  # else its caller has been cancelled, and is about to free it
                turn.set_result(None)

    def _may_start(self, namespace: str) -> bool:
        return self._may_have(namespace, self._turns.held(namespace))


_QUESTIONS: Final = Places(QUESTIONS_MAX)


async def in_thread(
    namespace: str, work: Callable[_Asked, _Answer], *asked: _Asked.args, **more: _Asked.kwargs
) -> _Answer:
    """Call *work*, which blocks, in a thread once it is the turn of *namespace*.

    For what a client asks: however much another namespace asks, it waits for one answer of it.
    """
    async with _QUESTIONS.one(namespace):
        return await asyncio.to_thread(work, *asked, **more)
