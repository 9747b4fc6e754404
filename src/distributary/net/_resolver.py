"""Name resolution: a port, an adapter of the system's resolver, and a short-lived cache."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import TransportError
from distributary.core.turns import Places

LOOKUP_S_MAX: Final = 5.0
"""Longest look-up: glibc tries its second server after 5 s; there is no wait for a third."""

ADDRESSES_MAX: Final = 64
"""Addresses of a name that are taken; a connection tries a few of them. An answer of DNS holds four
thousand, and each is checked before each connection: 75 ms of the loop that delivers to all."""

CACHE_S: Final = 5.0
"""Lifetime of cached addresses: a burst of connections needs one look-up, and a moved sink is found
within seconds."""

CACHE_NAMES_MAX: Final = 1_024
"""Names in the cache; the oldest is evicted first."""

LOOKUPS_MAX: Final = 64
"""Concurrent look-ups. Each occupies a thread while the system's resolver works (30 s and more for
a silent server), so one bad name must not delay the others."""

LOOKUPS_EACH_MAX: Final = 8
"""Concurrent look-ups in one domain: a domain with a silent name server may have any number of
names. One whose last look-up had no answer in time has 1: more would be lost on it."""

SILENT_MAX: Final = 10_000
"""Domains that are known to be silent; the oldest is forgotten first."""

PLACE_S_MAX: Final = 30.0
"""Longest wait for a free slot, besides the look-up's time: as long as an attempt by default."""

FAILURE_S: Final = 5.0
"""First time for which a failed look-up is cached: a name that has just been made is found soon."""
FAILURE_S_MAX: Final = 30.0
"""First and longest time for which a failed look-up is cached; it doubles with each consecutive
failure. A silent name would occupy a thread again; one that appears is found soon."""


def domain_of(host: str) -> str:
    """Returns the last two labels of *host*: as a rule the registered domain.

    Under a suffix such as ``co.uk`` strangers share them, and so ``LOOKUPS_EACH_MAX``: the only
    effect is that their look-ups wait for one another.
    """
    return ".".join(host.rstrip(".").lower().rsplit(".", 2)[-2:])


class Resolver(Protocol):
    """Turns a host name into addresses."""

    async def resolve(self, host: str) -> list[str]:
        """Returns the addresses of *host*, in the order in which to try them; at least one.

        At most ``ADDRESSES_MAX``: the others are not checked, so nobody may dial them.

        Raises:
            TransportError: ``dns``: no such name, no address, or no response in time.
        """


Finish = Callable[[list[str], OSError | None], None]
"""Called with the addresses of a name, or the error; on any thread."""


class SystemResolver:
    """``getaddrinfo`` of the operating system, each look-up in a separate thread.

    The threads are daemons and not an executor's, which would wait at exit for a look-up that
    hangs.

    Args:
        look_up: Starts a look-up and calls back with the result; by default in such a thread.
    """

    def __init__(self, look_up: Callable[[str, Finish], None] | None = None) -> None:
        self._look_up = look_up or _look_up_aside
        # Held until the look-up ends: its thread outlives whoever waits for it.
        self._places = Places(LOOKUPS_MAX, self._may_look_up)
        self._silent: dict[str, None] = {}

    async def resolve(self, host: str) -> list[str]:
        """Returns the addresses of *host*; see ``Resolver``."""
        domain = domain_of(host)
        try:
            async with asyncio.timeout(PLACE_S_MAX):
                place = await self._places.take(domain)
        except TimeoutError as error:
            text = f"No place to look {host} up in {PLACE_S_MAX:g} s"
            raise TransportError("dns", text) from error
        answer = self._start(host, domain, place)
        try:
            async with asyncio.timeout(LOOKUP_S_MAX):
                return await answer
        except TimeoutError as error:
            self._silent.pop(domain, None)
            if len(self._silent) >= SILENT_MAX:
                del self._silent[next(iter(self._silent))]
            self._silent[domain] = None
            raise TransportError("dns", f"No answer about {host} in {LOOKUP_S_MAX:g} s") from error
        except OSError as error:
            raise TransportError("dns", f"Cannot resolve {host}: {error.strerror}") from error

    def _may_look_up(self, domain: str, held: int) -> bool:
        return held < (1 if domain in self._silent else LOOKUPS_EACH_MAX)

    def _start(self, host: str, domain: str, place: str) -> asyncio.Future[list[str]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def finish(addresses: list[str], error: OSError | None) -> None:
            in_time = not answer.cancelled()
            if in_time:
                self._silent.pop(domain, None)  # whatever the answer says
            self._places.free(place)
            if not in_time:
                return
            if error is None:
                answer.set_result(addresses[:ADDRESSES_MAX])
            else:
                answer.set_exception(error)

        def tell(addresses: list[str], error: OSError | None) -> None:
            # The loop may have closed meanwhile: nothing waits for the result then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, addresses, error)

        self._look_up(host, tell)
        return answer


def _look_up_aside(host: str, tell: Finish) -> None:
    def look_up() -> None:
        addresses: list[str] = []
        failure: OSError | None = None
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
        except OSError as error:
            failure = error
        except UnicodeError as error:  # a label that is empty or too long
            failure = socket.gaierror(socket.EAI_NONAME, str(error))
        tell(addresses, failure)

    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()


class _Failure(NamedTuple):
    """A cached failure of a look-up: its expiry, its lifetime, and the reason."""

    until_s: float
    pause_s: float
    message: str


class CachingResolver:
    """Caches addresses for ``CACHE_S`` seconds, and merges concurrent look-ups of a name.

    Caches failures for ``FAILURE_S`` and longer: many sinks may share a silent name, and each
    look-up occupies a slot that others need.

    Args:
        resolver: Resolves names that are not cached.
        clock: For the age of entries.
    """

    def __init__(self, resolver: Resolver, clock: Clock) -> None:
        self._resolver = resolver
        self._clock = clock
        self._answers: dict[str, tuple[float, list[str]]] = {}
        self._failures: dict[str, _Failure] = {}
        self._asking: dict[str, asyncio.Task[list[str]]] = {}

    async def resolve(self, host: str) -> list[str]:
        """Returns every address of *host*, perhaps some seconds old; see ``Resolver``."""
        known = self._answers.get(host)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known[0] < CACHE_S:
            return known[1]
        failure = self._failures.get(host)
        if failure is not None and now_s < failure.until_s:
            raise TransportError("dns", failure.message)
        task = self._asking.get(host)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._resolver.resolve(host))
            self._asking[host] = task
            task.add_done_callback(lambda done: self._keep(host, done))
        # Shielded: the timeout of one attempt must not end the look-up for the others.
        return await asyncio.shield(task)

    def _keep(self, host: str, task: asyncio.Task[list[str]]) -> None:
        del self._asking[host]
        if task.cancelled():
            return
        now_s = self._clock.monotonic_s()
        before = self._failures.pop(host, None)
        error = task.exception()
        if error is not None:
            pause_s = FAILURE_S if before is None else min(2 * before.pause_s, FAILURE_S_MAX)
            _bound(self._failures)
            self._failures[host] = _Failure(now_s + pause_s, pause_s, str(error))
            return
        self._answers.pop(host, None)
        _bound(self._answers)
        self._answers[host] = (now_s, task.result())


def _bound(kept: dict[str, Any]) -> None:
    """Evict the oldest entry of a full cache."""
    if len(kept) >= CACHE_NAMES_MAX:
        del kept[next(iter(kept))]
