"""Servers of tests that stop to listen while clients knock."""

import asyncio
import gc
import socket
import warnings

import pytest
import uvloop

from kit.listening import stop_listening


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("turns", range(6))
def test_no_connection_is_dropped_half_taken(run, turns):
    """Whenever the door closes, who knocked is let in and out or meets a closed door."""

    async def hang_up(_reader, writer):
        writer.transport.abort()

    async def scenario():
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()):
            for _ in range(turns):
                await asyncio.sleep(0)
            await stop_listening(server)
            await stop_listening(server)
            for _ in range(6):
                await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as dropped:
        warnings.simplefilter("always")
        run(scenario())
        gc.collect()
    assert not dropped
