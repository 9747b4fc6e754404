"""Find by id among many events, and the way of one: times, and what index and history cost.

Writes a log of COUNT events of 1 KB with the log's own appender, makes the index and a history of
one match for each event, then looks for events by their id, there and not there, and tells the way
of some beside 1,000 subscriptions. Run: ``python benchmarks/find_event.py [COUNT] [FOLDER]``,
with 1.1 KB of disk for each event; the log is deleted at the end.
"""

import asyncio
import functools
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.core.event import binary
from distributary.core.flow import (
    Attempt,
    DoneKey,
    Ending,
    Logged,
    Origin,
    Position,
    RecordKind,
    RouteRecord,
    Stage,
    Task,
    events_of,
)
from distributary.core.journal_blocks import read_blocks
from distributary.core.journal_frames import HistoryBlock
from distributary.core.log import Appender, open_folder
from distributary.core.log.finder import Budget, FileLog, Finder, Question, needle
from distributary.core.log.indexed import Index
from distributary.core.log.indexer import Indexer
from distributary.core.policy import DELIVERED, Reply
from distributary.history.rows import Recorder, RouteNames
from distributary.history.writer import HistoryWriter
from distributary.subscriptions.events import EventPlaces, Events
from distributary.subscriptions.store.store import Store

PARTITIONS = 2
COMMIT = 2_000
LOOKUPS = 1_000
WAYS = 300
FILE_ROWS = 131_072
ROUTE = "5e3f405b4d604424939d5ec913e05f45"
DATA = b'{"padding": "' + b"x" * 780 + b'"}'


def main() -> None:
    """Write, index, look up, and print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    folder = Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    try:
        _measure(folder, count)
    finally:
        shutil.rmtree(folder)


def _measure(folder: Path, count: int) -> None:
    log, index = folder / "log", folder / "index"
    open_folder(log, PARTITIONS)
    began_s = time.monotonic()
    for partition in range(PARTITIONS):
        _write(log, partition, range(partition, count, PARTITIONS))
    log_bytes = _bytes(log, "*.seg")
    print(f"{count:,} events, {log_bytes / 1e9:.2f} GB, in {time.monotonic() - began_s:.0f} s")
    cpu_s = time.process_time()
    for partition in range(PARTITIONS):
        indexer = Indexer(log, partition, index / str(partition))
        while indexer.turn(SystemClock().wall_ms()):
            pass
        indexer.close()
    cpu_s = time.process_time() - cpu_s
    size = _bytes(index, "*.ids")
    print(
        f"index: {cpu_s / count * 1e6:.2f} us of CPU an event, {size / count:.1f} bytes an event,"
        f" {size / log_bytes:.2%} of the log"
    )
    searched = FileLog(log, [Index(index / str(partition)) for partition in range(PARTITIONS)])
    began_s = time.monotonic()
    assert _find(searched, _id(0)) == 1
    print(f"first look-up, which verifies all files: {(time.monotonic() - began_s) * 1e3:.1f} ms")
    drawn = random.Random(1)
    there = [_id(drawn.randrange(count)) for _ in range(LOOKUPS)]
    _report("there", lambda id_: _find(searched, id_) == 1, there)
    _report(
        "newest",
        lambda id_: _find(searched, id_) == 1,
        [_id(count - 1 - n) for n in range(LOOKUPS)],
    )
    absent = [f"absent-{number}" for number in range(LOOKUPS)]
    _report("not there", lambda id_: _find(searched, id_) == 0, absent)
    history = folder / "history"
    for partition in range(PARTITIONS):
        _write_history(history, partition, range(partition, count, PARTITIONS))
    kept = _bytes(history, "*.parquet")
    print(
        f"history: {kept / count:.1f} bytes a match;"
        f" with the index {(kept + size) / log_bytes:.2%} of the log"
    )
    _measure_ways(folder, history, count)


def _write(log: Path, partition: int, numbers: range) -> None:
    appender = Appender.open(log, partition, clock=SystemClock())
    for start in range(0, len(numbers), COMMIT):
        appender.append(
            [(RecordKind.EVENTS, _body(number)) for number in numbers[start : start + COMMIT]]
        )
        appender.prepare()
    appender.close()


def _write_history(folder: Path, partition: int, numbers: range) -> None:
    """Rows as an owner records them, in files as merging leaves them."""
    names = RouteNames("default", "orders", 1)
    writer = HistoryWriter(folder, partition)
    now_ms = SystemClock().wall_ms()
    for start in range(0, len(numbers), FILE_ROWS):
        recorder = Recorder(partition, lambda _uid: names)
        blocks, first = [], start
        for offset in range(start, min(start + FILE_ROWS, len(numbers))):
            event = binary.decode(_body(numbers[offset]))
            assert event is not None
            place = Position(partition, offset, 0)
            task = Task(place, 1, ROUTE, event, Stage.PRIMARY, 1, 0, Origin.LIVE)
            attempt = Attempt(task, Reply(204, None, None, b""), 0.001 + offset % 977 / 1e6)
            recorder.attempted(attempt, DELIVERED, now_ms + offset // 10)
            ended = DoneKey(offset, 0, ROUTE)
            recorder.ended(ended, Ending.DELIVERED, None, now_ms + offset // 10, task)
            if offset % 2_000 == 1_999:  # a flush
                count, rows = recorder.take()
                blocks.append(HistoryBlock(first, count, rows))
                first += count
        count, rows = recorder.take()
        if count:
            blocks.append(HistoryBlock(first, count, rows))
        writer.publish(writer.write(blocks))


class _Routes:
    """1,000 subscriptions, of which none but the delivered one matches."""

    def __init__(self) -> None:
        put = functools.partial(RouteRecord, seq=1, op="put", revision=1)
        others = ({"prefix": {"type": f"com.other.{number}"}} for number in range(1_000))
        self._records = [put(uid=f"{n:032x}", filters=(each,)) for n, each in enumerate(others)]

    def at(self, _address: str, most: int) -> list[RouteRecord]:
        return self._records[:most]

    def one(self, _uid: str) -> None:
        return None


def _measure_ways(folder: Path, history: Path, count: int) -> None:
    store = Store(sqlite_url(folder / "state.db"))
    indexes = [Index(folder / "index" / str(partition)) for partition in range(PARTITIONS)]
    log = FileLog(folder / "log", indexes)
    places = EventPlaces(
        log,
        [history],
        lambda partition: read_blocks(folder / f"journal-{partition}"),
        lambda: "all",
    )
    events = Events(places, store, _Routes())
    drawn = random.Random(2)

    async def ask() -> None:
        await events.prepare()  # as a server does once it is ready
        times = []
        used_s = time.process_time()
        for _ in range(WAYS):
            number = drawn.randrange(count)
            position = Position(number % PARTITIONS, number // PARTITIONS, 0)
            began_s = time.perf_counter()
            way = await events.way(position, "default")
            times.append((time.perf_counter() - began_s) * 1e3)
            assert way.matches[0].outcome is not None
        first, *rest = times
        p99 = statistics.quantiles(rest, n=100)[98]
        cpu_ms = (time.process_time() - used_s) / WAYS * 1e3
        print(
            f"way: first {first:.0f} ms, p50 {statistics.median(rest):.1f} ms, p99 {p99:.1f} ms,"
            f" {cpu_ms:.1f} ms of CPU each"
        )

    asyncio.run(ask())
    events.close()
    store.close()


def _id(number: int) -> str:
    return f"{number * 2654435761 % 2**32:08x}-{number:012d}"


def _body(number: int) -> bytes:
    lines = (
        b"ce-specversion: 1.0\r\nce-id: %b\r\nce-source: /sensors/%d\r\n"
        b"ce-type: com.example.someevent\r\nce-time: 2026-01-01T00:00:00Z\r\n"
        b"content-type: application/json\r\n"
    )
    return binary.encode([lines % (_id(number).encode(), number % 1000)], DATA)


def _find(log: FileLog, id_: str) -> int:
    def wanted(logged: Logged) -> bool:
        found = events_of(logged)
        return found is not None and any(event.text("id") == id_ for event in found.events)

    found = 0
    for partition in range(log.partitions):
        question = Question(id_, (needle(id_),), wanted)
        finder = Finder(log, partition, question)
        budget = Budget(1 << 30, 1 << 40)
        while not finder.done:
            found += len(finder.step(budget))
        finder.close()
    return found


def _report(name: str, ask: Callable[[str], bool], ids: list[str]) -> None:
    times = []
    used_s = time.process_time()
    for id_ in ids:
        began_s = time.perf_counter()
        assert ask(id_)
        times.append((time.perf_counter() - began_s) * 1e3)
    p99 = statistics.quantiles(times, n=100)[98]
    cpu_ms = (time.process_time() - used_s) / len(ids) * 1e3
    print(
        f"find, {name}: p50 {statistics.median(times):.1f} ms, p99 {p99:.1f} ms,"
        f" {cpu_ms:.2f} ms of CPU each, all partitions"
    )


def _bytes(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern))


if __name__ == "__main__":
    main()
