"""The newest attempts of one route: from the journal and from files, bounded."""

import subprocess
import sys

import pytest

from distributary.core.event import Event
from distributary.core.flow import Attempt, DoneKey, Ending, Origin, Position, Stage, Task
from distributary.core.journal_frames import HistoryBlock
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict
from distributary.history import newest
from distributary.history.newest import NewestRows
from distributary.history.rows import Recorder, RouteNames
from distributary.history.writer import HistoryWriter

NOON_MS = 1_795_348_800_000
RETRY = Verdict(Decision.RETRY, "status-503", 0.25)
NAMES = {"u": RouteNames("shop", "orders", 4), "v": RouteNames("shop", "others", 1)}


def block(first, *attempts, partition=0):
    """A block with an attempt for each (uid, second); those of even seconds deliver."""
    recorder = Recorder(partition, NAMES.get)
    for uid, second in attempts:
        event = Event({"specversion": "1.0", "id": f"e-{second}", "source": "/s", "type": "t"}, b"")
        task = Task(Position(partition, second, 0), 1, uid, event, Stage.PRIMARY, 1, 0, Origin.LIVE)
        now_ms = NOON_MS + second * 1000
        if second % 2:
            recorder.attempted(Attempt(task, Reply(503, None, None, b"no"), 0.25), RETRY, now_ms)
        else:
            recorder.attempted(Attempt(task, Reply(200, None, None, b""), 0.25), DELIVERED, now_ms)
            recorder.ended(DoneKey(second, 0, uid), Ending.DELIVERED, None, now_ms, task)
    count, rows = recorder.take()
    return HistoryBlock(first, count, rows)


@pytest.fixture
def blocks():
    """What files do not hold yet, by partition."""
    return {0: [], 1: []}


@pytest.fixture
def rows(tmp_path, blocks):
    """Of two partitions."""
    return NewestRows([tmp_path / "history", tmp_path / "outbox"], blocks.get)


def filed(folder, *some, partition=0):
    """Publish *some* blocks as one file."""
    writer = HistoryWriter(folder, partition)
    writer.publish(writer.write(some))


def ids(found):
    """Ids of their events."""
    return [each.id for each in found.items]


def test_the_newest_come_first_wherever_they_are(rows, blocks, tmp_path):
    """Of this route alone, with the event, each once."""
    filed(tmp_path / "history", block(0, ("u", 1), ("v", 2), ("u", 3)))
    filed(tmp_path / "outbox", block(0, ("u", 4), ("v", 5), partition=1), partition=1)
    twice = block(3, ("u", 6), ("v", 7))
    filed(tmp_path / "history", twice)
    blocks[0] = [twice, block(5, ("v", 8)), block(6, ("u", 9))]
    found = rows.of("u", 2, 10)
    assert (ids(found), found.looked_ms) == (["e-9", "e-6", "e-4", "e-3", "e-1"], None)
    first, second = found.items[:2]
    assert (first.position, first.source, first.type) == (Position(0, 9, 0), "/s", "t")
    assert (first.row.status, first.row.decision, first.row.answer) == (503, "retry", "no")
    assert (second.row.outcome, second.row.decision) == ("delivered", "delivered")
    first_three = rows.of("u", 2, 3)
    assert (ids(first_three), first_three.looked_ms) == (["e-9", "e-6", "e-4"], None)
    filed(tmp_path / "history", block(7, ("u", 10)))
    assert rows.of("u", 2, 1).looked_ms is None
    assert ids(rows.of("nobody", 2, 3)) == []


def test_an_outcome_that_no_attempt_brought_is_no_attempt(rows, blocks, tmp_path):
    """In the journal and in a file alike."""
    recorder = Recorder(0, NAMES.get)
    recorder.ended(DoneKey(1, 0, "u"), Ending.DROPPED, "why", NOON_MS, None)
    count, encoded = recorder.take()
    filed(tmp_path / "history", HistoryBlock(0, count, encoded))
    blocks[0] = [HistoryBlock(1, count, encoded)]
    assert rows.of("u", 2, 10).items == []


@pytest.mark.parametrize("bound", ["FILES_LOOKED_MAX", "ROWS_LOOKED_MAX"])
def test_a_question_is_bounded_and_says_how_far_it_came(rows, tmp_path, monkeypatch, bound):
    """A quiet route among others is not looked for in all of the history."""
    monkeypatch.setattr(newest, bound, 4)
    for number in range(6):
        filed(
            tmp_path / "history", block(number * 2, ("u" if number < 2 else "v", number), ("v", 9))
        )
    found = rows.of("u", 2, 10)
    assert found.items == []
    assert found.looked_ms is not None
    monkeypatch.setattr(newest, bound, 400)
    assert (ids(rows.of("u", 2, 10)), rows.of("u", 2, 10).looked_ms) == (["e-1", "e-0"], None)


def test_a_damaged_file_hides_no_other(rows, tmp_path):
    """Who merges it reports it."""
    filed(tmp_path / "history", block(0, ("u", 1)))
    filed(tmp_path / "history", block(1, ("u", 2)))
    last = max((tmp_path / "history").rglob("*.parquet"))
    last.write_bytes(b"PAR1")
    assert ids(rows.of("u", 2, 10)) == ["e-1"]


def test_nothing_loads_pandas(tmp_path):
    """Half a second, and 30 MiB."""
    filed(tmp_path / "history", block(0, ("u", 1)))
    code = (
        "import sys; from pathlib import Path; from distributary.history.newest import NewestRows;"
        f"found = NewestRows([Path({str(tmp_path / 'history')!r})], lambda _: []).of('u', 1, 5);"
        "assert [each.id for each in found.items] == ['e-1']; assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
