"""Loops that look, act, and wait: ``Timers`` and ``Endings`` run in one each."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

AGAIN_S: Final = 1.0
"""Wait after a turn that failed, seconds: a fault that stays fills no log."""

_log = structlog.get_logger(__name__)


async def keep_turning(
    turn: Callable[[], Awaitable[float]],
    name: str,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Take turns until cancelled.

    Args:
        turn: Does what is due; the seconds until its next turn.
        name: For the log.
        sleep: Waits so many seconds.
    """
    while True:
        try:
            wait_s = await turn()
        # A bug met in one turn is reported, and must not end the loop that all timers and all
        # ends of subscriptions depend on: nobody starts it again.
        except Exception:  # noqa: BLE001 - see above
            _log.exception("turn-failed", loop=name)
            wait_s = AGAIN_S
        await sleep(wait_s)
