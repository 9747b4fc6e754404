"""Where brokers say that they are, before anybody is dialled there; at a mock cluster."""

import asyncio
import contextlib
import itertools

import pytest

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.source import SourceSpec
from distributary.net import AddressRule, Connector, SystemResolver
from distributary.protocols.kafka import sink as transport
from distributary.protocols.kafka import source as consumers
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.testing.check_transport import an_event
from kit.servers.kafka_mock import KafkaMock

pytestmark = pytest.mark.slow

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"

TRIES = 3
"""librdkafka looks once a second whether it is connected: an answer of that moment has it dial. On
a busy machine it may connect once more before it does."""


class OnlyHere(Connector):
    """Takes ``ELSEWHERE`` for an address that nobody must dial."""

    async def checked_addresses(self, host, port):
        """See ``Connector``."""
        if host == ELSEWHERE:
            raise TransportError("blocked-address", host, retryable=False)
        return await super().checked_addresses(host, port)


class Liar:
    """A wire to a mock cluster, whose answers say that its broker is ``ELSEWHERE``.

    Args:
        mock: The cluster.
        honest: Connections that are told the truth, first of all.
        delay_s: How long an answer with the broker takes.

    Attributes:
        port: Where it listens.
        dials: Connections to where the broker is said to be. A web server takes them.
    """

    def __init__(self, mock: KafkaMock, honest: int, delay_s: float) -> None:
        self.port = 0
        self.dials = 0
        self._mock = mock
        self._delay_s = delay_s
        self._honest = honest
        self._numbers = itertools.count()
        self._relaying = set()

    @contextlib.asynccontextmanager
    async def listening(self):
        """Be there."""
        async with (
            await asyncio.start_server(self._web, ELSEWHERE, self._mock.port),
            await asyncio.start_server(self._relay, HERE, 0) as server,
        ):
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                for task in self._relaying:
                    task.cancel()
                await asyncio.gather(*self._relaying, return_exceptions=True)

    async def _web(self, reader, writer):
        self.dials += 1
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    async def _relay(self, reader, writer):
        self._relaying.add(asyncio.current_task())
        far_reader, far_writer = await asyncio.open_connection(HERE, self._mock.port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._forth(reader, far_writer))
                both.create_task(self._back(far_reader, writer))
        finally:
            far_writer.transport.abort()
            writer.transport.abort()

    async def _forth(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async def _back(self, reader, writer):
        lies = next(self._numbers) >= self._honest
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                length = await reader.readexactly(4)
                answer = await reader.readexactly(int.from_bytes(length))
                if lies and HERE.encode() in answer:
                    await asyncio.sleep(self._delay_s)
                    answer = answer.replace(HERE.encode(), ELSEWHERE.encode())
                writer.write(length + answer)
        writer.close()


@pytest.fixture(scope="module")
def mock():
    """One for all."""
    with KafkaMock() as started:
        started.create_topic("t")
        yield started


async def deliver(connector, port, acks):
    """What became of an event."""
    way = transport.make(connector, SystemClock(), asyncio.get_running_loop())
    answer = asyncio.get_running_loop().create_future()
    to = Destination(
        f"kafka://{HERE}:{port}", protocol="KAFKA", settings=KafkaSettings("t", acks=acks)
    )
    way.send(an_event(), to, 60.0, answer.set_result)
    try:
        return await answer
    finally:
        await way.close()


async def read(connector, port):
    """Why a source has ended."""
    spec = SourceSpec("reader", "KAFKA", f"kafka://{HERE}:{port}", "t")
    try:
        await consumers.make(spec, connector, SystemClock()).run(lambda _: None, unsettled_max=8)
    except TransportError as error:
        return error
    return None


async def told(mock, way, *arguments, honest=0, delay_s=0.05):
    """(what *way* says of a lying cluster, how often it dialled where nobody must)."""
    connector = OnlyHere(AddressRule(loopback_allowed=True), SystemResolver())
    async with Liar(mock, honest, delay_s).listening() as liar:
        async with asyncio.timeout(90.0):
            answer = await way(connector, liar.port, *arguments)
        return answer, liar.dials


@pytest.mark.parametrize(
    ("way", "arguments"),
    [(deliver, ["all"]), (deliver, ["1"]), (read, [])],
    ids=["idempotent", "plain", "source"],
)
def test_where_a_cluster_says_it_is_nobody_dials(mock, way, arguments):
    """The address is forbidden: it is known before librdkafka wants to go there."""
    dials = []
    while 0 not in dials and len(dials) < TRIES:
        answer, dialled = asyncio.run(told(mock, way, *arguments))
        assert answer.reason == "blocked-address", answer
        assert not answer.retryable
        dials.append(dialled)
    assert 0 in dials


@pytest.mark.parametrize(
    ("way", "arguments"), [(deliver, ["1"]), (read, [])], ids=["sink", "source"]
)
def test_what_somebody_there_says_is_not_the_verdict(mock, way, arguments):
    """A cluster that lies later has the address dialled: what answers there is no cluster."""
    dials = []
    while not any(dials) and len(dials) < TRIES:
        answer, dialled = asyncio.run(told(mock, way, *arguments, honest=1, delay_s=0.6))
        assert answer.reason == "blocked-address", answer
        dials.append(dialled)
    assert any(dials)
