"""Events that another receiver appends: in order, durable before the answer, failed where lost."""

import asyncio

import pytest

from distributary.core.errors import LogUnavailableError, RecordTooLargeError
from distributary.core.flow import Received
from distributary.core.log.frame import BODY_BYTES_MAX
from distributary.server.ingest import partition_of
from distributary.server.processes.receiver import _forward
from distributary.server.processes.receiver._appends import LogAppends
from distributary.server.processes.receiver._forward import ForwardServer, Link


class Clock:
    """Stands still until a test moves it."""

    now_s = 100.0

    def monotonic_s(self):
        return self.now_s

    def wall_ms(self):
        return 0


class Committer:
    """Holds records until a test makes them durable, or refuses them."""

    pending_bytes = 0

    def __init__(self):
        self.bodies = []
        self.publishers = []
        self.waiting = []
        self.refusal = None

    def submit(self, kind, body, done, by=""):
        if self.refusal is not None:
            raise self.refusal
        self.bodies.append((kind, body))
        self.publishers.append(by)
        self.waiting.append(done)

    def settle(self, error=None):
        waiting, self.waiting = self.waiting, []
        for offset, done in enumerate(waiting):
            done(error or offset)


class Pipe(asyncio.Transport):
    """One direction of a connection: keeps bytes until the test delivers some of them."""

    def __init__(self):
        super().__init__()
        self.bytes = bytearray()
        self.peer = None
        self.ended = False

    def write(self, data):
        assert not self.ended
        self.bytes += data

    def deliver(self, count=None):
        """Pass on the first *count* bytes, or all."""
        data = bytes(self.bytes[:count])
        del self.bytes[:count]
        if data:
            self.peer.data_received(data)

    def abort(self):
        self.ended = True


class Stage:
    """A link to a receiver that owns partition 1."""

    def __init__(self):
        self.clock = Clock()
        self.committer = Committer()
        self.takes = True
        self.told = []
        self.server = ForwardServer({1: self.committer}, lambda: self.takes, self.clock)
        self.link = Link(0, self.clock, self.told.append)
        self.answers = []
        self.connect()

    def connect(self):
        """Connect the link, as it does when the receiver is back."""
        self.out, self.back = Pipe(), Pipe()
        self.incoming = self.server.connection()
        self.out.peer, self.back.peer = self.incoming, self.link
        self.incoming.connection_made(self.back)
        self.link.connection_made(self.out)

    def submit(self, body, partition=1):
        self.link.submit(partition, 5, body, lambda error: self.answers.append((body, error)))

    async def pass_on(self):
        """Everything that is on its way arrives."""
        for _ in range(3):
            await asyncio.sleep(0)
            self.out.deliver()
            await asyncio.sleep(0)
            self.back.deliver()


def run(scenario):
    """Run *scenario* with a stage."""

    async def main():
        await scenario(Stage())

    asyncio.run(main())


def test_a_record_is_answered_when_it_is_durable_there():
    """Not before; kind and bytes are the same, and one batch holds a turn's records."""

    async def scenario(stage):
        stage.submit(b"one")
        stage.submit(b"")
        await stage.pass_on()
        assert stage.committer.bodies == [(5, b"one"), (5, b"")]
        assert stage.answers == []
        stage.committer.settle()
        await stage.pass_on()
        assert stage.answers == [(b"one", None), (b"", None)]
        assert stage.link.forwarded_count == 2

    run(scenario)


def test_bytes_may_come_one_by_one():
    """Batches and answers are taken apart wherever they are cut."""

    async def scenario(stage):
        for number in range(4):
            stage.submit(b"%d" % number * 10)
            await asyncio.sleep(0)
        while stage.out.bytes:
            stage.out.deliver(1)
        stage.committer.settle()
        await asyncio.sleep(0)
        while stage.back.bytes:
            stage.back.deliver(1)
        assert stage.answers == [(b"%d" % number * 10, None) for number in range(4)]

    run(scenario)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LogUnavailableError("sync failed"), LogUnavailableError),
        (RecordTooLargeError("too large"), RecordTooLargeError),
    ],
)
def test_a_refusal_reaches_the_sender_with_its_kind(error, expected):
    """At the submit, and at the commit."""

    async def scenario(stage):
        stage.submit(b"a")
        await stage.pass_on()
        stage.committer.settle(error)
        stage.committer.refusal = error
        stage.submit(b"b")
        await stage.pass_on()
        assert [(body, type(why)) for body, why in stage.answers] == [
            (b"a", expected),
            (b"b", expected),
        ]
        assert stage.link.forwarded_count == 0

    run(scenario)


def test_a_log_that_takes_nothing_refuses_what_is_passed_on():
    """And so does a receiver that does not own the partition."""

    async def scenario(stage):
        stage.takes = False
        stage.submit(b"closed")
        await stage.pass_on()
        stage.takes = True
        stage.submit(b"elsewhere", partition=3)
        await stage.pass_on()
        assert stage.committer.bodies == []
        assert [type(why) for _, why in stage.answers] == [LogUnavailableError] * 2

    run(scenario)


def test_what_is_under_way_fails_with_its_link():
    """At once, and once; later records are refused until the receiver is back."""

    async def scenario(stage):
        stage.submit(b"a")
        await stage.pass_on()
        stage.link.connection_lost(None)
        assert [type(why) for _, why in stage.answers] == [LogUnavailableError]
        with pytest.raises(LogUnavailableError, match="partition 1"):
            stage.submit(b"b")
        stage.committer.settle()
        stage.link.connection_lost(None)
        stage.connect()
        stage.submit(b"c")
        await stage.pass_on()
        stage.committer.settle()
        await stage.pass_on()
        assert len(stage.answers) == 2
        assert stage.answers[1] == (b"c", None)
        assert stage.told == [True, False, True]

    run(scenario)


def test_what_an_older_link_still_held_is_not_appended_after_newer_records():
    """It was answered as failed: its sender may have sent it again, in another order."""

    async def scenario(stage):
        stage.submit(b"old")
        await asyncio.sleep(0)
        old_out = stage.out
        stage.link.connection_lost(None)
        stage.connect()
        stage.submit(b"new")
        await asyncio.sleep(0)
        stage.out.deliver()
        old_out.deliver()
        assert stage.committer.bodies == [(5, b"new")]

    run(scenario)


def test_a_batch_that_lay_too_long_is_refused():
    """The receiver stood still; the events may have been sent again on another way."""

    async def scenario(stage):
        stage.submit(b"a")
        await asyncio.sleep(0)
        stage.clock.now_s += _forward.TAKE_S_MAX + 0.1
        await stage.pass_on()
        assert stage.committer.bodies == []
        assert [type(why) for _, why in stage.answers] == [LogUnavailableError]

    run(scenario)


def test_a_receiver_that_never_responds_is_given_up(monkeypatch):
    """Its publishers get their answer."""
    monkeypatch.setattr(_forward, "LOOK_S", 0.0)

    async def scenario(stage):
        stage.submit(b"a")
        await asyncio.sleep(0)
        stage.clock.now_s += _forward.RESPONSE_S_MAX
        for _ in range(10):
            await asyncio.sleep(0)
        assert [type(why) for _, why in stage.answers] == [LogUnavailableError]
        assert stage.out.ended
        assert not stage.link.reached.is_set()

    run(scenario)


def test_what_may_be_under_way_is_bounded(monkeypatch):
    """By bytes and by count; no record is too large for an empty link but those of the log."""
    monkeypatch.setattr(_forward, "PENDING_BYTES_MAX", BODY_BYTES_MAX)
    monkeypatch.setattr(_forward, "PENDING_COUNT_MAX", 1_000)

    async def scenario(stage):
        stage.submit(bytes(BODY_BYTES_MAX))
        with pytest.raises(LogUnavailableError, match="too many"):
            stage.submit(b"more")
        await stage.pass_on()
        stage.committer.settle()
        await stage.pass_on()
        for _ in range(_forward.PENDING_COUNT_MAX):
            stage.submit(b"")
        with pytest.raises(LogUnavailableError, match="too many"):
            stage.submit(b"")
        with pytest.raises(RecordTooLargeError):
            stage.submit(bytes(BODY_BYTES_MAX + 1))

    run(scenario)


def test_a_callback_that_fails_costs_the_others_nothing():
    """The loop is told, and the rest is answered."""

    async def scenario(stage):
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, what: told.append(what))

        def fail(_error):
            raise RuntimeError("a bug")

        stage.link.submit(1, 5, b"a", fail)
        stage.submit(b"b")
        await stage.pass_on()
        stage.committer.settle()
        await stage.pass_on()
        assert stage.answers == [(b"b", None)]
        assert len(told) == 1

    run(scenario)


def test_events_go_to_own_partitions_without_a_key_and_to_the_key_s_with_one():
    """Whoever takes them."""
    keys = [f"key {number}" for number in range(40)]

    async def scenario(stage):
        own = Committer()
        appends = LogAppends({0: own}, 2, {1: stage.link})
        for key in keys:
            appends.submit(Received(key.encode(), 1, key), lambda _error: None)
        appends.submit(Received(b"any", 1, None), lambda _error: None)
        await stage.pass_on()
        here = [key.encode() for key in keys if partition_of(key, 2) == 0]
        there = [key.encode() for key in keys if partition_of(key, 2) == 1]
        assert [body for _, body in own.bodies] == [*here, b"any"]
        assert [body for _, body in stage.committer.bodies] == there

    run(scenario)


def test_who_published_is_told_to_the_receiver_that_appends():
    """By the receiver that took it, or by the one that it was passed on to."""
    keys = {partition_of(str(number), 2): str(number) for number in range(40)}

    async def scenario(stage):
        own = Committer()
        appends = LogAppends({0: own}, 2, {1: stage.link})
        for partition, by in ((0, "key:a"), (1, "key:ä"), (1, "")):
            received = Received(b"x", 1, keys[partition], by=by)
            appends.submit(received, lambda _error: None)
        await stage.pass_on()
        assert own.publishers == ["key:a"]
        assert stage.committer.publishers == ["key:ä", ""]

    run(scenario)


def test_a_key_of_a_receiver_that_is_gone_is_refused():
    """The publisher is told so, and events of other keys go on."""

    async def scenario(stage):
        own = Committer()
        appends = LogAppends({0: own}, 2, {1: stage.link})
        stage.link.connection_lost(None)
        answers = {}
        for key in ("a", "b", "c", "d", "e"):
            received = Received(key.encode(), 1, key)
            appends.submit(received, lambda error, key=key: answers.update({key: error}))
        own.settle()
        assert {partition_of(key, 2) for key in answers} == {0, 1}
        for key, error in answers.items():
            assert isinstance(error, LogUnavailableError) == (partition_of(key, 2) == 1)

    run(scenario)


def test_without_a_key_each_turn_has_a_partition_and_a_long_queue_is_passed_over():
    """One sync serves a turn; a slow disk gets no more."""

    async def scenario(_stage):
        first, second = Committer(), Committer()
        appends = LogAppends({0: first, 2: second}, 4, {})

        def submit():
            appends.submit(Received(b"x", 1, None), lambda _error: None)

        submit()
        submit()
        await asyncio.sleep(0)
        submit()
        assert (len(first.bodies), len(second.bodies)) == (2, 1)
        await asyncio.sleep(0)
        first.pending_bytes = 10**6
        submit()
        assert (len(first.bodies), len(second.bodies)) == (2, 2)

    run(scenario)
