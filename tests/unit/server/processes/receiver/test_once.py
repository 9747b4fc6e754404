"""Events that are taken once: repeats on the way, in a batch, after a failure, after a restart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distributary.core.errors import LogError, LogUnavailableError
from distributary.core.event import Event
from distributary.core.flow import Logged, Received, RecordKind, events_of
from distributary.core.log import Appender, open_folder
from distributary.core.log.taken import OnceLimits, TakenIds, ids_of
from distributary.server.ingest import received_events
from distributary.server.processes.receiver.once import (
    REPEATED,
    OnceAppends,
    OnceCommitter,
    read_taken,
)
from distributary.server.processes.receiver.shared_log import SharedLog

Done = Callable[[int | LogError], None]


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def monotonic_s(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms


class Committer:
    """Keeps what is appended until it is settled."""

    pending_bytes = 0

    def __init__(self) -> None:
        self.waiting: list[Done] = []
        self.count = 0
        self.refuses = False

    def submit(self, kind: int, body: bytes, done: Done, _by: str = "") -> None:
        assert ids_of(Logged(0, 0, 0, kind, body))
        if self.refuses:
            raise LogUnavailableError("full")
        self.waiting.append(done)

    def settle(self, *, fail: bool = False) -> None:
        for done in self.waiting:
            self.count += not fail
            done(LogUnavailableError("disk") if fail else self.count)
        self.waiting = []


class Rig:
    """A committer with a window of ten seconds."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.committer = Committer()
        self.once = OnceCommitter(self.committer, TakenIds(10.0, 100), self.clock)
        self.told: list[int | LogError] = []

    def submit(self, name: str) -> None:
        one = _received(name)
        self.once.submit(one.kind, one.body, self.told.append)


def _event(name: str, **more: str) -> Event:
    return Event({"specversion": "1.0", "id": name, "source": "/s", "type": "t", **more}, None)


def _received(*names: str, address: str = "", **more: str) -> Received:
    return received_events([_event(name, **more) for name in names], address, None)


def test_a_repeat_is_told_as_such_within_the_window() -> None:
    """It is not appended; after the window it is another event."""
    rig = Rig()
    rig.submit("a")
    rig.committer.settle()
    rig.submit("a")
    rig.clock.now_ms += 10_001
    rig.submit("a")
    rig.committer.settle()
    assert rig.told == [1, REPEATED, 2]
    assert rig.once.repeated_count == 1


def test_a_repeat_of_what_is_on_its_way_waits_for_it() -> None:
    """And shares its fate: nothing is promised before it is durable."""
    rig = Rig()
    rig.submit("a")
    rig.submit("a")
    assert rig.told == []
    rig.committer.settle()
    assert rig.told == [1, REPEATED]


def test_what_failed_is_new_when_it_comes_again() -> None:
    """Repeats that waited for it fail with it."""
    rig = Rig()
    rig.submit("a")
    rig.submit("a")
    rig.committer.settle(fail=True)
    rig.submit("a")
    rig.committer.settle()
    assert [isinstance(each, LogError) for each in rig.told] == [True, True, False]
    assert rig.once.repeated_count == 0


def test_what_the_queue_refuses_is_new_when_it_comes_again() -> None:
    """The refusal reaches the caller, and leaves nothing behind."""
    rig = Rig()
    rig.committer.refuses = True
    with pytest.raises(LogUnavailableError):
        rig.submit("a")
    rig.committer.refuses = False
    rig.submit("a")
    rig.committer.settle()
    assert rig.told == [1]


class Appends:
    """Remembers what it gets; settles it when told to."""

    open = True
    splits = False

    def __init__(self) -> None:
        self.got: list[tuple[Received, Callable[[LogError | None], None]]] = []

    def submit(self, received: Received, done: Callable[[LogError | None], None]) -> None:
        self.got.append((received, done))


def test_a_batch_becomes_a_record_for_each_event() -> None:
    """Each with the address, the TTL and the key of its own; the request ends with the last."""
    appends, told = Appends(), list[LogError | None]()
    batch = received_events(
        [_event("a"), _event("b", partitionkey="k")], "uid", [7, 32], b"x: y\r\n"
    )
    port = OnceAppends(appends)
    assert port.splits
    port.submit(batch, told.append)
    (first, done_first), (second, done_second) = appends.got
    found = [events_of(Logged(0, 0, 0, each.kind, each.body)) for each in (first, second)]
    assert [each.address for each in found if each] == ["uid", "uid"]
    assert [each.ttls for each in found if each] == [(7,), (32,)]
    assert [each.carried for each in found if each] == [b"x: y\r\n", b"x: y\r\n"]
    assert [each.events[0].text("id") for each in found if each] == ["a", "b"]
    assert (first.event_count, second.partition_key) == (1, "k")
    done_second(LogUnavailableError("disk"))
    assert told == []
    done_first(None)
    assert len(told) == 1
    assert isinstance(told[0], LogError)


def test_one_identity_has_one_partition_and_two_addresses_have_two_events() -> None:
    """Whatever receiver takes it, alone or in a batch."""
    appends = Appends()
    port = OnceAppends(appends)
    port.submit(_received("a", "b"), lambda _error: None)
    port.submit(_received("a"), lambda _error: None)
    port.submit(_received("a", address="uid"), lambda _error: None)
    keys = [each.partition_key for each, _ in appends.got]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3


def test_a_log_that_nodes_share_gets_events_by_their_ids_where_there_is_a_window() -> None:
    """Readers find repeats in their partition; without a window a request is one record."""
    for once, count in ((True, 2), (False, 1)):
        appends: Any = Appends()
        log = SharedLog(appends, 4, None, once=once)
        assert log.appends.open
        log.appends.submit(_received("a", "b"), lambda _error: None)
        assert len(appends.got) == count
        assert all(bool(each.partition_key) is once for each, _ in appends.got)
        log.allow(False)
        assert not log.appends.open


def test_the_window_is_read_from_the_log(tmp_path: Path) -> None:
    """What was appended within it, before the process ended, was taken; other records are not."""
    clock = Clock()
    open_folder(tmp_path, 1)
    appender = Appender.open(tmp_path, 0, clock=clock)
    old, new = _received("old"), _received("new", "too", address="uid")
    appender.append([(old.kind, old.body)])
    clock.now_ms += 60_000
    appender.append([(new.kind, new.body), (RecordKind.ROUTE, b"{}")])
    appender.close()
    taken = read_taken(tmp_path, 0, OnceLimits(30.0, 100), clock.now_ms)
    for received, there in ((old, False), (new, True)):
        for each in ids_of(Logged(0, 0, 0, received.kind, received.body)):
            assert taken.has(each, clock.now_ms) == there
    assert len(taken) == 2
