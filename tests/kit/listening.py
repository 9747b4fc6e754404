"""Closes an ``asyncio`` server safely while clients are connecting.

``Server.close`` alone loses a connection accepted an instant before: its transport is made a turn
of the loop later, finds the server closed and is dropped without being closed
(``assert self._sockets is not None``, CPython 3.11; seen as "unclosed transport").
"""

import asyncio


async def stop_listening(server: asyncio.Server) -> None:
    """Take no more connections; those that were taken live on. Safe to call twice."""
    loop = asyncio.get_running_loop()
    for each in server.sockets:
        loop.remove_reader(each.fileno())
    await asyncio.sleep(0)  # what has been accepted gets its transport
    server.close()
