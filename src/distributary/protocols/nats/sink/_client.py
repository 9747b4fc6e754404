"""Dials a NATS server and logs in.

Called by ``_session`` and, through this package, by the NATS consumer.
"""

import asyncio
from typing import Final

from distributary.core.deliver import Destination
from distributary.core.policy import Acknowledgement
from distributary.net import Connector
from distributary.net.tunnel import TUNNEL_SCHEMES, open_tunnel
from distributary.protocols.nats.sink._connection import Connection, Listener

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Largest message that is taken where only answers are awaited: the longest names a thousand
streams."""


async def connect(
    connector: Connector,
    destination: Destination,
    listener: Listener,
    message_bytes_max: int = ANSWER_BYTES_MAX,
) -> Connection | Acknowledgement:
    """Connect and log in as *destination* says.

    Args:
        connector: Dials.
        destination: The server, the credential and the certificates.
        listener: Takes what arrives.
        message_bytes_max: Bytes of the largest message that is taken, headers included; a larger
            one ends the connection.

    Returns:
        The connection, or what the server answered to the login.

    Raises:
        TransportError: There is no connection.
    """
    endpoint = connector.endpoint_of(destination)
    connection = Connection(listener, message_bytes_max)
    if endpoint.scheme in TUNNEL_SCHEMES:
        await open_tunnel(connector, endpoint, None, lambda: connection)
    else:
        dialled = await connector.dial(endpoint)
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection, sock=dialled)
        except BaseException:
            dialled.close()
            raise
    try:
        refusal = await connection.log_in(
            endpoint, lambda: connector.tls_context(endpoint.ca_certs), destination.credential
        )
    except BaseException:
        connection.abort()
        raise
    return connection if refusal is None else refusal
