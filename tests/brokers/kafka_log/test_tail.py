"""A tail brings records as they are appended, without waiting on the loop."""

import asyncio
import contextlib
import threading

import pytest

from distributary.core.flow import Received, RecordKind
from distributary.core.log.kafka import KafkaAppends, KafkaTail
from distributary.core.log.kafka import tail as module
from distributary.core.log.kafka._fetcher import Fetcher
from kit.taker import Taker

pytestmark = pytest.mark.slow


async def _until(condition):
    while not condition():  # noqa: ASYNC110 - several loops and threads bring it about
        await asyncio.sleep(0.005)


def _event(number):
    return Received(body=b"%d" % number, event_count=1, partition_key=None)


class OneThread(Fetcher):
    """Fails a call while another thread is in one, where the client would make it wait.

    Attributes:
        waits: Set while somebody waits for a record.
    """

    waits = threading.Event()

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._turn = threading.Lock()

    @contextlib.contextmanager
    def _alone(self):
        assert self._turn.acquire(blocking=False), "another thread uses the client"
        try:
            yield
        finally:
            self._turn.release()

    def ready(self, wait_s):
        with self._alone():
            self.waits.set()
            try:
                return super().ready(wait_s)
            finally:
                self.waits.clear()

    def gather(self, bytes_max, kind=0):
        with self._alone():
            return super().gather(bytes_max, kind)

    def seen_end(self):
        with self._alone():
            return super().seen_end()


def test_a_tail_brings_what_is_appended_after_idle_and_busy_times(new_place, monkeypatch):
    """It begins where it is told, waits for its consumer, and wakes up after it was idle.

    The loop never waits for the thread, whatever it asks the tail meanwhile.
    """
    monkeypatch.setattr(module, "Fetcher", OneThread)

    async def follow():
        loop = asyncio.get_running_loop()
        place = new_place()
        appends = KafkaAppends(place, 1, loop)
        results = []
        for number in range(300):
            appends.submit(_event(number), results.append)
        await _until(lambda: len(results) == 300)
        assert results == [None] * 300
        taker = Taker()
        taker.tail = tail = KafkaTail(place, 0, taker, loop)
        assert tail.end() == 0
        tail.start(100)
        await _until(lambda: taker.records)
        seen = len(taker.records)
        await asyncio.sleep(2 * module.AWAKE_S)
        assert len(taker.records) == seen  # it has taken nothing yet
        while len(taker.records) < 200:
            taker.take()
            await asyncio.sleep(0.005)
        assert [each.offset for each in taker.records] == list(range(100, 300))
        taker.take()
        for number in range(300, 310):
            await asyncio.sleep(3 * module.AWAKE_S if number < 303 else module.LOOK_S)
            appends.submit(_event(number), results.append)
            await _until(lambda number=number: len(taker.records) > number - 100)
            assert taker.records[-1].body == b"%d" % number
            assert taker.records[-1].kind == RecordKind.EVENTS
            taker.take()
        await _until(OneThread.waits.is_set)
        assert [tail.end() for _ in range(100)] == [310] * 100
        tail.stop()
        tail.stop()
        await appends.close()
        assert taker.errors == []

    asyncio.run(asyncio.wait_for(follow(), 60))


def test_a_tail_that_begins_nowhere_fails_its_consumer(new_place):
    """A record that the cluster does not have is an error, not a silence."""

    async def follow():
        taker = Taker()
        tail = KafkaTail(new_place(), 0, taker, asyncio.get_running_loop())
        tail.start(1_000)
        await _until(lambda: taker.errors)
        (error,) = taker.errors
        assert "has no record 1000" in str(error)

    asyncio.run(asyncio.wait_for(follow(), 60))
