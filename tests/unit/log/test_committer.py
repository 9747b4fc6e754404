"""Group commit: who arrives during a sync shares the next; every caller is told once."""

import asyncio
import threading

import pytest

from distributary.errors import LogError, LogUnavailableError
from distributary.log import COMMIT_COUNT_MAX, GroupCommitter
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock


class GatedLog(MemoryLog):
    """A memory log whose appends wait until the test lets them through."""

    def __init__(self):
        super().__init__(VirtualClock())
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.groups = []
        self.prepared = 0

    def append(self, entries):
        self.entered.release()
        self.gate.acquire()
        self.groups.append([body for _, body in entries])
        return super().append(entries)

    def prepare(self):
        self.prepared += 1


class OpenLog(GatedLog):
    """As above, with the gate open."""

    def append(self, entries):
        self.gate.release()
        return super().append(entries)


def run(scenario, log, **limits):
    """Run the scenario with a committer, and close it."""

    async def body():
        committer = GroupCommitter(log, asyncio.get_running_loop(), clock=VirtualClock(), **limits)
        try:
            await scenario(committer)
        finally:
            log.gate.release(1_000)
            await committer.close()

    asyncio.run(body())


def test_each_caller_learns_its_offset():
    """Offsets come in the order of submission."""
    told = []

    async def scenario(committer):
        for number in range(500):
            committer.submit(1, b"%d" % number, told.append)

    log = OpenLog()
    run(scenario, log)
    assert told == list(range(500))
    assert [r.body for r in log.read(0, 500)] == [b"%d" % number for number in range(500)]


def test_those_who_wait_share_the_next_commit():
    """While the first is being synced the others gather."""
    log = GatedLog()

    async def scenario(committer):
        committer.submit(1, b"first", lambda _: None)
        await asyncio.to_thread(log.entered.acquire)
        for body in (b"a", b"b", b"c"):
            committer.submit(1, body, lambda _: None)
        assert committer.pending == 4
        assert committer.pending_bytes == 8

    run(scenario, log)
    assert log.groups == [[b"first"], [b"a", b"b", b"c"]]
    assert log.prepared == 2


def test_a_commit_has_a_limit():
    """A crowd is split, so that the event loop is not kept waiting."""
    log = GatedLog()

    async def scenario(committer):
        committer.submit(1, b"first", lambda _: None)
        await asyncio.to_thread(log.entered.acquire)
        for _ in range(COMMIT_COUNT_MAX + 1):
            committer.submit(1, b"x", lambda _: None)

    run(scenario, log)
    assert [len(group) for group in log.groups] == [1, COMMIT_COUNT_MAX, 1]


@pytest.mark.parametrize("limits", [{"queue_count_max": 3}, {"queue_bytes_max": 30}], ids=str)
def test_a_full_queue_refuses(limits):
    """At the limit ``full`` says so and ``submit`` refuses; when it drains both relent."""
    log = GatedLog()
    told = []

    async def scenario(committer):
        for _ in range(3):
            assert not committer.full
            committer.submit(1, b"x" * 10, told.append)
        assert committer.full
        with pytest.raises(LogUnavailableError, match="wait"):
            committer.submit(1, b"x", told.append)
        log.gate.release(3)
        while committer.pending:
            await asyncio.sleep(0)
        assert not committer.full
        committer.submit(1, b"x", told.append)

    run(scenario, log, **limits)
    assert told == [0, 1, 2, 3]


def test_a_failure_is_told_to_all_of_the_group():
    """Each caller gets the error, and the next group may succeed."""
    log = OpenLog()
    log.failing = LogUnavailableError("disk full")
    told = []

    async def scenario(committer):
        committer.submit(1, b"a", told.append)
        committer.submit(1, b"b", told.append)
        while committer.pending:
            await asyncio.sleep(0)
        log.failing = None
        committer.submit(1, b"c", told.append)

    run(scenario, log)
    assert told == [log_error for log_error in told[:2] if isinstance(log_error, LogError)] + [0]
    assert len(told) == 3


def test_a_bug_below_is_told_and_ends_the_committer():
    """An unexpected error leaves nobody waiting; after it nothing more is appended."""
    log = OpenLog()
    told = []

    async def scenario(committer):
        log.clock_broken = True
        log.prepare = lambda: 1 / 0
        committer.submit(1, b"a", told.append)
        while committer.pending:
            await asyncio.sleep(0)
        while not committer._broken:
            await asyncio.sleep(0)
        committer.submit(1, b"b", told.append)

    run(scenario, log)
    assert told[0] == 0
    assert "ZeroDivisionError" in str(told[1])


def test_one_bad_callback_does_not_cost_the_others():
    """The loop's exception handler hears of it; the rest of the group is told."""
    told, heard = [], []

    async def scenario(committer):
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        committer.submit(1, b"a", lambda _: 1 / 0)
        committer.submit(1, b"b", told.append)

    run(scenario, OpenLog())
    assert told == [1]
    assert [type(context["exception"]) for context in heard] == [ZeroDivisionError]


def test_closing_drains():
    """What was submitted before the close is appended and told; what comes after is refused."""
    log = OpenLog()
    told = []

    async def scenario(committer):
        for _ in range(100):
            committer.submit(1, b"x", told.append)
        await committer.close()
        assert told == list(range(100))
        with pytest.raises(LogUnavailableError, match="closing"):
            committer.submit(1, b"x", told.append)

    run(scenario, log)


def test_counts_what_it_did():
    """Records, bytes, commits and failures."""
    log = OpenLog()

    async def scenario(committer):
        committer.submit(1, b"abc", lambda _: None)
        while committer.pending:
            await asyncio.sleep(0)
        log.failing = LogUnavailableError("no")
        committer.submit(1, b"abc", lambda _: None)
        while committer.pending:
            await asyncio.sleep(0)
        stats = committer.stats()
        assert (stats.record_count, stats.body_bytes) == (1, 3)
        assert (stats.commit_count, stats.failure_count) == (1, 1)
        assert stats.last_commit_s == 0.0

    run(scenario, log)
