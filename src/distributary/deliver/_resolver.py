"""Looking up names: a port, the system's resolver behind it, and a short-lived cache."""

import asyncio
import socket
import threading
from typing import Final, Protocol

from distributary.clock import Clock
from distributary.errors import TransportError

LOOKUP_S_MAX: Final = 5.0
"""Longest look-up: glibc asks its second server after 5 s; nobody waits for a third."""

CACHE_S: Final = 5.0
"""Answers are kept so long: a crowd of new connections asks once, a moved sink is found within
seconds."""

CACHE_NAMES_MAX: Final = 1_024
"""Names in the cache; the oldest go first."""

LOOKUPS_MAX: Final = 64
"""Look-ups at the same time. Each holds a thread for as long as the system's resolver takes
(30 s and more for a silent server), so one bad name must not keep the others waiting."""


class Resolver(Protocol):
    """Turns a host name into addresses."""

    async def resolve(self, host: str) -> list[str]:
        """Every address of *host*, in the order in which to try them; at least one.

        Raises:
            TransportError: ``dns``: no such name, no address, no answer in time.
        """
        ...


class SystemResolver:
    """``getaddrinfo`` of the operating system, each look-up in a thread of its own.

    The threads are daemons and not an executor's: an executor waits for its threads at exit,
    and a look-up that hangs would keep the process from ending.
    """

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(LOOKUPS_MAX)

    async def resolve(self, host: str) -> list[str]:
        """Every address of *host*; see ``Resolver``."""
        try:
            async with asyncio.timeout(LOOKUP_S_MAX):
                await self._places.acquire()
                answer = self._start(host)
                return await answer
        except TimeoutError as error:
            raise TransportError("dns", f"No answer about {host} in {LOOKUP_S_MAX:g} s") from error
        except OSError as error:
            raise TransportError("dns", f"Cannot resolve {host}: {error.strerror}") from error

    def _start(self, host: str) -> asyncio.Future[list[str]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def finish(addresses: list[str], error: OSError | None) -> None:
            self._places.release()
            if answer.cancelled():
                return
            if error is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(error)

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
            try:
                loop.call_soon_threadsafe(finish, addresses, failure)
            except RuntimeError:
                return  # the loop has closed meanwhile: nobody waits for the answer

        threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
        return answer


class CachingResolver:
    """Keeps answers for ``CACHE_S`` seconds and asks for a name only once at a time.

    Failures are not kept: a sink's breaker spaces out its attempts already.

    Args:
        resolver: Who is asked.
        clock: For the age of an answer.
    """

    def __init__(self, resolver: Resolver, clock: Clock) -> None:
        self._resolver = resolver
        self._clock = clock
        self._answers: dict[str, tuple[float, list[str]]] = {}
        self._asking: dict[str, asyncio.Task[list[str]]] = {}

    async def resolve(self, host: str) -> list[str]:
        """Every address of *host*, perhaps some seconds old; see ``Resolver``."""
        known = self._answers.get(host)
        now_s = self._clock.monotonic_s()
        if known is not None and now_s - known[0] < CACHE_S:
            return known[1]
        task = self._asking.get(host)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._resolver.resolve(host))
            self._asking[host] = task
            task.add_done_callback(lambda done: self._keep(host, done))
        # Shielded: that one attempt runs out of time must not end the look-up for the others.
        return await asyncio.shield(task)

    def _keep(self, host: str, task: asyncio.Task[list[str]]) -> None:
        del self._asking[host]
        if task.cancelled() or task.exception() is not None:
            return
        self._answers.pop(host, None)
        if len(self._answers) >= CACHE_NAMES_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[host] = (self._clock.monotonic_s(), task.result())
