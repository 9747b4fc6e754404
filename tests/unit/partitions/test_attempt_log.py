"""The attempt log: one line for each attempt."""

import json
import os

from msgspec.structs import replace

from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.flow import Attempt
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict
from distributary.partitions import attempt_log as _attempt_log
from distributary.partitions.attempt_log import AttemptLog

SINK = "http://sink.example/"
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t", "x": 5}, b"data")
RETRY = Verdict(Decision.RETRY, "status-503", 0.25)


def lines(path):
    """What the log says."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_attempt_is_one_line(tmp_path, make_task):
    """With what identifies it and what came of it."""
    log = AttemptLog(tmp_path / "logs" / "attempts.jsonl")
    task = replace(make_task(7, 2), attempt=3)
    log.line(Attempt(task, Reply(503, None, None, b""), 0.0123456789), RETRY, 99)
    log.close()
    (line,) = lines(tmp_path / "logs" / "attempts.jsonl")
    assert line == {
        "t": 99,
        "event": "attempt",
        "partition": 0,
        "offset": 7,
        "index": 2,
        "route": "r",
        "leg": "event",
        "attempt": 3,
        "verdict": "retry",
        "duration_s": 0.012346,
        "status": 503,
        "reason": "status-503",
        "wait_s": 0.25,
        "id": "7",
        "source": "/s",
        "type": "t",
    }


def test_an_attempt_without_an_answer_has_no_status(tmp_path, make_task):
    """Nothing is invented here either."""
    log = AttemptLog(tmp_path / "a")
    log.line(Attempt(make_task(), TransportError("reset", "cut"), 0.0), RETRY, 1)
    log.close()
    assert "status" not in lines(tmp_path / "a")[0]


def test_hostile_values_stay_one_short_line(tmp_path, make_task):
    """Line breaks are escaped, long values cut."""
    log = AttemptLog(tmp_path / "a")
    task = make_task(id="x\r\n" * 1000, type="\x1b[31m")
    log.line(Attempt(task, Reply(204, None, None, b""), 0.0), DELIVERED, 1)
    log.close()
    (line,) = lines(tmp_path / "a")
    assert len(line["id"]) == _attempt_log.VALUE_CHARS_MAX
    assert len((tmp_path / "a").read_bytes().splitlines()) == 1


def test_failures_only_leaves_out_what_went_well_at_once(tmp_path, make_task):
    """A delivery that needed a retry is told."""
    log = AttemptLog(tmp_path / "a", failures_only=True)
    ok = Reply(204, None, None, b"")
    again = replace(make_task(2), attempt=2)
    log.line(Attempt(make_task(1), ok, 0.0), DELIVERED, 1)
    log.line(Attempt(again, ok, 0.0), DELIVERED, 1)
    log.line(Attempt(make_task(3), Reply(503, None, None, b""), 0.0), RETRY, 1)
    log.close()
    assert [line["offset"] for line in lines(tmp_path / "a")] == [2, 3]


def test_a_large_log_is_turned_over_and_one_old_one_kept(tmp_path, make_task, monkeypatch):
    """Its size is bounded; nothing is lost at the turn."""
    monkeypatch.setattr(_attempt_log, "FILE_BYTES_MAX", 1000)
    path = tmp_path / "a.jsonl"
    log = AttemptLog(path)
    for offset in range(40):
        log.line(Attempt(make_task(offset), Reply(204, None, None, b""), 0.0), DELIVERED, 1)
        log.flush()
    log.close()
    told = [line["offset"] for line in lines(path.with_suffix(".old")) + lines(path)]
    assert told == list(range(told[0], 40))
    assert 0 < len(path.read_bytes()) <= 1300
    assert len(path.with_suffix(".old").read_bytes()) <= 1300


def test_a_log_goes_on_where_the_last_owner_ended(tmp_path, make_task):
    """Appended, not begun anew."""
    for offset in range(2):
        log = AttemptLog(tmp_path / "a")
        log.line(Attempt(make_task(offset), Reply(204, None, None, b""), 0.0), DELIVERED, 1)
        log.close()
    assert [line["offset"] for line in lines(tmp_path / "a")] == [0, 1]


def test_a_log_that_is_not_wanted_writes_nothing(tmp_path, make_task):
    """And costs nothing."""
    log = AttemptLog(None)
    log.line(Attempt(make_task(), Reply(204, None, None, b""), 0.0), DELIVERED, 1)
    log.flush()
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, make_task):
    """A full disk: attempts matter more than their log."""
    log = AttemptLog(tmp_path / "a")
    read_only = os.open(tmp_path / "a", os.O_RDONLY)
    os.dup2(read_only, log._fd)
    os.close(read_only)
    log.line(Attempt(make_task(), Reply(204, None, None, b""), 0.0), DELIVERED, 1)
    log.close()
    assert (tmp_path / "a").read_bytes() == b""
