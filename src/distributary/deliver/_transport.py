"""The port that every delivery protocol implements, and an adapter for ``async`` clients."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from distributary.deliver._destination import Destination
from distributary.errors import TransportError
from distributary.event import Event
from distributary.policy import Answer

CREDENTIAL_EXPIRED: Final = "credential-expired"
"""Reason of an attempt that was not made because the token of its sink has expired."""

UNREADABLE: Final = "unreadable-settings"
"""Reason of an attempt that was not made because its subscription cannot be read now."""

CROWDED: Final = "replies-crowded"
"""Reason of an attempt whose reply was not read to its end, for want of memory here."""

NOT_THE_SINKS: Final = frozenset({CREDENTIAL_EXPIRED, UNREADABLE, CROWDED})
"""Reasons that say nothing about the sink: it was not asked, or answered well."""

Done = Callable[[Answer], None]
"""Takes the answer of one attempt."""


class Transport(Protocol):
    """Sends events by one protocol. One event loop, callbacks instead of a task per delivery.

    ``testing.check_transport`` holds every implementation to these words.
    """

    def send(
        self,
        event: Event,
        destination: Destination,
        timeout_s: float,
        done: Done,
        identity: str = "",
    ) -> None:
        """Start one attempt.

        Args:
            event: What to send; not changed.
            destination: Where, and how. With ``wants_reply`` an event in a 2xx answer (but 202)
                comes back as ``Reply.event``; without it none ever does.
            timeout_s: Seconds for the whole attempt from this call to the answer: name look-up,
                connecting, handshakes, sending and receiving. Kept within +10 % or 100 ms,
                whichever is more, however slowly the sink trickles.
            done: Called exactly once, on the loop, never from inside this call. The transport
                makes no second attempt by itself.
            identity: Names the delivery: equal in each of its attempts, and in those of no other.
                For protocols that know a message which they have had before; empty: it has none.
        """
        ...

    async def close(self) -> None:
        """Close every connection. Attempts under way end as ``TransportError("closed")``."""
        ...


class CoroutineTransport:
    """A transport around a client library that is written with ``async def``.

    Costs a task for each attempt (about 20 us), which brokers' clients cost anyway; the HTTP
    transport does without.

    Args:
        send: Sends one event and returns the reply; raises ``TransportError`` where none came.
            It is cancelled at the deadline and at ``close``.
        close: Closes the client.
    """

    def __init__(
        self,
        send: Callable[[Event, Destination], Awaitable[Answer]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._send = send
        self._close = close
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._closed = False

    def send(
        self,
        event: Event,
        destination: Destination,
        timeout_s: float,
        done: Done,
        identity: str = "",  # noqa: ARG002 - the port's; a client that wants it is no coroutine
    ) -> None:
        """Start one attempt as a task of the running loop."""
        loop = asyncio.get_running_loop()
        if self._closed:
            loop.call_soon(done, _closed())
            return
        task = loop.create_task(self._attempt(event, destination, timeout_s))
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._answered, done))

    async def _attempt(self, event: Event, destination: Destination, timeout_s: float) -> Answer:
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline:
                return await self._send(event, destination)
        except TransportError as error:
            return error
        except TimeoutError as error:
            if deadline.expired():
                return TransportError("timeout", f"No answer within {timeout_s:g} s")
            return TransportError("timeout", f"The client gave up: {error}")

    def _answered(self, done: Done, task: asyncio.Task[Answer]) -> None:
        # A callback of the task, not its last line: a task that is cancelled before its first
        # step never runs a line, and still owes its answer.
        self._tasks.discard(task)
        if task.cancelled():
            done(_closed())
            return
        bug = task.exception()
        if bug is None:
            done(task.result())
            return
        task.get_loop().call_exception_handler(
            {"message": "a transport raised what is not a TransportError", "exception": bug}
        )
        done(TransportError("protocol", f"The client failed: {type(bug).__name__}"))

    async def close(self) -> None:
        """Cancel the attempts under way, tell their callers, and close the client."""
        self._closed = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close()


def _closed() -> TransportError:
    return TransportError("closed", "The transport was closed before an answer came")


def from_coroutine(
    send: Callable[[Event, Destination], Awaitable[Answer]],
    close: Callable[[], Awaitable[None]],
) -> Transport:
    """A ``Transport`` made of two coroutine functions; see ``CoroutineTransport``."""
    return CoroutineTransport(send, close)
