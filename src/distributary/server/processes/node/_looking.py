"""Has a node look again and again who leads, whatever goes wrong at a look.

Called by ``node``. The lease is renewed in a thread of its own: a node that looked no more would
keep it for ever, and lead nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

LOOK_S: Final = 0.1
"""Interval of looks at the lease's clock and at what is to be done."""

AGAIN_S: Final = 2.0
"""Pause after a look that has failed: other nodes look at a free lease once a second."""


async def keep_looking(
    look: Callable[[], Awaitable[None]], give_up: Callable[[], Awaitable[None]], log: Any
) -> None:
    """Look until cancelled.

    Args:
        look: Looks once, and does what is to be done.
        give_up: Leads no more; called after a look that has failed.
        log: Takes lines for people.
    """
    while True:
        try:
            await look()
            await asyncio.sleep(LOOK_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, the lease must not stay here
            _say(error, log)
            await _leave(give_up, log)
            await asyncio.sleep(AGAIN_S)


async def _leave(give_up: Callable[[], Awaitable[None]], log: Any) -> None:
    try:
        await give_up()
    except Exception as error:  # noqa: BLE001 - as above; the next look goes on from here
        _say(error, log)


def _say(error: Exception, log: Any) -> None:
    log.error("leading-failed", error=str(error) or repr(error), kind=type(error).__name__)
