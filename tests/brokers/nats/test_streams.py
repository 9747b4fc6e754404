"""JetStream: what is stored, what is stored once, and who holds a subject."""

import asyncio
import dataclasses

import pytest

from distributary.core.policy import delivered
from distributary.protocols.nats import binding as nats
from distributary.protocols.nats.sink import _holders, _session
from distributary.testing.check_transport import an_event
from kit.fake_nats import FakeNats
from kit.servers.nats import NatsServer

EVENT = an_event()


async def in_stream(server, stream):
    """The events in *stream*, decoded as a consumer would."""
    events = []
    for _, headers, payload in await server.stored(stream):
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        block = nats.VERSION_LINE + "".join(lines).encode() + b"\r\n"
        events.append(nats.decode(block if headers else b"", payload))
    return events


@pytest.mark.clause("subscriptions-api.protocols")
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_stream_that_holds_the_subject_acknowledges(way, run, nats_server, name, mode):
    """The PubAck is the answer, and the event stands in the stream unchanged."""

    async def scenario():
        await nats_server.create_stream(name, name)
        async with way() as here:
            for jetstream, event in [(None, EVENT), (True, an_event(1))]:
                destination = here.to(nats_server.port, name, jetstream=jetstream, format=mode)
                assert (await here.send(destination, event)).code == "stored"
            assert await in_stream(nats_server, name) == [EVENT, an_event(1)]

    run(scenario())


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_repeated_attempt_is_stored_once(way, run, nats_server, name, mode):
    """The stream knows it by its message id, and says that it has it already."""

    async def scenario():
        await nats_server.create_stream(name, name)
        async with way() as here:
            destination = here.to(nats_server.port, name, format=mode)
            answers = [await here.send(destination, EVENT, identity="d-1") for _ in range(3)]
            codes = [answer.code for answer in answers]
            assert codes == ["stored", "duplicate", "duplicate"]
            assert await in_stream(nats_server, name) == [EVENT]

    run(scenario())


def test_another_delivery_of_an_equal_event_is_another_message(way, run, nats_server, name):
    """Equal bytes do not make one event of two (decision 24), nor one of two subscriptions."""

    async def scenario():
        await nats_server.create_stream(name, f"{name}.*")
        async with way() as here:
            destination = here.to(nats_server.port, f"{name}.a")
            identities = ["d-1", "d-2", "", ""]  # without a name nothing is taken for a repetition
            answers = [await here.send(destination, EVENT, identity=each) for each in identities]
            assert [answer.code for answer in answers] == ["stored"] * 4
            assert len(await nats_server.stored(name)) == 4

    run(scenario())


FULL = {
    "messages": ({"max_msgs": 2}, "10077"),
    "bytes": ({"max_bytes": 1_000}, "10077"),
}


@pytest.mark.parametrize("kind", FULL)
def test_a_full_stream_is_tried_again(way, run, nats_server, name, kind):
    """``discard: new``: it says no until somebody has read."""
    limits, code = FULL[kind]

    async def scenario():
        await nats_server.create_stream(name, name, discard="new", **limits)
        async with way() as here:
            destination = here.to(nats_server.port, name)
            # With names, as the pipeline gives them: without, Debian's server forgets old messages.
            answers = [
                await here.send(destination, an_event(number), identity=f"d-{number}")
                for number in range(6)
            ]
            assert answers[0].code == "stored"
            assert answers[-1].code == code
            assert not delivered(answers[-1])

    run(scenario())


def test_what_is_larger_than_the_stream_takes_is_dead_lettered(way, run, nats_server, name):
    """``max_msg_size``, which only the stream knows."""

    async def scenario():
        await nats_server.create_stream(name, name, max_msg_size=500)
        async with way() as here:
            large = an_event(data=b'"' + b"x" * 1000 + b'"')
            assert (await here.send(here.to(nats_server.port, name), large)).code == "10054"

    run(scenario())


def test_headers_that_are_too_large_for_a_stream_go_into_the_payload(way, run, nats_server, name):
    """JetStream stores 64 KiB of them; all is sent in structured mode beyond that."""

    async def scenario():
        await nats_server.create_stream(name, name)
        async with way() as here:
            events = []
            for size in (32_000, 40_000):
                long = dict.fromkeys("ab", "x" * size)
                events.append(type(EVENT)({**EVENT.attributes, **long}, EVENT.data))
                answer = await here.send(here.to(nats_server.port, name), events[-1])
                assert answer.code == "stored"
            binary, structured = [headers for _, headers, _ in await nats_server.stored(name)]
            assert binary["ce-a"] == "x" * 32_000
            assert "ce-a" not in structured
            assert await in_stream(nats_server, name) == events

    run(scenario())


def test_without_jetstream_on_the_server_it_goes_by_core(way, run, authority):
    """A server without JetStream holds nothing."""

    async def scenario():
        with NatsServer(authority, jetstream=False) as server:
            async with way() as here:
                assert (await here.send(here.to(server.port, "a.b"))).code == "flushed"
                insists = here.to(server.port, "a.b", jetstream=True)
                assert (await here.send(insists)).code == "no-stream"

    run(scenario())


def test_a_subscriber_of_core_gets_it_once_where_no_stream_is(way, run, nats_server, name, until):
    """Nobody acknowledges it; the attempt must not wait for that, nor be made again."""

    async def scenario():
        client = await nats_server.client()
        took = []

        async def take(message):
            took.append(message)

        await client.subscribe(name, cb=take)
        await client.flush()
        async with way() as here:
            assert (await here.send(here.to(nats_server.port, name))).code == "flushed"
            await until(lambda: took)
            await client.flush()
            assert [(each.subject, each.reply) for each in took] == [(name, "")]
        await client.close()

    run(scenario())


def test_a_stream_that_is_made_later_is_found(way, run, nats_server, name, monkeypatch):
    """Who holds a subject is asked again after a while."""
    monkeypatch.setattr(_holders, "LOOK_AGAIN_S", 0.0)

    async def scenario():
        async with way() as here:
            destination = here.to(nats_server.port, name)
            assert (await here.send(destination)).code == "flushed"
            await nats_server.create_stream(name, name)
            async with asyncio.timeout(30.0):  # it is asked for, and not waited for
                answer = await here.send(destination, an_event(1))
                while answer.code != "stored":
                    await asyncio.sleep(0.01)
                    answer = await here.send(destination, an_event(1))

    run(scenario())


def test_a_stream_that_is_deleted_is_noticed(way, run, nats_server, name):
    """503 says so at once; the attempt after that goes by core."""

    async def scenario():
        await nats_server.create_stream(name, name)
        client = await nats_server.client()
        async with way() as here:
            destination = here.to(nats_server.port, name)
            assert (await here.send(destination)).code == "stored"
            await client.jetstream().delete_stream(name)
            assert (await here.send(destination, an_event(1))).code == "no-responders"
            assert (await here.send(destination, an_event(1))).code == "flushed"
        await client.close()

    run(scenario())


def test_what_flies_is_bounded_by_messages_and_by_bytes(way, run, until, monkeypatch):
    """Large events wait for room, one by one if need be; all get there in the end."""
    monkeypatch.setattr(_session, "FLYING_BYTES_MAX", 10_000)

    async def scenario():
        held = []
        release = asyncio.Event()

        def answer(message):
            held.append(message)
            return message.answered(b'{"stream":"S","seq":1}') if release.is_set() else b""

        async with FakeNats(answer) as server, way() as here:
            destination = here.to(server.port, "a.b")
            event = an_event(data=b'"' + b"x" * 3000 + b'"')
            attempts = [
                asyncio.ensure_future(here.send(destination, event, timeout_s=4.0))
                for _ in range(20)
            ]
            await until(lambda: len(held) >= 4)
            await asyncio.sleep(0.1)
            assert len(held) == 4  # the fourth goes beyond the limit; the fifth waits
            await asyncio.gather(*attempts)
            release.set()
            assert (await here.send(destination, event)).code == "stored"

    run(scenario())


@pytest.mark.clause("subscriptions-api.settings.nats.subject")
def test_settings_are_those_of_the_subscription_not_of_the_connection(way, run, nats_server, name):
    """Subjects at one server share a connection."""

    async def scenario():
        await nats_server.create_stream(name, f"{name}.*")
        async with way() as here:
            base = here.to(nats_server.port, f"{name}.a")
            for letter in "abc":
                settings = dataclasses.replace(base.settings, subject=f"{name}.{letter}")
                assert (
                    await here.send(dataclasses.replace(base, settings=settings))
                ).code == "stored"
            assert here.connector.dials == 1
            subjects = [subject for subject, _, _ in await nats_server.stored(name)]
            assert subjects == [f"{name}.{letter}" for letter in "abc"]

    run(scenario())
