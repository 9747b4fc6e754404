"""Group commit: who arrives during a sync shares the next; every caller is told once."""

import asyncio
import threading

import pytest

from distributary.core.errors import LogError, LogUnavailableError
from distributary.core.log import BODY_BYTES_MAX, COMMIT_COUNT_MAX, GroupCommitter
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


def ask(committer, body):
    """Submit, and a future of what the caller is told."""
    told = asyncio.get_running_loop().create_future()
    committer.submit(1, body, told.set_result)
    return told


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


def test_who_published_is_told_with_each_commit():
    """Of what became durable, and with its offset."""
    noted = []

    async def scenario(committer):
        for by in ("key:a", "", "key:b"):
            committer.submit(1, b"x", lambda _: None, by)

    log = OpenLog()
    run(scenario, log, on_published=lambda first, by: noted.extend(enumerate(by, first)))
    assert noted == [(0, "key:a"), (1, ""), (2, "key:b")]


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
    """At the limit ``submit`` refuses; when it drains it takes more."""
    log = GatedLog()
    told = []

    async def scenario(committer):
        relieved = asyncio.Event()

        def tell(offset):
            told.append(offset)
            if offset == 2:
                relieved.set()

        for _ in range(3):
            committer.submit(1, b"x" * 10, tell)
        with pytest.raises(LogUnavailableError, match="wait"):
            committer.submit(1, b"x", told.append)
        log.gate.release(3)
        await relieved.wait()
        committer.submit(1, b"x", told.append)

    run(scenario, log, **limits)
    assert told == [0, 1, 2, 3]


def test_a_failure_is_told_to_all_of_the_group():
    """Each caller gets the error, and the next group may succeed."""
    log = OpenLog()
    log.failing = LogUnavailableError("disk full")
    told = []

    async def scenario(committer):
        told.extend(await asyncio.gather(ask(committer, b"a"), ask(committer, b"b")))
        failure, log.failing = log.failing, None
        told.append(await ask(committer, b"c"))
        assert told == [failure, failure, 0]

    run(scenario, log)
    assert len(told) == 3


def test_a_bug_below_is_told_and_ends_the_committer():
    """An unexpected error leaves nobody waiting; after it nothing more is appended."""
    log = OpenLog()
    told = []

    async def scenario(committer):
        log.prepare = lambda: 1 / 0
        told.append(await ask(committer, b"a"))
        told.append(await ask(committer, b"b"))

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


@pytest.mark.parametrize("inline", [False, True])
def test_those_who_asked_are_told_though_nobody_notes_who_published(inline):
    """A bug there shows in the loop's exception handler, and holds up nothing that comes after."""
    heard = []

    async def scenario(committer):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context))
        for offset, body in enumerate((b"a", b"b")):
            told = loop.create_future()
            committer.submit(1, body, told.set_result)
            assert await told == offset

    run(scenario, OpenLog(), inline=inline, on_published=lambda _first, _by: 1 / 0)
    assert [type(context["exception"]) for context in heard] == [ZeroDivisionError] * 2


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
        await ask(committer, b"abc")
        log.failing = LogUnavailableError("no")
        await ask(committer, b"abc")
        stats = committer.stats()
        assert (stats.record_count, stats.body_bytes) == (1, 3)
        assert (stats.commit_count, stats.failure_count) == (1, 1)
        assert stats.last_commit_s == 0.0

    run(scenario, log)


class WatchedLog(MemoryLog):
    """A memory log that notes which thread uses it, and whether the committer's thread rests."""

    def __init__(self, commit_s=0.0):
        self.clock = VirtualClock()
        super().__init__(self.clock)
        self.commit_s = commit_s
        self.committer = None
        self.gate = threading.Semaphore(0)
        self.by_loop = []
        self.rested = []

    def append(self, entries):
        self._look()
        self.clock.move_to(self.clock.monotonic_s() + self.commit_s)
        return super().append(entries)

    def prepare(self):
        self._look()

    def _look(self):
        by_loop = threading.current_thread() is not self.committer._thread
        self.by_loop.append(by_loop)
        if by_loop:
            self.rested.append(self.committer._sleeping)


def run_inline(scenario, log):
    """Run the scenario with a committer whose loop commits while the disk is quick."""

    async def body():
        loop = asyncio.get_running_loop()
        log.committer = GroupCommitter(log, loop, clock=log.clock, inline=True)
        while not log.committer._sleeping:  # noqa: ASYNC110 - the thread has just been started
            await asyncio.sleep(0)
        await scenario(log.committer)
        await log.committer.close()

    asyncio.run(body())


def test_the_loop_commits_while_the_disk_is_quick():
    """What one turn of the loop brought is one commit, without the thread."""
    log, told = WatchedLog(), []

    async def scenario(committer):
        for _ in range(5):
            committer.submit(1, b"x", told.append)
        assert told == []
        await asyncio.sleep(0)
        assert told == [0, 1, 2, 3, 4]
        assert committer.stats().commit_count == 1

    run_inline(scenario, log)
    assert all(log.by_loop)


def test_the_thread_takes_over_when_the_disk_is_slow():
    """One hopeless commit, or some slow ones, and the loop does not wait for the disk any more."""
    log = WatchedLog(commit_s=1.0)

    async def scenario(committer):
        await ask(committer, b"slow")
        await ask(committer, b"by the thread")

    run_inline(scenario, log)
    assert log.by_loop[:2] == [True, True]
    assert not any(log.by_loop[2:])


def test_the_loop_takes_over_again():
    """After a row of quick commits by the thread."""
    log = WatchedLog(commit_s=1.0)

    async def scenario(committer):
        await ask(committer, b"slow")
        log.commit_s = 0.0
        for _ in range(40):
            await ask(committer, b"quick")
            while not committer._sleeping:  # noqa: ASYNC110 - the thread is about to rest
                await asyncio.sleep(0)

    run_inline(scenario, log)
    assert not all(log.by_loop)
    assert log.by_loop[-1]


@pytest.mark.parametrize("count", [1, COMMIT_COUNT_MAX + 1])
def test_loop_and_thread_never_use_the_appender_at_once(count):
    """Callbacks that submit (pipelined requests do) wake no thread while the loop still commits."""
    log, told = WatchedLog(commit_s=1.0), []

    async def scenario(committer):
        def submit_another(offset):
            told.append(offset)
            if len(told) <= count:
                committer.submit(1, b"another", told.append)

        for _ in range(count):
            committer.submit(1, b"x", submit_another)
        while len(told) < 2 * count:  # noqa: ASYNC110 - what is told last is not known before
            await asyncio.sleep(0)

    run_inline(scenario, log)
    assert sorted(told) == list(range(2 * count))
    assert all(log.rested)


def test_what_no_record_holds_is_refused_alone():
    """Before it comes to the log: the others of its commit, and all later ones, are appended."""
    log = OpenLog()

    async def scenario(committer):
        told = ask(committer, b"before")
        with pytest.raises(LogError) as caught:
            committer.submit(1, bytes(BODY_BYTES_MAX + 1), print)
        assert caught.value.code == "content-too-large"
        largest = ask(committer, bytes(BODY_BYTES_MAX))
        assert [await told, await largest, await ask(committer, b"behind")] == [0, 1, 2]
        assert committer.broken is None

    run(scenario, log)


def test_a_bug_in_the_log_shows_in_the_committer():
    """Its process ends: only a new one recovers the partition."""
    log = OpenLog()
    log.groups = None

    async def scenario(committer):
        assert isinstance(await ask(committer, b"a"), LogUnavailableError)
        assert isinstance(committer.broken, LogUnavailableError)

    run(scenario, log)


def test_who_asks_is_told_while_the_loop_waits_for_the_disk():
    """Between the two calls nothing else turns the loop: another process can see why."""
    told = []

    class Told(WatchedLog):
        def append(self, entries):
            told.append("appends")
            return super().append(entries)

    async def body():
        log = Told()
        loop = asyncio.get_running_loop()
        log.committer = GroupCommitter(
            log, loop, clock=log.clock, inline=True, on_inline=told.append
        )
        while not log.committer._sleeping:  # noqa: ASYNC110 - the thread has just been started
            await asyncio.sleep(0)
        await ask(log.committer, b"x")
        await log.committer.close()

    asyncio.run(body())
    assert told == [True, "appends", False]


@pytest.mark.parametrize("inline", [False, True])
def test_readers_hear_of_a_commit_before_those_who_asked(inline):
    """A consumer begins while the answers are written; what was refused is no news."""
    told = []

    class Failing(WatchedLog):
        broken = False

        def append(self, entries):
            if self.broken:
                raise LogUnavailableError("no")
            return super().append(entries)

    async def body():
        log = Failing()
        loop = asyncio.get_running_loop()
        log.committer = GroupCommitter(
            log, loop, clock=log.clock, inline=inline, on_durable=lambda: told.append("durable")
        )
        while not log.committer._sleeping:  # noqa: ASYNC110 - the thread has just been started
            await asyncio.sleep(0)
        told.append(await ask(log.committer, b"x"))
        log.broken = True
        await ask(log.committer, b"y")
        await log.committer.close()

    asyncio.run(body())
    assert told == ["durable", 0]
