"""Dead letters, the board, the attempt log, the owner's lock."""

import base64
import json
import os

import pytest

from distributary.errors import LogLockedError, TransportError
from distributary.event import Event
from distributary.flow import Attempt
from distributary.outcome import Failure
from distributary.pipeline import AttemptLog, Board, OwnerLock, Phase, Word, _attempt_log
from distributary.pipeline._dead_letter import dead_letter_event, failure_of
from distributary.policy import DELIVERED, Decision, Reply, Verdict

SINK = "http://sink.example/"
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t", "x": 5}, b"data")
RETRY = Verdict(Decision.RETRY, "status-503", 0.25)

# -- dead letters (decision 16) -----------------------------------------------------------------


def test_a_failure_tells_the_answer_that_came():
    """Destination, code and body."""
    found = failure_of(Reply(503, None, None, b"busy"), "status-503", SINK)
    assert found == Failure("status-503", SINK, 503, base64.b64encode(b"busy").decode())


@pytest.mark.parametrize("size", [1023, 1024, 1025, 9999])
def test_the_body_is_cut_before_it_is_encoded(size):
    """At most 1,024 bytes of it."""
    found = failure_of(Reply(500, None, None, b"x" * size), "status-500", SINK)
    assert len(base64.b64decode(found.data)) == min(size, 1024)


def test_no_answer_has_no_code():
    """A status is never invented (decision 13)."""
    found = failure_of(TransportError("refused", "Nobody listens"), "attempts-used-up", SINK)
    assert (found.code, found.data) == (None, None)
    assert found.reason == "attempts-used-up: refused: Nobody listens"


def test_a_dead_letter_is_the_event_with_its_error():
    """Nothing else of it changes, and the event itself does not change at all."""
    letter = dead_letter_event(EVENT, Failure("r", SINK, 503, "YQ=="))
    extra = {"knativeerrordest": SINK, "knativeerrorcode": 503, "knativeerrordata": "YQ=="}
    assert letter == Event(EVENT.attributes | extra, b"data")
    assert "knativeerrordest" not in EVENT.attributes


def test_a_dead_letter_forgets_an_earlier_failure():
    """Code and data of another destination would be read as this one's."""
    earlier = dead_letter_event(EVENT, Failure("r", "http://other.example/", 503, "YQ=="))
    letter = dead_letter_event(earlier, Failure("r", SINK))
    assert letter.attributes == EVENT.attributes | {"knativeerrordest": SINK}


# -- the board ----------------------------------------------------------------------------------


def test_a_dead_letter_names_its_sink_without_the_query():
    """Queries hold tokens, and the letter goes to another party; rows of before had them."""
    whole = SINK + "?access_token=canary#canary"
    assert failure_of(Reply(403, None, None, b""), "status-403", whole).dest == SINK
    letter = dead_letter_event(EVENT, Failure("r", whole, 403))
    assert letter.attributes["knativeerrordest"] == SINK


def test_a_board_is_seen_by_everybody_who_opens_it(tmp_path):
    """Two processes, one page."""
    path = tmp_path / "run" / "p0000.board"
    one, other = Board(path), Board(path)
    one[Word.WATERMARK] = 2**63
    other[Word.PHASE] = Phase.DRAINING
    assert other[Word.WATERMARK] == 2**63
    assert Phase(one[Word.PHASE]) is Phase.DRAINING
    one.close()
    other.close()


def test_a_new_board_is_all_zero_and_an_old_one_keeps_its_numbers(tmp_path):
    """What the last owner wrote stands until the next one writes."""
    board = Board(tmp_path / "board")
    assert {board[word] for word in Word} == {0}
    board[Word.KEEP_FROM] = 7
    board.close()
    again = Board(tmp_path / "board")
    assert again[Word.KEEP_FROM] == 7
    again.close()


def test_every_word_has_a_place_of_its_own():
    """And lies on the page."""
    assert len({int(word) for word in Word}) == len(Word.__members__)
    assert max(Word) < 64


# -- the attempt log ----------------------------------------------------------------------------


def lines(path):
    """What the log says."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_attempt_is_one_line(tmp_path, make_task):
    """With what identifies it and what came of it."""
    log = AttemptLog(tmp_path / "logs" / "attempts.jsonl")
    task = make_task(7, 2)
    task.attempt = 3
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
    """Line breaks are escaped, long values cut (RELIABILITY H17)."""
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
    again = make_task(2)
    again.attempt = 2
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


# -- the lock -----------------------------------------------------------------------------------


def test_a_free_lock_is_taken_without_waiting(tmp_path, clock):
    """Its folder is made."""
    lock = OwnerLock(tmp_path / "p0000" / "OWNER", 1.0, clock, pytest.fail)
    assert int((tmp_path / "p0000" / "OWNER").read_text()) == os.getpid()
    lock.release()


def test_a_lock_that_stays_held_names_its_holder(tmp_path, clock):
    """So that a person can look at that process."""
    first = OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    with pytest.raises(LogLockedError, match=f"process {os.getpid()} owns"):
        OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    first.release()
    OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail).release()


def test_the_name_of_an_earlier_holder_does_not_shine_through(tmp_path, clock):
    """A longer number was there before."""
    (tmp_path / "OWNER").write_text("123456789123456789")
    lock = OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    assert (tmp_path / "OWNER").read_text() == str(os.getpid())
    lock.release()
