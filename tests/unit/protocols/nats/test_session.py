"""A NATS session over a connection that keeps what is sent, and says what the test says."""

import asyncio
import json
import re

import pytest

from distributary.core.deliver import Destination
from distributary.core.event import Event
from distributary.net.link._session import Flight
from distributary.protocols.nats.settings import NatsSettings
from distributary.protocols.nats.sink._session import NatsSession

NO_EVENT = Event({"specversion": "1.0", "id": "\ud800", "source": "/s", "type": "t"}, None)
DENIED = 'Permissions Violation for Publish to "{}"'


class FakeConnection:
    """Keeps frames; a flush goes on until the test has the server answer it."""

    headers = True
    message_bytes_max = 1024 * 1024

    def __init__(self):
        self.frames = []
        self.pong = asyncio.Event()

    def send(self, frame):
        self.frames.append(frame)

    def new_inbox(self):
        return "_INBOX.me"

    def subscribe(self, _subject):
        return 1

    async def flush(self, _timeout_s):
        await self.pong.wait()
        return True

    async def close(self):
        pass

    @property
    def questions(self):
        """Where the answers to the questions who holds a subject go."""
        lines = [frame.split(b"\r\n", 1)[0].split() for frame in self.frames]
        return [line[2] for line in lines if line[1] == b"$JS.API.STREAM.NAMES"]


class Site:
    """A session, its connection, and the answers by the ids of events."""

    loop = wheel = None
    sending = False

    def __init__(self):
        self.connection = FakeConnection()
        self.lost = []
        self.session = NatsSession(self.lost.append)
        self.session.start(self.connection)
        self.answers = {}
        self.next = []
        self.wheel = self

    def forget(self, _flight):
        """As the wheel's."""

    def settle(self, _flight):
        """As the link's: what waits is published as soon as there is room."""
        waiting, self.next = self.next, []
        for flight in waiting:
            self.session.publish(flight)

    def flight(self, name, subject="a.b", *, jetstream=None, event=None, mode="binary"):
        event = event or Event(
            {"specversion": "1.0", "id": name, "source": "/s", "type": "t"}, b"1"
        )
        destination = Destination(
            "nats://h", protocol="NATS", format=mode, settings=NatsSettings(subject, jetstream)
        )

        def answered(answer):
            assert name not in self.answers
            self.answers[name] = getattr(answer, "reason", None) or answer.code

        return Flight(event, destination, 0.0, answered, self)

    def publish(self, name, *arguments, **settings):
        self.session.publish(self.flight(name, *arguments, **settings))

    def holds(self, *streams):
        """Answer the latest question who holds a subject."""
        body = json.dumps({"streams": streams}).encode()
        self.session.taken(1, self.connection.questions[-1], b"", b"", body)

    @property
    def sent(self):
        """Ids of the events that were sent, in their order."""
        found = [re.search(rb"ce-id: (\S+)", frame) for frame in self.connection.frames]
        return [match[1].decode() for match in found if match]


@pytest.fixture
def run():
    """Runs a test's coroutine with a site, and closes the session."""

    def run(scenario):
        async def whole():
            site = Site()
            await scenario(site)
            await site.session.close()

        asyncio.run(whole())

    return run


def test_the_message_that_was_sent_first_is_the_one_that_is_refused(run):
    """Not one of a stream that came later: a PONG would tell the first as delivered."""

    async def scenario(site):
        site.publish("primes", jetstream=True)
        site.holds("S")
        site.session.taken(1, b"_INBOX.me.2", b"", b"", b'{"stream":"S","seq":1}')
        site.publish("core", jetstream=False)
        await asyncio.sleep(0)
        site.publish("stream", jetstream=True)
        site.session.denied(DENIED.format("a.b"))
        assert site.answers == {"primes": "stored", "core": "permissions-violation-for-publish"}
        site.connection.pong.set()
        await asyncio.sleep(0.01)
        site.session.denied(DENIED.format("a.b"))
        assert site.answers["core"] == site.answers["stream"]

    run(scenario)


def test_of_two_of_a_stream_the_older_one_is_refused(run):
    """And the answer of the stream belongs to the other."""

    async def scenario(site):
        site.publish("old", jetstream=True)
        site.publish("new", jetstream=True)
        site.holds("S")
        site.session.denied(DENIED.format("a.b"))
        assert site.answers == {"old": "permissions-violation-for-publish"}

    run(scenario)


def test_subjects_are_told_apart_by_their_case(run):
    """The server names the one that it refuses."""

    async def scenario(site):
        for name, subject in [("one", "Orders"), ("other", "orders")]:
            site.publish(name, subject, jetstream=True)
            site.holds("S")
        site.session.denied(DENIED.format("orders"))
        assert site.answers == {"other": "permissions-violation-for-publish"}

    run(scenario)


def test_what_waited_for_the_look_up_is_sent_before_what_came_later(run):
    """Also when an answer on the way makes room for the later one."""

    async def scenario(site):
        site.publish("bad", event=NO_EVENT)
        site.publish("b")
        site.publish("c")
        site.next = [site.flight("d")]
        site.holds("S")
        assert site.answers == {"bad": "protocol"}
        assert site.sent == ["b", "c", "d"]

    run(scenario)


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize("headers", [True, False])
def test_a_message_as_large_as_the_server_takes_is_sent(run, mode, headers):
    """The limit is for headers and payload, as the server counts them; one byte more is refused."""

    async def scenario(site):
        site.connection.headers = headers
        site.publish("first", jetstream=False, mode=mode)
        if not site.connection.frames:
            assert site.answers == {"first": "message-headers-not-supported"}
            return
        line = site.connection.frames[0].split(b"\r\n", 1)[0]
        site.connection.message_bytes_max = int(line.split()[-1])
        site.publish("again", jetstream=False, mode=mode)
        assert site.answers == {}
        site.connection.message_bytes_max -= 1
        site.publish("large", jetstream=False, mode=mode)
        assert site.answers == {"large": "maximum-payload-violation"}

    run(scenario)


def test_a_server_that_does_not_answer_a_ping_is_left(run):
    """What it says later would be taken for the answer to another one."""

    async def scenario(site):
        async def flush(_timeout_s):
            return False

        site.connection.flush = flush
        site.publish("core", jetstream=False)
        await asyncio.sleep(0.01)
        assert site.answers == {"core": "timeout"}
        assert [answer.reason for answer in site.lost] == ["timeout"]

    run(scenario)
