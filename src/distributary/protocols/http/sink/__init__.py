"""The HTTP sink: sends events to webhooks by the project's own client on ``httptools``.

Hides connections, keep-alive, message framing and deadlines.
"""

import asyncio

from distributary.core.clock import Clock
from distributary.core.deliver import Transport
from distributary.net import Connector
from distributary.protocols.http.sink._transport import HttpTransport
from distributary.resource import Reach


def make(
    connector: Connector, clock: Clock, loop: asyncio.AbstractEventLoop, reach: Reach
) -> Transport:
    """See ``core.protocol.Protocol``."""
    return HttpTransport(connector, clock, loop, error_data=reach.error_data)
