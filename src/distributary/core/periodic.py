"""Periodic loops that survive failures.

Used by timers, ends of subscriptions, sweepers, and what is renewed before it expires: access
tokens, consents, keys of issuers.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from distributary.core.clock import Clock, until_next_s

AGAIN_S: Final = 1.0
"""Wait after a failed turn, seconds, so that a lasting fault does not flood the log."""

STOP_S: Final = 2.0
"""Longest wait at a stop for what a loop has begun, seconds: a token that was issued gets stored,
and whoever stops the server waits no longer for a party that is silent."""

_log = structlog.get_logger(__name__)


async def keep_turning(
    turn: Callable[[], Awaitable[float]],
    name: str,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run *turn* repeatedly until cancelled.

    Args:
        turn: Does what is due; returns the seconds until its next call.
        name: For the log.
        sleep: Waits for a number of seconds.
    """
    while True:
        try:
            wait_s = await turn()
        # Report a bug in one turn and continue: all timers and all ends of subscriptions depend on
        # this loop, and nothing restarts it.
        except Exception:  # noqa: BLE001 - see above
            _log.exception("turn-failed", loop=name)
            wait_s = AGAIN_S
        await sleep(wait_s)


async def keep_looking(
    look: Callable[[], Awaitable[None]],
    wake: asyncio.Event,
    every_s: float,
    clock: Clock,
    name: str,
) -> None:
    """Run *look* repeatedly until cancelled: at each multiple of *every_s*, and when woken.

    Args:
        look: Begins what is due, as tasks.
        wake: Set to look at once; cleared here.
        every_s: Interval of looks.
        clock: Says when the next one is.
        name: For the log.
    """
    while True:
        try:
            await look()
        # Report a bug in one look and continue: deliveries wait for what is renewed here, and
        # nothing restarts this loop.
        except Exception:  # noqa: BLE001 - see above
            _log.exception("turn-failed", loop=name)
        # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with *wake*.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(until_next_s(every_s, clock.monotonic_s())):
                await wake.wait()
        wake.clear()


async def finish(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait ``STOP_S`` for *tasks*, then cancel those that are late."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=STOP_S)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
