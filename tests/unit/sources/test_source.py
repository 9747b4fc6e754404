"""A source: its connections, its states, what it counts and says, its end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import structlog

from distributary.core.errors import TransportError
from distributary.core.meter import Meter
from distributary.core.source import Settlement, SourceSpec
from distributary.sources import Source, SourceState
from distributary.sources._source import (
    LINES_A_MINUTE_MAX,
    RECONNECT_S_MAX,
    STEADY_S,
    UNSETTLED_MAX,
)
from distributary.testing.scripted_transport import Step

TAKEN = Settlement.TAKEN


class Stage:
    """One source with everything around it."""

    def __init__(self, consumer, receiver, timers, clock) -> None:
        self.consumer = consumer
        self.receiver = receiver
        self.timers = timers
        self.clock = clock
        self.meter = Meter()
        self.pauses: list[float] = []
        self.source = Source(
            SourceSpec("orders", "NATS", "nats://h", "orders.>"),
            consumer,
            receiver.transport,
            "http://127.0.0.1:1",
            body_bytes_max=1_000,
            unsettled_max=1_000,
            meter=self.meter,
            clock=clock,
            timers=timers,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        woken = asyncio.Event()
        self.timers.call_later(seconds, woken.set)
        await woken.wait()

    async def turn(self) -> None:
        """Let tasks run until they wait."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass, a tenth of a second at a time."""
        for _ in range(round(seconds * 10)):
            self.timers.advance(0.1)
            await self.turn()

    def count(self, result: str) -> float:
        """A counter."""
        return self.meter.counters[f'source_messages_total{{source="orders",result="{result}"}}']

    def reading(self) -> float:
        """The gauge of the state."""
        self.source.gauge()
        return self.meter.gauges['source_reading{source="orders"}']


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """Log lines, from the making of the source on."""
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def play(lines, consumer, receiver, timers, clock) -> Callable[..., None]:
    """Runs a scene with a source that has been started, and stops it."""
    assert not lines  # asked for first: the source binds its logger when it is made

    def run(scene: Callable[[Stage], Awaitable[None]]) -> None:
        async def all_of_it() -> None:
            stage = Stage(consumer, receiver, timers, clock)
            stage.source.start()
            await stage.turn()
            await scene(stage)
            await stage.source.stop(0.0)

        asyncio.run(all_of_it())

    return run


def _events(lines: list[dict[str, Any]]) -> list[str]:
    return [line["event"] for line in lines]


def test_a_message_is_published_and_then_settled(play, mail):
    """And counted once."""

    async def scene(stage: Stage) -> None:
        stage.consumer.take(mail.event("a"))
        await stage.advance(0.1)
        assert mail.settled == [("a", TAKEN)]
        assert (stage.count("taken"), stage.count("refused"), stage.count("retried")) == (1, 0, 0)

    play(scene)


def test_a_source_has_no_more_messages_than_its_share(play):
    """Whatever it is allowed, ``UNSETTLED_MAX`` is enough."""

    async def scene(stage: Stage) -> None:
        assert stage.consumer.unsettled_max == UNSETTLED_MAX

    play(scene)


def test_the_first_message_or_time_shows_that_it_reads(play, mail, lines):
    """A consumer does not say that it is connected: silence for longer than any dial does."""

    async def scene(stage: Stage) -> None:
        assert stage.source.state is SourceState.CONNECTING
        assert stage.reading() == 0
        await stage.advance(STEADY_S + 0.1)
        assert stage.source.state is SourceState.READING
        assert stage.reading() == 1
        stage.consumer.fail()
        await stage.turn()
        assert stage.source.state is SourceState.FAILING
        assert stage.reading() == 0
        await stage.advance(0.3)
        assert stage.source.state is SourceState.CONNECTING
        stage.consumer.take(mail.event("a"))
        assert stage.source.state is SourceState.READING
        await stage.advance(STEADY_S + 0.1)
        assert _events(lines) == ["source-reading", "source-failing", "source-reading"]

    play(scene)


def test_a_broker_that_is_away_is_dialled_after_pauses_that_grow(play, lines):
    """One line for the whole absence, one when the reason changes, one when it is back."""

    async def scene(stage: Stage) -> None:
        for _ in range(20):
            stage.consumer.fail()
            await stage.turn()
            await stage.advance(RECONNECT_S_MAX + 0.2)
            assert stage.consumer.running
        assert stage.pauses[:4] == [0.2, 0.4, 0.8, 1.6]
        assert set(stage.pauses[6:]) == {RECONNECT_S_MAX}
        stage.consumer.fail(TransportError("protocol", "the password is wrong"))
        await stage.advance(RECONNECT_S_MAX + 0.2)
        assert _events(lines) == ["source-failing"] * 2
        assert lines[0]["source"] == "orders"
        assert lines[1]["why"] == "protocol: the password is wrong"
        await stage.advance(STEADY_S + 0.2)
        stage.consumer.fail()
        await stage.turn()
        assert stage.pauses[-1] == 0.2

    play(scene)


def test_a_bug_of_a_consumer_ends_only_its_connection(play, mail, lines):
    """It is told with its trace, once; the source goes on."""

    async def scene(stage: Stage) -> None:
        for _ in range(3):
            stage.consumer.fail(ValueError("a bug"))
            await stage.advance(1.0)
        assert stage.consumer.runs == 4
        stage.consumer.take(mail.event("a"))
        await stage.advance(0.1)
        assert mail.settled == [("a", TAKEN)]
        assert _events(lines) == ["source-bug", "source-failing", "source-reading"]

    play(scene)


def test_messages_of_a_lost_connection_are_not_settled(play, receiver, mail):
    """The broker gives them again to the next one; those under way are in the log twice then."""

    async def scene(stage: Stage) -> None:
        receiver.otherwise = Step(receiver.otherwise.answer, after_s=1.0)
        stage.consumer.take(mail.event("a"))
        stage.consumer.fail()
        await stage.advance(3.0)
        assert mail.settled == []
        assert stage.count("taken") == 1
        stage.consumer.take(mail.event("a"))
        await stage.advance(1.1)
        assert mail.settled == [("a", TAKEN)]
        assert receiver.got == ["a", "a"]

    play(scene)


def test_a_receiver_that_takes_nothing_is_told_once(play, receiver, mail, lines):
    """And once that it goes on; every event that is sent again is counted."""

    async def scene(stage: Stage) -> None:
        receiver.says(404, 404, 404)
        stage.consumer.take(mail.event("a"))
        await stage.advance(5.0)
        assert stage.count("retried") == 3
        assert _events(lines) == ["source-reading", "source-waits", "source-goes-on"]
        assert lines[1]["why"] == "the receiver answered 404"
        assert lines[1]["to"] == "/events"

    play(scene)


def test_refusals_are_counted_all_and_told_a_few_a_minute(play, mail, lines):
    """A topic full of what is no event does not fill the disk with lines."""

    async def scene(stage: Stage) -> None:
        for number in range(100):
            stage.consumer.take(mail.junk(str(number)))
        assert stage.count("refused") == 100
        told = [line for line in lines if line["event"] == "source-refused"]
        assert len(told) == LINES_A_MINUTE_MAX
        assert told[0]["where"] == "topic@0"
        assert "secret-content" not in str(told)
        stage.clock.move_to(stage.clock.monotonic_s() + 60.0)
        stage.consumer.take(mail.junk("late"))
        assert lines[-1]["untold"] == 100 - LINES_A_MINUTE_MAX
        assert len(mail.settled) == 101

    play(scene)


def test_a_stop_waits_for_what_is_under_way(play, receiver, mail, timers):
    """It is settled, and so acknowledged, before the consumer is ended."""

    async def scene(stage: Stage) -> None:
        receiver.otherwise = Step(receiver.otherwise.answer, after_s=1.0)
        stage.consumer.take(mail.event("a"))
        stopping = asyncio.create_task(stage.source.stop(60.0))
        await stage.turn()
        assert stage.consumer.running
        timers.advance(1.0)
        assert mail.settled == [("a", TAKEN)]
        await stopping
        assert not stage.consumer.running
        assert stage.source.state is SourceState.STOPPED

    play(scene)


def test_a_stop_does_not_wait_longer_than_it_may(play, receiver, mail, lines):
    """What is not settled by then the broker keeps."""

    async def scene(stage: Stage) -> None:
        receiver.otherwise = Step(None)
        stage.consumer.take(mail.event("a"))
        await stage.source.stop(0.0)
        assert not stage.consumer.running
        assert mail.settled == []
        assert _events(lines)[-1] == "source-not-drained"

    play(scene)


def test_the_gauge_counts_what_is_not_settled(play, receiver, mail):
    """Waiting and under way."""

    async def scene(stage: Stage) -> None:
        receiver.otherwise = Step(receiver.otherwise.answer, after_s=1.0)
        for number in range(70):
            stage.consumer.take(mail.event(str(number)))
        stage.source.gauge()
        assert stage.meter.gauges['source_unsettled{source="orders"}'] == 70

    play(scene)
