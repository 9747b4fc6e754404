"""A NATS session over a connection that keeps what is sent, and says what the test says."""

import asyncio
import json
import re

import pytest

from distributary.core.deliver import Destination
from distributary.core.event import Event
from distributary.net.link._session import Flight
from distributary.protocols.nats.settings import NatsSettings
from distributary.protocols.nats.sink import _session
from distributary.protocols.nats.sink._connection import UNASKED_MAX, NatsConnection
from distributary.protocols.nats.sink._holders import DENIED_S, LOOK_AGAIN_S, RESULT_S_MAX
from distributary.protocols.nats.sink._session import NatsSession

NO_EVENT = Event({"specversion": "1.0", "id": "\ud800", "source": "/s", "type": "t"}, None)
DENIED = 'Permissions Violation for Publish to "{}"'
DEAF = 'Permissions Violation for Subscription to "_INBOX.me.*"'


class FakeConnection:
    """Keeps frames; a flush goes on until the test has the server answer it."""

    headers = True
    jetstream = False
    message_bytes_max = 1024 * 1024

    def __init__(self):
        self.frames = []
        self.unasked_count = 0
        self.pong = asyncio.Event()

    def send(self, frame):
        self.frames.append(frame)

    def new_inbox(self):
        return "_INBOX.me"

    def subscribe(self, _subject):
        return 1

    def expect(self):
        """It counts what is unasked only."""

    def unasked(self):
        self.unasked_count += 1

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
    now_s = 0.0

    def __init__(self):
        self.connection = FakeConnection()
        self.lost = []
        self.session = NatsSession(self, self.lost.append)
        self.session.start(self.connection)
        self.answers = {}
        self.next = []
        self.wheel = self

    def monotonic_s(self):
        """As the clock's."""
        return self.now_s

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

    def publish(self, name, *arguments, now_s=0.0, **settings):
        flight = self.flight(name, *arguments, **settings)
        flight.sent_s = self.now_s = now_s
        self.session.publish(flight)

    def holds(self, *streams):
        """Answer the latest question who holds a subject."""
        body = json.dumps({"streams": streams}).encode()
        self.session.taken(1, self.connection.questions[-1], b"", b"", body)

    @property
    def messages(self):
        """The messages but lookups, as verb and whether a reply is awaited."""
        lines = [frame.split(b"\r\n", 1)[0].split() for frame in self.connection.frames]
        return [
            (line[0].decode(), b"_INBOX" in line[2])
            for line in lines
            if line[1] != b"$JS.API.STREAM.NAMES"
        ]

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


@pytest.fixture
def _soon(monkeypatch):
    """Lookups without an answer are given up at once."""
    monkeypatch.setattr(_session, "LOOK_UP_S_MAX", 0.01)


@pytest.mark.usefixtures("_soon")
def test_a_server_without_headers_that_answers_no_lookup_has_no_stream(run):
    """It does not say that nobody answers, so every event would time out."""

    async def scenario(site):
        site.connection.headers = False
        site.publish("a", mode="structured")
        site.publish("must", jetstream=True, mode="structured")
        assert site.messages == []
        await asyncio.sleep(0.05)
        assert site.messages == [("PUB", False)]
        assert site.answers == {"must": "no-stream"}
        site.connection.pong.set()
        await asyncio.sleep(0.01)
        assert site.answers["a"] == "flushed"
        site.publish("b", mode="structured", now_s=1.0)  # at once
        assert site.messages == [("PUB", False)] * 2

    run(scenario)


@pytest.mark.usefixtures("_soon")
def test_a_stream_that_answers_late_is_used_from_then_on(run):
    """At a server without headers, whose cluster has one."""

    async def scenario(site):
        site.connection.headers = False
        site.publish("a", mode="structured")
        await asyncio.sleep(0.05)
        site.holds("S")
        site.publish("b", mode="structured", now_s=1.0)
        site.publish("c", mode="structured", now_s=10.0)  # asks again
        await asyncio.sleep(0.05)
        site.publish("d", mode="structured", now_s=11.0)
        assert site.messages == [("PUB", False), *[("PUB", True)] * 3]

    run(scenario)


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("says", ["headers", "jetstream"])
def test_no_other_server_is_taken_for_one_without_streams(run, says):
    """An event that a stream stores unacknowledged could be lost: it waits."""

    async def scenario(site):
        site.connection.headers = False
        setattr(site.connection, says, True)
        site.publish("a", mode="structured")
        await asyncio.sleep(0.05)
        assert site.messages == []

    run(scenario)


@pytest.mark.usefixtures("_soon")
def test_a_lookup_is_not_given_up_after_the_end(run):
    """The link has answered its events by then."""

    async def scenario(site):
        site.connection.headers = False
        site.publish("a", mode="structured")
        site.session.lost(None)
        await asyncio.sleep(0.05)
        assert site.messages == []
        assert site.answers == {}

    run(scenario)


def test_an_old_result_is_not_used(run):
    """A stream that was created while no event came would be passed over."""

    async def scenario(site):
        site.publish("a")
        site.holds()
        assert site.messages == [("HPUB", False)]
        site.publish("b", now_s=RESULT_S_MAX - 0.1)  # asks, and does not wait
        site.holds()
        assert len(site.messages) == 2
        site.publish("c", now_s=3 * RESULT_S_MAX)
        site.publish("d", now_s=3 * RESULT_S_MAX + 1)
        assert len(site.messages) == 2
        site.holds("S")
        assert site.sent == ["a", "b", "c", "d"]
        assert site.messages[2:] == [("HPUB", True)] * 2
        assert len(site.connection.questions) == 3

    run(scenario)


def test_an_old_result_counts_while_the_cluster_does_not_know_a_newer_one(run):
    """A cluster without a leader does not tell its streams, and still stores."""

    async def scenario(site):
        site.publish("a")
        site.holds("S")
        site.publish("b", now_s=2 * RESULT_S_MAX)
        assert site.sent == ["a"]
        failure = b'{"error": {"code": 503, "err_code": 10008, "description": "no leader"}}'
        site.session.taken(1, site.connection.questions[-1], b"", b"", failure)
        assert site.messages == [("HPUB", True)] * 2
        site.publish("c", now_s=2 * RESULT_S_MAX + 1)
        assert site.sent == ["a", "b", "c"]

    run(scenario)


@pytest.mark.parametrize("jetstream", [True, False], ids=["stream", "core"])
def test_an_event_with_more_headers_than_a_stream_takes_is_structured(run, jetstream):
    """Events of up to 64 KiB are forwarded, though escapes treble their attributes."""

    async def scenario(site):
        attributes = {"specversion": "1.0", "id": "long", "source": "/s", "type": "t"}
        site.publish("first", jetstream=jetstream)
        if jetstream:
            site.holds("S")
        for count, mode in ((7_000, b"ce-subject"), (7_500, b"application/cloudevents+json")):
            subject = "\u8a9e" * count
            event = Event(attributes | {"subject": subject}, b"1")
            site.publish(f"with {count}", jetstream=jetstream, event=event)
            line, _, message = site.connection.frames[-1].partition(b"\r\n")
            length = int(line.split()[-2])
            assert length <= 65_535
            assert mode in message[:length]
            assert len(message) < 64 * 1024
        assert not {"with 7000", "with 7500"} & set(site.answers)

    run(scenario)


def test_a_connection_that_may_not_hear_listens_again_after_a_while(run):
    """Permissions change while it stands, and attempts keep it from being idle."""

    async def scenario(site):
        site.publish("first", now_s=1.0)
        site.session.denied(DEAF)
        site.publish("still", now_s=1.0 + DENIED_S - 0.1)
        assert set(site.answers.values()) == {"permissions-violation-for-subscription"}
        assert not site.sent
        site.publish("later", now_s=1.0 + DENIED_S)
        site.session.denied(DEAF)
        assert site.answers["later"] == "permissions-violation-for-subscription"
        site.publish("allowed", now_s=1.0 + 2 * DENIED_S)
        assert "allowed" not in site.answers
        site.holds("S")
        assert site.sent == ["allowed"]
        assert site.messages == [("HPUB", True)]

    run(scenario)


def test_who_may_not_ask_asks_again_after_a_while(run):
    """Until then the response to each message decides; afterwards core NATS is there again."""

    async def scenario(site):
        site.publish("first", now_s=1.0)
        site.session.denied(DENIED.format("$JS.API.STREAM.NAMES"))
        assert site.messages == [("HPUB", True)]
        site.publish("soon", now_s=10.0)
        site.publish("still", now_s=DENIED_S)
        assert len(site.connection.questions) == 1
        site.publish("later", now_s=1.0 + DENIED_S)
        assert len(site.connection.questions) == 2
        site.holds()
        site.publish("last", now_s=11.0 + DENIED_S)
        assert site.sent == ["first", "soon", "still", "later", "last"]
        assert site.messages[3:] == [("HPUB", False)] * 2

    run(scenario)


def test_what_answers_nothing_is_counted(run):
    """Replies and refusals of messages that are not under way; the connection bounds them."""

    async def scenario(site):
        site.publish("mine")
        site.holds("S")
        site.session.taken(1, b"_INBOX.me.2", b"", b"", b'{"stream":"S","seq":1}')
        assert (site.answers, site.connection.unasked_count) == ({"mine": "stored"}, 0)
        site.session.taken(1, b"_INBOX.me.2", b"", b"", b'{"stream":"S","seq":1}')
        site.session.denied(DENIED.format("a.b"))
        site.session.denied(DENIED.format("_INBOX.me.2"))
        site.session.denied(DENIED.format("$JS.API.STREAM.NAMES"))
        assert site.connection.unasked_count == 4

    run(scenario)


WINDOW = range(_session.WINDOW)


def _fill(site, now_s=0.0):
    """Publish a window of events, each to its subject."""
    for number in WINDOW:
        site.publish(f"{now_s}-{number}", f"a.{number}", now_s=now_s)


def _say(connection, lines):
    """Say *lines* as the server does, while the connection is open."""
    connection._open = True
    connection.data_received(b"\r\n".join([*lines, b""]))


def _with_client(site):
    """The client beneath the session: it counts what answers nothing."""
    client = NatsConnection(site.session, 1_000)
    client.headers = True
    client._info.set_result({})
    site.connection.expect, site.connection.unasked = client.expect, client.unasked
    return client


def test_refusals_of_all_lookups_under_way_are_no_flood(run):
    """One each: the first one ends them all, and the events go without."""

    async def scenario(site):
        client = _with_client(site)
        _fill(site)
        refusal = DENIED.format("$JS.API.STREAM.NAMES").encode()
        _say(client, [b"-ERR '" + refusal + b"'" for _ in WINDOW])
        assert not site.lost
        assert len(site.sent) == len(WINDOW) > UNASKED_MAX
        _say(client, [b"PING"] * (UNASKED_MAX + len(WINDOW) + 1))
        assert [answer.reason for answer in site.lost] == ["protocol"]

    run(scenario)


def test_replies_of_lookups_that_come_late_are_no_flood(run):
    """After the next lookup of the subject; the reply to that one is awaited."""

    async def scenario(site):
        client = _with_client(site)
        _fill(site)
        site.holds("S")
        _fill(site, now_s=LOOK_AGAIN_S)
        late, latest = site.connection.questions[: len(WINDOW)], site.connection.questions[-1]
        body = b'{"streams":["S"]}'
        _say(client, [b"MSG %b 1 %d\r\n%b" % (to, len(body), body) for to in (*late, latest)])
        assert not site.lost
        assert site.sent == [f"{time_s}-{WINDOW[-1]}" for time_s in (0.0, LOOK_AGAIN_S)]

    run(scenario)
