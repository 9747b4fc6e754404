"""A virtual event loop on which blocking calls take no time: ``asyncio.to_thread`` makes them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from distributary.testing.virtual_loop import VirtualLoop


class _AtOnce(ThreadPoolExecutor):
    """Makes each call where it is asked for: no thread ends while the clock moves on."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
        made: Future[Any] = Future()
        try:
            made.set_result(fn(*args, **named))
        except BaseException as error:  # noqa: BLE001 - as a thread does, whoever waits raises it
            made.set_exception(error)
        return made


def virtual_loop() -> asyncio.AbstractEventLoop:
    """A loop for ``asyncio.Runner``."""
    loop = VirtualLoop()
    loop.set_default_executor(_AtOnce(1))
    return loop
