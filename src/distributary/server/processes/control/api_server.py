"""The HTTP server of the API: uvicorn, without its signals and most of its wake-ups."""

import asyncio
import contextlib
import time
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from distributary.core.clock import until_next_s

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
            await asyncio.sleep(until_next_s(LOOK_S, time.monotonic()))


def api_server(application: ASGIApp, path: Path) -> ApiServer:
    """Makes the server of *application* at the Unix socket *path*, which it replaces."""
    path.unlink(missing_ok=True)
    config = uvicorn.Config(
        application,
        uds=str(path),
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return ApiServer(config)
