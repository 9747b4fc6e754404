"""Reading events from an address: nothing is forgotten by the broker before it is settled."""

import asyncio
import contextlib

import pytest

from distributary.core.clock import SystemClock
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.source import Settlement, SourceSpec
from distributary.protocols.amqp import binding
from distributary.protocols.amqp.engine import (
    MESSAGE_BYTES_MAX,
    AmqpMessage,
    DeliveryState,
    Outcome,
    encode_message,
)
from distributary.protocols.amqp.source import make
from distributary.testing.check_transport import an_event
from kit.fake_amqp import FakeAmqp, FakeLogin
from kit.servers import PASSWORD, USER

LOGIN = Credential("PLAIN", USER, PASSWORD)


def _spec(port, place, credential=None):
    return SourceSpec("reader", "AMQP", f"amqp://127.0.0.1:{port}", place, credential=credential)


@contextlib.asynccontextmanager
async def _reading(consumer, unsettled_max=10):
    """What a running consumer hands over."""
    taken = []
    running = asyncio.ensure_future(consumer.run(taken.append, unsettled_max))
    try:
        yield taken
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rabbitmq", "artemis"])
def test_what_was_not_settled_comes_again(  # noqa: PLR0917 - fixtures
    request, run, way, connector, until, address, name
):
    """Taken: gone. Not settled: again to the next connection. In order."""
    server = request.getfixturevalue(name)
    to, place = address, address
    if name == "rabbitmq":
        to, place = f"/queue/{address}", f"/amq/queue/{address}"

    async def scenario():
        async with way() as here:
            target = here.to(server.port, to, credential=here.login)
            for number in range(4):
                assert (await here.send(target, an_event(number))).code == "accepted"
        consumer = make(_spec(server.port, place, LOGIN), connector(), SystemClock())
        async with _reading(consumer) as taken:
            await until(lambda: len(taken) == 4)
            assert [message.event for message in taken] == [an_event(n) for n in range(4)]
            taken[0].settle(Settlement.TAKEN)
        async with _reading(consumer) as again:
            await until(lambda: len(again) == 3)
            ids = sorted(message.event.attributes["id"] for message in again)
            assert ids == ["check-1", "check-2", "check-3"]
            for message in again:
                message.settle(Settlement.TAKEN)
            await asyncio.sleep(0.2)
        async with _reading(consumer) as empty:
            await asyncio.sleep(0.3)
            assert not empty

    run(scenario())


def test_settles_as_it_is_told_and_takes_no_more_than_there_is_room_for(run, connector, until):
    """Credit is what is free; what is no event is handed over with its fault."""
    kept = []

    async def scenario():
        async with FakeAmqp(on_link=lambda link: (kept.append(link), link.accept())) as peer:
            consumer = make(_spec(peer.port, "queue"), connector(), SystemClock())
            async with _reading(consumer, unsettled_max=3) as taken:
                await until(lambda: kept and kept[0].credit == 3)
                (link,) = kept
                assert (link.address, link.sending) == ("queue", True)
                link.send(binding.encode_binary(an_event(0)), 0)
                link.send(b"\x00garbage", 1)
                link.send(encode_message(AmqpMessage(b"no event")), 2)
                await until(lambda: len(taken) == 3)
                assert [message.fault is None for message in taken] == [True, False, False]
                assert [message.where for message in taken] == ["queue#1", "queue#2", "queue#3"]
                assert link.credit == 0
                taken[0].settle(Settlement.TAKEN)
                taken[1].settle(Settlement.REFUSED)
                taken[2].settle(Settlement.REFUSED)
                await until(lambda: link.credit == 3)
                assert dict(peer.outcomes) == {
                    0: Outcome(DeliveryState.ACCEPTED),
                    1: Outcome(DeliveryState.REJECTED),
                    2: Outcome(DeliveryState.REJECTED),
                }

    run(scenario())


def test_a_message_larger_than_any_event_is_refused_and_the_next_is_read(run, connector, until):
    """It would come again to every link, and stand before all others for ever."""
    kept = []

    async def scenario():
        async with FakeAmqp(on_link=lambda link: (kept.append(link), link.accept())) as peer:
            consumer = make(_spec(peer.port, "queue"), connector(), SystemClock())
            async with _reading(consumer, unsettled_max=3) as taken:
                await until(lambda: kept and kept[0].credit == 3)
                (link,) = kept
                link.send(bytes(2 * MESSAGE_BYTES_MAX), 0)
                link.send(binding.encode_binary(an_event(1)), 1)
                await until(lambda: len(taken) == 2)
                assert [fault.code for fault in taken[0].fault.faults] == ["too-large"]
                assert taken[1].event == an_event(1)

    run(scenario())


def test_what_comes_after_the_goodbye_is_not_taken(run, connector, until):
    """Its outcome would not be heard: the log would have it now, and once more later."""
    kept, taken = [], []

    async def scenario():
        async with FakeAmqp(on_link=lambda link: (kept.append(link), link.accept())) as peer:
            consumer = make(_spec(peer.port, "queue"), connector(), SystemClock())
            running = asyncio.ensure_future(consumer.run(taken.append, 10))
            await until(lambda: kept and kept[0].credit == 10)
            running.cancel()
            await asyncio.sleep(0)  # the goodbye begins
            kept[0].send(binding.encode_binary(an_event(1)), 1)
            await asyncio.gather(running, return_exceptions=True)
            assert not taken
            assert not peer.outcomes

    run(scenario())


@pytest.mark.parametrize("end", ["link", "connection", "break"])
def test_an_end_is_an_error_that_says_why(run, connector, end):
    """The caller pauses and reads again."""

    def on_link(link):
        if end == "link":
            link.close("amqp:not-found", "no such queue")
        elif end == "connection":
            link.engine.close("amqp:connection:forced", "no such luck")
        else:
            link.engine.abort()

    async def scenario():
        async with FakeAmqp(on_link=on_link) as peer:
            consumer = make(_spec(peer.port, "queue"), connector(), SystemClock())
            with pytest.raises(TransportError) as caught:
                await consumer.run(lambda _: None, 10)
            assert caught.value.reason == ("reset" if end == "break" else "refused")
            assert end == "break" or "no such" in str(caught.value)

    run(scenario())


def test_a_link_that_is_neither_opened_nor_refused_is_an_error(run, connector, monkeypatch):
    """The connection lives, and nothing would ever come."""
    monkeypatch.setattr("distributary.protocols.amqp.source.ATTACH_S_MAX", 0.05)

    async def scenario():
        async with FakeAmqp(on_link=lambda _: None) as peer:
            consumer = make(_spec(peer.port, "queue"), connector(), SystemClock())
            async with asyncio.timeout(60.0):
                with pytest.raises(TransportError, match="No link") as caught:
                    await consumer.run(lambda _: None, 10)
            assert caught.value.reason == "timeout"

    run(scenario())


def test_a_login_that_is_refused_is_an_error(run, connector):
    """With the code, without the secret."""

    async def scenario():
        async with FakeLogin(("PLAIN",)) as peer:
            consumer = make(_spec(peer.port, "queue", LOGIN), connector(), SystemClock())
            with pytest.raises(TransportError, match="sasl-auth") as caught:
                await consumer.run(lambda _: None, 10)
            assert PASSWORD not in str(caught.value)

    run(scenario())
