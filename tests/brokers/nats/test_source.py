"""The consumer of a NATS source: streams with acknowledgements, and core subjects without."""

import asyncio
import contextlib
import json

import pytest

from distributary.core.clock import SystemClock
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.source import Settlement, SourceSpec
from distributary.protocols.nats import source as nats
from distributary.testing.check_transport import an_event
from kit.cutting_proxy import CuttingProxy
from kit.servers import PASSWORD, USER
from kit.servers.nats import NARROW_USER, NatsServer


class Reader:
    """Runs a consumer and keeps what it hands over."""

    def __init__(self, connector, until):
        self.connector = connector
        self.until = until
        self.messages = []
        self.settle_with = None

    @contextlib.asynccontextmanager
    async def reading(self, server, place, unsettled_max=100, user=USER, port=None, **more):
        """A run, from its begin to its end."""
        spec = SourceSpec(
            more.pop("name", "reader"),
            "NATS",
            f"nats://127.0.0.1:{port or server.port}",
            place,
            credential=Credential("PLAIN", user, PASSWORD),
            options=more,
        )
        consumer = nats.make(spec, self.connector(), SystemClock())
        run = asyncio.ensure_future(consumer.run(self._take, unsettled_max))
        try:
            yield run
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

    def _take(self, message):
        self.messages.append(message)
        if self.settle_with is not None:
            message.settle(self.settle_with)

    @property
    def ids(self):
        return [message.event.attributes["id"] for message in self.messages if message.event]


@pytest.fixture
def reader(connector, until):
    """A reader with nothing read yet."""
    return Reader(connector, until)


async def published(server, subject, *payloads, headers=None):
    """Publish natively, as somebody else would."""
    client = await server.client()
    for payload in payloads:
        await client.publish(subject, payload, headers=headers)
    await client.flush()
    await client.close()


def as_json(number):
    """An event as a sender of version 1.0.2 of the binding leaves it."""
    event = {"specversion": "1.0", "id": str(number), "source": "/native", "type": "t"}
    return json.dumps(event | {"data": {"n": number}}).encode()


async def have_consumer(server, stream, durable_name="reader", **settings):
    """Make a durable consumer, as an operator would."""
    client = await server.client()
    await client.jetstream().add_consumer(
        stream, durable_name=durable_name, ack_policy="explicit", **settings
    )
    await client.close()


async def state_of(server, stream, durable="reader"):
    """What the server knows of a consumer."""
    client = await server.client()
    info = await client.jetstream().consumer_info(stream, durable)
    await client.close()
    return info


async def acknowledged(server, stream, durable="reader"):
    """What the server knows of a consumer once nothing of it is unsettled any more."""
    for _ in range(1_500):
        state = await state_of(server, stream, durable)
        if not state.num_ack_pending:
            return state
        await asyncio.sleep(0.02)
    raise AssertionError(state)


async def subscribed(server, subject, *readers):
    """Wait until each of *readers* of a core subject has had a message; none of them an event."""
    async with asyncio.timeout(60.0):
        while not all(reader.messages for reader in readers):
            await published(server, subject, b"is anybody there?")
            await asyncio.sleep(0.02)


def test_reads_a_stream_and_acknowledges_what_the_log_has(run, nats_server, name, reader):
    """In order, from the beginning; the server forgets a message once it is taken."""

    async def scenario():
        await nats_server.create_stream(name, f"{name}.>")
        await published(nats_server, f"{name}.a", *[as_json(number) for number in range(20)])
        async with reader.reading(nats_server, f"{name}.*"):
            await reader.until(lambda: len(reader.messages) == 20)
            assert reader.ids == [str(number) for number in range(20)]
            assert reader.messages[2].where == f"{name}@3"
            assert reader.messages[2].event.data == b'{"n": 2}'
            assert (await state_of(nats_server, name)).num_ack_pending == 20
            for message in reader.messages:
                message.settle(Settlement.TAKEN)
            state = await acknowledged(nats_server, name)
            assert state.num_pending == 0
            assert state.ack_floor.stream_seq == 20

    run(scenario())


def test_what_the_transport_delivers_a_source_reads(way, run, nats_server, name, reader):
    """Binary and structured, unchanged."""

    async def scenario():
        await nats_server.create_stream(name, name)
        async with way() as here, reader.reading(nats_server, name):
            for number, mode in enumerate(["binary", "structured"]):
                destination = here.to(nats_server.port, name, format=mode)
                assert (await here.send(destination, an_event(number))).code == "stored"
            await reader.until(lambda: len(reader.messages) == 2)
            assert [each.event for each in reader.messages] == [an_event(0), an_event(1)]

    run(scenario())


def test_what_is_not_settled_is_given_to_the_next_run(run, nats_server, name, reader):
    """Nothing is lost when a run ends with messages in hand."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await have_consumer(nats_server, name, ack_wait=3)
        await published(nats_server, name, *[as_json(number) for number in range(5)])
        async with reader.reading(nats_server, name):
            await reader.until(lambda: len(reader.messages) == 5)
            reader.messages[0].settle(Settlement.TAKEN)
            late = reader.messages[1]
        late.settle(Settlement.TAKEN)  # too late, and harmless
        reader.messages.clear()
        async with reader.reading(nats_server, name):
            await reader.until(lambda: len(reader.messages) == 4)
            assert sorted(reader.ids) == ["1", "2", "3", "4"]

    run(scenario())


def test_what_a_killed_server_held_keeps_nobody_waiting(run, nats_server, name, reader):
    """It comes again after a while; what is new comes at once."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await published(nats_server, name, *[as_json(number) for number in range(20)])
        async with reader.reading(nats_server, name, unsettled_max=10):
            await reader.until(lambda: len(reader.messages) == 10)
        reader.messages.clear()
        async with reader.reading(nats_server, name, unsettled_max=10):
            await reader.until(lambda: len(reader.messages) == 10, 20.0)
            assert reader.ids == [str(number) for number in range(10, 20)]

    run(scenario())


def test_what_is_refused_is_not_given_again(run, nats_server, name, reader):
    """It is terminated (+TERM): nothing waits for its acknowledgement any more."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await published(nats_server, name, b"no event", as_json(1))
        async with reader.reading(nats_server, name):
            await reader.until(lambda: len(reader.messages) == 2)
            bad, good = reader.messages
            assert bad.event is None
            assert bad.fault is not None
            bad.settle(Settlement.REFUSED)
            good.settle(Settlement.TAKEN)
            state = await acknowledged(nats_server, name)
            assert (state.num_redelivered, state.num_pending) == (0, 0)
            assert len(reader.messages) == 2

    run(scenario())


def test_no_more_is_taken_than_may_be_unsettled(run, nats_server, name, reader):
    """Reading goes on as messages are settled."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await published(nats_server, name, *[as_json(number) for number in range(50)])
        async with reader.reading(nats_server, name, unsettled_max=8):
            settled = 0
            while settled < 50:
                expected = min(settled + 1, 50)
                await reader.until(lambda expected=expected: len(reader.messages) >= expected)
                assert len(reader.messages) <= settled + 8
                reader.messages[settled].settle(Settlement.TAKEN)
                settled += 1
            assert reader.ids == [str(number) for number in range(50)]

    run(scenario())


def test_one_at_a_time(run, nats_server, name, reader):
    """The smallest limit works too."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await published(nats_server, name, *[as_json(number) for number in range(3)])
        reader.settle_with = Settlement.TAKEN
        async with reader.reading(nats_server, name, unsettled_max=1):
            await reader.until(lambda: len(reader.messages) == 3)

    run(scenario())


def test_a_message_that_is_worked_on_is_not_given_again(run, nats_server, name, reader):
    """Word of it is sent before the server loses patience, however the operator set that."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await have_consumer(nats_server, name, durable_name="patient", ack_wait=3)
        await published(nats_server, name, as_json(1))
        async with reader.reading(nats_server, name, durable="patient", stream=name):
            await reader.until(lambda: len(reader.messages) == 1)
            await asyncio.sleep(4.0)
            assert len(reader.messages) == 1
            reader.messages[0].settle(Settlement.TAKEN)
            state = await acknowledged(nats_server, name, "patient")
            assert state.num_redelivered == 0

    run(scenario())


def test_a_server_that_is_killed_while_a_source_reads_loses_nothing(run, authority, name, reader):
    """The run ends with an error; the next one reads the rest, and what was in hand."""

    async def scenario():
        with NatsServer(authority) as server:
            await server.create_stream(name, name)
            await have_consumer(server, name, ack_wait=1)
            await published(server, name, *[as_json(number) for number in range(500)])
            reader.settle_with = Settlement.TAKEN
            async with reader.reading(server, name, unsettled_max=50) as running:
                await reader.until(lambda: len(reader.messages) >= 50)
                server.kill()
                with pytest.raises(TransportError) as error:
                    await running
                assert error.value.reason == "reset"
            await asyncio.to_thread(server.start)
            async with reader.reading(server, name, unsettled_max=50):
                await reader.until(
                    lambda: set(reader.ids) == {str(number) for number in range(500)}
                )

    run(scenario())


def test_a_wire_that_is_cut_ends_the_run(run, nats_server, name, reader):
    """Whoever runs it pauses and runs it again."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await published(nats_server, name, as_json(1))
        with CuttingProxy(nats_server.port) as wire:
            async with reader.reading(nats_server, name, port=wire.port) as running:
                await reader.until(lambda: reader.messages)
                await asyncio.to_thread(wire.reset)
                with pytest.raises(TransportError, match="ended"):
                    await running

    run(scenario())


def test_core_subjects_are_read_and_shared_by_the_name_of_the_source(
    run, nats_server, name, reader
):
    """Two servers with the same source get each message once between them."""

    async def scenario():
        second = Reader(reader.connector, reader.until)
        reader.settle_with = second.settle_with = Settlement.TAKEN
        async with (
            reader.reading(nats_server, f"{name}.>"),
            second.reading(nats_server, f"{name}.>"),
        ):
            await subscribed(nats_server, f"{name}.probe", reader, second)
            await published(nats_server, f"{name}.a", *[as_json(n) for n in range(100)])
            await reader.until(lambda: len(reader.ids) + len(second.ids) == 100)
            await asyncio.sleep(0.1)
            assert sorted(map(int, reader.ids + second.ids)) == list(range(100))
            assert {each.where for each in reader.messages if each.event} == {f"{name}.a"}

    run(scenario())


def test_core_reading_pauses_when_nothing_is_settled(run, nats_server, name, reader):
    """What had come already is handed over as there is room, what comes later is gone."""

    async def scenario():
        async with reader.reading(nats_server, name, unsettled_max=4):
            reader.settle_with = Settlement.REFUSED
            await subscribed(nats_server, name, reader)
            await published(nats_server, name, as_json("begin"))
            await reader.until(lambda: reader.ids == ["begin"])
            reader.settle_with = None
            reader.messages.clear()
            await published(nats_server, name, *[as_json(number) for number in range(10)])
            await reader.until(lambda: len(reader.messages) == 4)
            await published(nats_server, name, as_json(10))
            await asyncio.sleep(0.1)
            assert len(reader.messages) == 4
            reader.settle_with = Settlement.TAKEN
            for message in reader.messages[:4]:
                message.settle(Settlement.TAKEN)
            async with asyncio.timeout(60.0):
                while "11" not in reader.ids:  # it subscribes again
                    await published(nats_server, name, as_json(11))
                    await asyncio.sleep(0.02)
            assert "10" not in reader.ids

    run(scenario())


def raised(running):
    """The error that a run ends with."""
    return asyncio.wait_for(running, 60.0)


def test_a_login_that_is_refused_ends_the_run(run, nats_server, name, reader):
    """With the server's words, and without the password."""

    async def scenario():
        async with reader.reading(nats_server, name, user="nobody") as running:
            with pytest.raises(TransportError, match="Authorization Violation") as error:
                await raised(running)
            assert PASSWORD not in str(error.value)

    run(scenario())


def test_a_user_who_may_not_ask_jetstream_is_told(run, nats_server, name, reader):
    """A source needs its API; silence would look like an empty stream."""

    async def scenario():
        async with reader.reading(nats_server, name, user=NARROW_USER) as running:
            with pytest.raises(TransportError, match="Permissions Violation") as error:
                await raised(running)
            assert error.value.reason == "refused"

    run(scenario())


def test_a_stream_or_a_consumer_that_cannot_be_read_is_told(run, nats_server, name, reader):
    """No such stream, a consumer of another kind, or two streams for one subject."""

    async def scenario():
        async with reader.reading(nats_server, name, stream="NONE") as running:
            with pytest.raises(TransportError, match="stream not found"):
                await raised(running)
        await nats_server.create_stream(f"{name}1", f"{name}.1")
        await nats_server.create_stream(f"{name}2", f"{name}.2")
        async with reader.reading(nats_server, f"{name}.*") as running:
            with pytest.raises(TransportError, match="2 streams hold"):
                await raised(running)
        await have_consumer(nats_server, f"{name}1", durable_name="pushed", deliver_subject="x")
        async with reader.reading(nats_server, f"{name}.1", durable="pushed") as running:
            with pytest.raises(TransportError, match="must be a pull consumer"):
                await raised(running)

    run(scenario())


def test_a_consumer_of_another_subject_is_told(run, nats_server, name, reader):
    """As after a change of the settings: it would bring what is not asked for, and not what is."""

    async def scenario():
        await nats_server.create_stream(name, f"{name}.>")
        await published(nats_server, f"{name}.a", as_json(1))
        await published(nats_server, f"{name}.b", as_json(2))
        async with reader.reading(nats_server, f"{name}.a"):
            await reader.until(lambda: reader.messages)
        async with reader.reading(nats_server, f"{name}.b") as running:
            with pytest.raises(TransportError, match=rf"reads {name}\.a: .* to read {name}\.b"):
                await raised(running)
        assert len(reader.messages) == 1
        async with reader.reading(nats_server, f"{name}.b", durable="other"):
            await reader.until(lambda: len(reader.messages) == 2)

    run(scenario())


def test_a_consumer_that_is_deleted_ends_the_run(run, nats_server, name, reader):
    """The next run makes it anew."""

    async def scenario():
        await nats_server.create_stream(name, name)
        await published(nats_server, name, as_json(1))
        client = await nats_server.client()
        async with reader.reading(nats_server, name) as running:
            await reader.until(lambda: reader.messages)
            await client.jetstream().delete_consumer(name, "reader")
            with pytest.raises(TransportError, match="Consumer Deleted"):
                await raised(running)
        await client.close()

    run(scenario())
