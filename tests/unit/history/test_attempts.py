"""The rows of one event: from files, merged or not, and from the journal, each once."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.core.event import Event
from distributary.core.flow import Attempt, Mark, Origin, Position, Stage, Task
from distributary.core.journal import Journal
from distributary.core.journal_blocks import read_blocks
from distributary.core.journal_frames import HistoryBlock
from distributary.core.policy import Decision, Reply, Verdict
from distributary.history.attempts import EventRows
from distributary.history.columns import SCHEMA
from distributary.history.merge import merge
from distributary.history.names import HistoryFile
from distributary.history.rows import Recorder, RouteNames
from distributary.history.writer import HistoryWriter

NOON_MS = 1_795_348_800_000
"""2026-11-22, 12:00 UTC."""
RETRY = Verdict(Decision.RETRY, "status-503", 0.25)


def block(first, *offsets, now_ms=NOON_MS, index=0, body=b""):
    """A block with an attempt for each of *offsets*."""
    recorder = Recorder(0, {"u": RouteNames("shop", "orders", 4)}.get)
    for offset in offsets:
        event = Event({"specversion": "1.0", "id": "e", "source": "/s", "type": "t"}, b"")
        place = Position(0, offset, index)
        task = Task(place, 1, "u", event, Stage.PRIMARY, 1, 0, Origin.LIVE)
        recorder.attempted(Attempt(task, Reply(503, None, None, body), 0.25), RETRY, now_ms)
    count, rows = recorder.take()
    return HistoryBlock(first, count, rows)


@pytest.fixture
def folder(tmp_path):
    """Of the history."""
    return tmp_path / "history"


@pytest.fixture
def rows(tmp_path, folder):
    """Of a history and an outbox, and of a journal."""
    return EventRows(
        [folder, tmp_path / "outbox"], lambda _partition: read_blocks(tmp_path / "journal")
    )


def filed(folder, *blocks):
    """Publish *blocks* as one file."""
    writer = HistoryWriter(folder, 0)
    files = writer.write(blocks)
    writer.publish(files)
    return files


def numbers(rows, offset, since_ms=NOON_MS, index=0):
    """Numbers of the rows of an event."""
    return [row.number for row in rows.rows(Position(0, offset, index), since_ms)]


def test_rows_are_found_in_any_file_of_either_folder(rows, folder, tmp_path):
    """By offset and index, in their order."""
    filed(folder, block(10, 5, 6))
    filed(tmp_path / "outbox", block(12, 6, 5))
    filed(folder, block(14, 5, index=1))
    assert numbers(rows, 5) == [10, 13]
    assert numbers(rows, 6) == [11, 12]
    assert numbers(rows, 5, index=1) == [14]
    assert numbers(rows, 7) == []


def test_a_file_that_was_merged_counts_once(rows, folder):
    """While its parts are still there, and when they are gone."""
    parts = [*filed(folder, block(10, 5)), *filed(folder, block(11, 5, 6))]
    assert numbers(rows, 5) == [10, 11]
    whole = HistoryFile(parts[0].date, 0, 10, 13)
    assert merge([folder / part.path for part in parts], folder / whole.path) == []
    assert numbers(rows, 5) == [10, 11]
    for part in parts:
        (folder / part.path).unlink()
    assert numbers(rows, 5) == [10, 11]


def test_rows_of_files_that_were_looked_at_before_the_question(rows, folder):
    """Of a folder that is not there nothing is known, and of a damaged file nothing."""
    (file,) = filed(folder, block(10, 5))
    (folder / HistoryFile(file.date, 0, 20, 21).path).write_bytes(b"no Parquet")
    rows.prepare()
    (folder / file.path).with_name("kept").write_bytes((folder / file.path).read_bytes())
    (folder / file.path).unlink()
    assert numbers(rows, 5) == []
    (folder / file.path).with_name("kept").rename(folder / file.path)
    filed(folder, block(11, 5))
    assert numbers(rows, 5) == [10, 11]


LOOK = """
import sys
from pathlib import Path
from distributary.core.flow import Position
from distributary.history.attempts import EventRows
rows = EventRows([Path(sys.argv[1])], lambda _partition: [])
rows.prepare()
loaded = set(sys.modules)
assert [row.number for row in rows.rows(Position(0, 5, 0), 0)] == [10]
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - loaded}))
"""


def test_the_first_question_loads_nothing_more(folder):
    """Arrow loads pandas for a Python number or a time with its zone: half a second."""
    filed(folder, block(10, 5, 6))
    command = [sys.executable, "-c", LOOK, str(folder)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"


def test_rows_of_the_journal_are_told_before_a_file_has_them(rows, folder, tmp_path):
    """And once where both have them."""
    journal = Journal(tmp_path / "journal", rows_from=10)
    one = block(10, 5, body=b"busy")
    journal.record(Mark(1, 0), (), history=(one.length, one.rows), filed=10)
    journal.record(Mark(2, 0), (), filed=10)
    journal.close()
    found = rows.rows(Position(0, 5, 0), NOON_MS)
    assert [(row.answer, row.status, row.subscription) for row in found] == [
        ("busy", 503, "orders")
    ]
    filed(folder, HistoryBlock(found[0].number, one.length, one.rows))
    again = rows.rows(Position(0, 5, 0), NOON_MS)
    assert again == found


def test_files_of_earlier_versions_have_no_answers(rows, folder):
    """Nor is a damaged file in the way of the others."""
    (file,) = filed(folder, block(10, 5, body=b"busy"))
    path = folder / file.path
    names = [name for name in SCHEMA.names if name != "answer"]
    pq.write_table(pq.read_table(path, partitioning=None).select(names), path)
    (folder / HistoryFile(file.date, 0, 20, 21).path).write_bytes(b"no Parquet")
    (row,) = rows.rows(Position(0, 5, 0), NOON_MS)
    assert (row.number, row.answer) == (10, None)


def test_days_before_the_event_are_not_opened(rows, folder):
    """No row is older than its event."""
    filed(folder, block(10, 5, now_ms=NOON_MS))
    assert numbers(rows, 5, since_ms=NOON_MS + 86_400_000) == []


def test_rows_that_are_older_than_the_event_are_of_another_one(rows, folder):
    """A log that was restored uses positions again: what a lost event met is nobody's now."""
    filed(folder, block(10, 5, now_ms=NOON_MS), block(11, 5, now_ms=NOON_MS + 3_600_000))
    assert numbers(rows, 5, since_ms=NOON_MS + 3_600_000) == [11]
    assert numbers(rows, 5, since_ms=NOON_MS + 1_000) == [10, 11]  # clocks differ


def test_long_answers_are_cut_and_bytes_that_are_no_text_are_marked(folder, rows):
    """At most 1,024 bytes, as in a dead letter."""
    filed(folder, block(10, 5, body=b"\xff" + b"x" * 5000))
    (row,) = rows.rows(Position(0, 5, 0), NOON_MS)
    assert row.answer == "\N{REPLACEMENT CHARACTER}" + "x" * 1023
    assert pa.string() == SCHEMA.field("answer").type
