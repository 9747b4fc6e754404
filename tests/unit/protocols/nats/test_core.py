"""Reading a core subject: what comes while there is no room."""

import asyncio

import pytest

from distributary.core.errors import TransportError
from distributary.core.source import Settlement, SourceSpec
from distributary.protocols.nats.source import _core, _talk
from distributary.protocols.nats.source._core import CoreReading

SPEC = SourceSpec("s", "NATS", "nats://h", "a.>")


class Talk:
    """Keeps who takes messages; ends when the test says so."""

    def __init__(self):
        self.take = None
        self.subscribed = 0
        self.sids = set()
        self.error = None
        self.ended = asyncio.Event()

    def subscribe(self, _subject, take, _queue, sid):
        self.take = take
        self.subscribed += 1
        self.sids.add(sid or self.subscribed)
        return sid or self.subscribed

    def unsubscribe(self, _sid):
        """What is on its way still comes."""

    def fail(self, error):
        self.error = self.error or error
        self.ended.set()

    async def wait(self):
        await self.ended.wait()
        raise self.error


def reading(scenario, take, unsettled_max):
    """Run *scenario* with a talk while its messages are read."""

    async def whole():
        talk = Talk()
        task = asyncio.ensure_future(CoreReading(talk, SPEC, take, unsettled_max).read())
        await asyncio.sleep(0)
        scenario(talk)
        talk.fail(TransportError("closed", "the test is over"))
        with pytest.raises(TransportError) as error:
            await task
        return error.value.reason

    return asyncio.run(whole())


def test_many_that_are_settled_at_once_are_taken_one_after_the_other():
    """However many there are: what is no event is settled while it is handed over."""
    taken = []

    def take(message):
        taken.append(message.where)
        if len(taken) > 1:
            message.settle(Settlement.REFUSED)
        else:
            first.append(message)

    first = []

    def scenario(talk):
        for number in range(3000):
            talk.take(f"a.{number}", "", b"", b"no event")
        assert taken == ["a.0"]
        first[0].settle(Settlement.TAKEN)
        assert taken == [f"a.{number}" for number in range(3000)]
        assert talk.subscribed == 2
        assert talk.sids == {1}, "each number more is kept for what may come late"

    assert reading(scenario, take, 1) == "closed"


def test_a_server_that_goes_on_sending_is_left(monkeypatch):
    """What it sends where nothing was asked for is not kept without end."""
    monkeypatch.setattr(_core, "LATER_BYTES_MAX", 1_000)

    def scenario(talk):
        for _ in range(20):
            talk.take("a.b", "", b"", b"x" * 100)

    assert reading(scenario, lambda _: None, 1) == "protocol"


class Asked(_talk.Talk):
    """JetStream's API answers this, whatever is asked."""

    reply = None

    async def ask(self, _what, _request=None):
        return self.reply


async def stream_of(reply):
    """The stream that it names."""
    talk = Asked()
    talk.reply = reply
    return await talk.stream_of("a.>")


@pytest.mark.parametrize(
    "reply",
    [
        {"error": {"code": 503, "err_code": 10008, "description": "no leader"}, "streams": None},
        {"error": {"code": 500}},
    ],
)
def test_a_cluster_that_does_not_say_which_stream_is_asked_again(reply):
    """To read the subject without its stream would pass over what the stream holds."""
    with pytest.raises(TransportError, match="which stream holds"):
        asyncio.run(stream_of(reply))


@pytest.mark.parametrize(
    ("reply", "stream"), [({}, ""), ({"streams": []}, ""), ({"streams": ["s"]}, "s")]
)
def test_a_subject_without_a_stream_is_read_as_it_is(reply, stream):
    """So is one of a server without JetStream."""
    assert asyncio.run(stream_of(reply)) == stream
