"""For whom the HTTP transport dials."""

import asyncio

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.net import AddressRule, Connector
from distributary.protocols.http.sink import HttpTransport

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"")
URI = "https://sink.example/"


class Refused(Connector):
    """Reaches nobody, and notes for whom it was asked."""

    def __init__(self):
        super().__init__(AddressRule(), None)
        self.tenants = []

    async def open(self, endpoint, _factory):
        self.tenants.append(endpoint.tenant)
        raise TransportError("refused", "no")


def test_connections_that_tenants_share_are_dialled_for_the_one_that_needs_one():
    """They take turns at what dialling needs."""
    connector = Refused()

    async def scenario():
        transport = HttpTransport(connector, SystemClock(), asyncio.get_running_loop())
        for tenant in ("one", "other", "one"):
            done = asyncio.get_running_loop().create_future()
            transport.send(EVENT, Destination(URI, tenant=tenant), 60.0, done.set_result)
            await done
        await transport.close()

    asyncio.run(scenario())
    assert connector.tenants == ["one", "other", "one"]
