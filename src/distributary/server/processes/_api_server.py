"""The HTTP server of the API: uvicorn, without its signals and most of its wake-ups."""

import asyncio
import contextlib

import uvicorn

LOOK_S = 0.5
"""Interval at which the server looks whether it is to stop, and renews its ``Date``: uvicorn's own
is a fifth of it, which an idle server pays for."""


class ApiServer(uvicorn.Server):
    """Ends when ``should_exit`` is set: the API stops after all other processes."""

    # The process handles signals.
    capture_signals = contextlib.nullcontext  # type: ignore[assignment]

    async def main_loop(self) -> None:
        """Renew ``Date`` until the server is to stop."""
        while not await self.on_tick(0):  # noqa: ASYNC110 - set by its caller: no event
            await asyncio.sleep(LOOK_S)
