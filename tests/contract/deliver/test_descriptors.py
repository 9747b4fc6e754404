"""A loop closes a socket that it was given, once: a file may have its number by then."""

import asyncio
import gc
import os
import socket

import pytest
import uvloop

from distributary.net import hand_over


class EndsAtOnce(asyncio.Protocol):
    """As a far side that resets each connection before it is used."""

    def connection_made(self, transport):
        """End it in the turn in which it is made."""
        transport.abort()


@pytest.mark.slow
@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_ends_at_once_is_closed_once(loop_factory, tmp_path):
    """A second time would close whatever has the number now: a record would go astray."""

    async def run():
        with socket.create_server(("127.0.0.1", 0)) as server:
            dialled = socket.socket()
            dialled.setblocking(False)
            await asyncio.get_running_loop().sock_connect(dialled, server.getsockname())
            number = dialled.fileno()
            await hand_over(dialled, EndsAtOnce)
            await asyncio.sleep(0.05)  # asyncio closes it a turn later
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
        with (tmp_path / "segment").open("wb") as segment:
            os.dup2(segment.fileno(), number)
        del dialled
        gc.collect()
        os.fstat(number)  # it is open still
        os.close(number)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())
