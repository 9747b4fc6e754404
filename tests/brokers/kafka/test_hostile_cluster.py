"""A cluster that says of a response that it is larger than any."""

import asyncio

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.net import AddressRule, Connector, SystemResolver
from distributary.protocols.kafka import sink as transport
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.protocols.kafka.sink._client import RESPONSE_BYTES_MAX
from distributary.testing.check_transport import an_event

pytestmark = pytest.mark.slow


async def _claims(reader, writer):
    """Answer the first request by the size of a response, and its number."""
    request = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    writer.write((RESPONSE_BYTES_MAX + 1).to_bytes(4) + request[4:8])
    await reader.read()
    writer.close()


def test_no_room_is_made_for_a_response_that_is_larger_than_any():
    """The client would take the memory at once, for each connection."""

    async def scenario():
        connector = Connector(AddressRule(loopback_allowed=True), SystemResolver())
        way = transport.make(connector, SystemClock(), asyncio.get_running_loop())
        async with await asyncio.start_server(_claims, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            uri = f"kafka://127.0.0.1:{port}"
            to = Destination(uri, protocol="KAFKA", settings=KafkaSettings("t"))
            answer = asyncio.get_running_loop().create_future()
            way.send(an_event(), to, 60.0, answer.set_result)
            try:
                assert "Invalid response size" in str(await answer)
            finally:
                await way.close()

    uvloop.run(scenario())
