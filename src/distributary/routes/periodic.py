"""Periodic loops that survive failures: used by timers, ends of subscriptions, and sweepers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

AGAIN_S: Final = 1.0
"""Wait after a failed turn, seconds, so that a lasting fault does not flood the log."""

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
