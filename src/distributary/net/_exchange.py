"""One request and its response, over a connection of its own.

Callers: those that fetch something small from an address that others have named, such as keys and
tokens. The peer may be slow, endless or hostile: one deadline and one size limit cover the whole,
and redirects are not followed.
"""

import asyncio

from distributary.core.deliver.endpoint import Endpoint
from distributary.core.errors import TransportError
from distributary.net._connector import Connector
from distributary.net.http1 import ClientConnection, Response


async def exchange(
    connector: Connector, endpoint: Endpoint, request: bytes, *, bytes_max: int, s_max: float
) -> Response:
    """Send *request* to *endpoint*; return the response.

    Args:
        connector: Dials; decides which addresses are allowed.
        endpoint: Of the connector.
        request: The whole request; not HEAD.
        bytes_max: Largest response, header included.
        s_max: Longest time, from the name look-up to the last byte, seconds.

    Raises:
        TransportError: No complete response in time, or the address is not allowed. The server may
            have executed the request.
    """
    connection = ClientConnection(bytes_max)
    try:
        async with asyncio.timeout(s_max):
            await connector.open(endpoint, lambda: connection)
            return await connection.send(request)
    except TimeoutError as error:
        raise TransportError("timeout", f"No answer within {s_max:g} s") from error
    finally:
        connection.close()
