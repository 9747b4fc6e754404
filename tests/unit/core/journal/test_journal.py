"""The outcome journal: frames, torn tails, damage, failing media, growing old."""

import os

import pytest

from distributary.core import journal as internals
from distributary.core.errors import FencedError, StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import Journal, JournalState, fit, read_journal
from distributary.core.journal_blocks import read_blocks
from distributary.core.journal_frames import HEADER, HistoryBlock

FIRST, SECOND = Mark(3, 33), Mark(7, 77)
KEYS = [(DoneKey(5, 0, "r"), 55), (DoneKey(6, 1, "r"), 66)]


class FailingFiles:
    """The system's calls, of which one fails on request; writes are short on request."""

    def __init__(self):
        self.sync_fails = False
        self.write_fails = False
        self.bytes_max = None

    def write(self, fd, payload):
        if self.write_fails:
            raise OSError("no room")
        return os.write(fd, payload[: self.bytes_max])

    def fdatasync(self, fd):
        if self.sync_fails:
            raise OSError("the medium failed")
        os.fdatasync(fd)


class CachedFiles:
    """A page cache over a medium: a failed sync loses the pages, which read back all the same."""

    def __init__(self):
        self.sync_fails = False
        self.medium = bytearray()
        self._dirty = []

    def write(self, fd, payload):
        position = os.lseek(fd, 0, os.SEEK_CUR)
        self._dirty.append((position, bytes(payload)))
        return os.write(fd, payload)

    def fdatasync(self, _fd):
        dirty, self._dirty = self._dirty, []
        if self.sync_fails:
            raise OSError("the medium failed")
        for position, content in dirty:
            end = position + len(content)
            self.medium += bytes(max(end - len(self.medium), 0))
            self.medium[position:end] = content

    def cut_power(self, path):
        """Only the medium stays."""
        path.write_bytes(self.medium)


@pytest.fixture
def path(tmp_path):
    """Where the journal lies: in a folder that does not exist yet."""
    return tmp_path / "outcome" / "journal"


@pytest.fixture
def frames(path):
    """The bytes of two frames, and where the first ends."""
    journal = Journal(path)
    journal.record(FIRST, KEYS[:1])
    _, first = read_journal(path)
    journal.record(SECOND, KEYS[1:])
    _, second = read_journal(path)
    journal.close()
    return path.read_bytes()[:second], first


def test_a_frame_whose_sync_failed_is_written_again_before_it_is_believed(path):
    """The next owner finds it in the page cache: what it writes behind it must not be lost."""
    files = CachedFiles()
    journal = Journal(path, files)
    journal.record(FIRST, KEYS[:1])
    files.sync_fails = True
    with pytest.raises(StoreError):
        journal.record(SECOND, KEYS[1:])
    journal.close()
    with pytest.raises(StoreError, match="cannot open"):
        Journal(path, files)
    files.sync_fails = False
    journal = Journal(path, files)
    assert journal.state.mark == SECOND
    journal.record(Mark(9, 99), [])
    journal.close()
    files.cut_power(path)
    state, _ = read_journal(path)
    assert state.marks == [FIRST, SECOND, Mark(9, 99)]
    assert state.done == dict(KEYS)


def test_a_missing_journal_is_an_empty_one(path):
    """A partition that nobody has delivered yet begins at 0."""
    state, length = read_journal(path)
    assert (state, length, state.mark) == (JournalState(), 0, Mark(0, 0))


def test_a_journal_gives_back_what_was_recorded(path):
    """Cursors in their order, and the matches done above them."""
    journal = Journal(path)
    journal.record(FIRST, KEYS[:1])
    journal.record(SECOND, KEYS[1:])
    journal.close()
    state = Journal(path).state
    assert state.marks == [FIRST, SECOND]
    assert state.mark == SECOND
    assert state.done == dict(KEYS)


def test_recording_the_same_again_changes_nothing(path):
    """A flush that is made twice says the same."""
    journal = Journal(path)
    journal.record(FIRST, KEYS)
    journal.record(FIRST, KEYS)
    journal.close()
    state, _ = read_journal(path)
    assert (state.mark, state.done) == (FIRST, dict(KEYS))
    assert journal.state.marks == [FIRST]


def test_short_writes_are_completed(path):
    """A medium that takes a few bytes at a time gets whole frames all the same."""
    files = FailingFiles()
    files.bytes_max = 3
    journal = Journal(path, files)
    journal.record(FIRST, KEYS)
    journal.close()
    assert read_journal(path)[0].done == dict(KEYS)


def test_a_tail_torn_at_any_byte_leaves_the_frames_before_it(path, frames):
    """However much of the second frame reached the medium, the first one counts."""
    content, first = frames
    for length in range(first, len(content)):
        path.write_bytes(content[:length])
        state, kept = read_journal(path)
        assert (state.marks, state.done, kept) == ([FIRST], dict(KEYS[:1]), first)


def test_what_is_recorded_after_a_torn_tail_is_read(path, frames):
    """The torn bytes are cut off, so that the next frame does not stand behind damage."""
    content, first = frames
    path.write_bytes(content[: first + 7])
    journal = Journal(path)
    journal.record(SECOND, [])
    journal.close()
    assert read_journal(path)[0].marks == [FIRST, SECOND]


def test_a_flipped_bit_is_never_taken_for_an_outcome(path, frames):
    """What the journal says is true or not said.

    The frame behind the damaged one counts where that one tells its length.
    """
    content, first = frames
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << (at % 8)
        path.write_bytes(damaged)
        state, _ = read_journal(path)
        behind = [SECOND] if at >= HEADER.size - 4 else []
        assert state.marks == (behind if at < first else [FIRST])
        assert state.done.items() <= dict(KEYS).items()


@pytest.mark.parametrize("kind", ["sync_fails", "write_fails"])
def test_after_a_failure_the_journal_is_dead_for_good(path, kind):
    """A failed fsync is never tried again on the same file (promise 1)."""
    files = FailingFiles()
    journal = Journal(path, files)
    journal.record(FIRST, [])
    setattr(files, kind, True)
    with pytest.raises(StoreError, match="cannot be written"):
        journal.record(SECOND, [])
    setattr(files, kind, False)
    with pytest.raises(StoreError, match="failed before"):
        journal.record(SECOND, [])


def test_a_closed_journal_takes_nothing(path):
    """What comes after the end of an owner is an error, not a lost outcome."""
    journal = Journal(path)
    journal.close()
    with pytest.raises(StoreError):
        journal.record(FIRST, [])


def test_a_journal_that_cannot_be_opened_is_a_store_error(tmp_path):
    """A folder stands where the file should: the caller learns it as a StoreError."""
    (tmp_path / "journal").mkdir()
    with pytest.raises(StoreError):
        Journal(tmp_path / "journal")


def test_restarting_replaces_what_the_journal_says(path):
    """The new state is what the next owner reads."""
    journal = Journal(path)
    journal.record(SECOND, KEYS)
    journal.restart_at(JournalState([FIRST], dict(KEYS[:1])))
    journal.record(FIRST, KEYS[1:])
    journal.close()
    state, _ = read_journal(path)
    assert (state.marks, state.done) == ([FIRST, FIRST], dict(KEYS))


def test_a_restart_that_fails_leaves_the_old_journal(path):
    """Written beside and renamed: a crash in between loses nothing."""
    files = FailingFiles()
    journal = Journal(path, files)
    journal.record(SECOND, KEYS)
    files.sync_fails = True
    with pytest.raises(StoreError):
        journal.restart_at(JournalState([FIRST], {}))
    assert read_journal(path)[0].marks == [SECOND]


def test_restarting_at_nothing_begins_anew(path):
    """Where no cursor fits the log any more, the log is read from its start."""
    journal = Journal(path)
    journal.record(SECOND, KEYS)
    journal.restart_at(JournalState([], {}))
    journal.close()
    assert read_journal(path)[0].mark == Mark(0, 0)


def test_a_journal_that_has_grown_is_rewritten_without_what_nobody_needs(path, monkeypatch):
    """Matches below the cursor are forgotten, cursors and the others are kept."""
    monkeypatch.setattr(internals, "COMPACT_BYTES", 4096)
    journal = Journal(path)
    for offset in range(400):
        done = [(DoneKey(offset, 0, "r"), offset)]
        journal.record(Mark(max(0, offset - 5), offset), done, {})
    journal.close()
    state, length = read_journal(path)
    assert length < 3 * 4096
    assert state.mark == Mark(394, 399)
    assert {key.offset for key in state.done} >= set(range(394, 400))
    assert state.done.keys() == {DoneKey(o, 0, "r") for o in {k.offset for k in state.done}}


def test_a_rewritten_journal_keeps_what_a_backfill_still_needs(path, monkeypatch):
    """A backfill far behind needs its outcomes, so they outlive every rewriting."""
    monkeypatch.setattr(internals, "COMPACT_BYTES", 4096)
    journal = Journal(path)
    journal.record(Mark(0, 0), [(DoneKey(2, 0, "lagging"), 22)], {"lagging": 1})
    for offset in range(400):
        journal.record(Mark(offset, offset), [], {"lagging": 1})
    journal.close()
    assert read_journal(path)[0].done == {DoneKey(2, 0, "lagging"): 22}


def test_cursors_do_not_grow_for_ever(path):
    """An owner that lives for weeks keeps a bounded number of them in memory."""
    journal = Journal(path)
    for offset in range(internals.MARKS_KEPT * 9):
        journal.record(Mark(offset, 1), [])
    assert len(journal.state.marks) <= internals.MARKS_KEPT * 8
    assert journal.state.mark.offset == internals.MARKS_KEPT * 9 - 1


def test_a_state_that_fits_the_log_stays_as_it_is():
    """The ordinary case costs one look at the log."""
    asked = []
    state = JournalState([FIRST, SECOND], dict(KEYS))
    assert fit(state, lambda mark: not asked.append(mark)) is state
    assert asked == [SECOND]


def test_a_log_that_lost_its_tail_takes_the_cursor_back_to_a_record_that_stands():
    """Rather delivered twice than lost."""
    state = JournalState([FIRST, SECOND, Mark(9, 99)], dict(KEYS))
    back = fit(state, lambda mark: mark.offset <= 3)
    assert (back.marks, back.done) == ([FIRST], dict(KEYS))


def test_a_cursor_behind_a_gap_is_believed():
    """Checksum 0 says that no record is known there: nothing can be compared."""
    state = JournalState([Mark(4, 0)], {})
    assert fit(state, lambda _mark: False) is state


def test_a_log_in_which_no_cursor_stands_is_read_from_its_start():
    """The outcomes stay: each is checked against its own record."""
    back = fit(JournalState([FIRST], dict(KEYS)), lambda _mark: False)
    assert (back.mark, back.done) == (Mark(0, 0), dict(KEYS))


def test_an_empty_state_fits_every_log():
    """There is nothing to go back from."""
    state = JournalState()
    assert fit(state, lambda _mark: False) is state


def test_an_owner_that_lost_its_partition_writes_nothing(path):
    """What the next owner reads is as its predecessor left it."""
    lost = []

    def fenced():
        if lost:
            raise FencedError("another owner has the partition")

    late = Journal(path, fence=fenced)
    late.record(FIRST, KEYS[:1])
    lost.append(True)
    with pytest.raises(FencedError):
        Journal(path, fence=fenced)
    with pytest.raises(FencedError):
        late.record(SECOND, KEYS[1:])
    with pytest.raises(FencedError):
        late.restart_at(JournalState())
    late.close()
    state, _ = read_journal(path)
    assert (state.marks, state.done) == ([FIRST], dict(KEYS[:1]))


def test_going_back_keeps_the_history(path):
    """What it tells of has happened, whatever the log has lost since."""
    journal = Journal(path)
    journal.record(FIRST, KEYS[:1], history=(1, b"one"))
    journal.record(SECOND, (), history=(1, b"two"))
    journal.restart_at(fit(journal.state, lambda mark: mark == FIRST))
    journal.close()
    state, _ = read_journal(path)
    assert state.mark == FIRST
    assert [block.rows for block in state.blocks] == [b"one", b"two"]
    assert state.history_end == 2


def test_a_frame_without_history_is_one_that_earlier_versions_read(frames):
    """Its first bytes tell its form."""
    content, _ = frames
    assert content.count(b"DOJ1") == 2


def test_each_owner_numbers_its_rows_from_where_the_caller_says_at_least(path):
    """By the clock: what a predecessor numbered and the medium has lost is not used again."""
    journal = Journal(path, rows_from=1000)
    assert journal.state.history_end == 1000
    journal.record(FIRST, KEYS[:1])
    journal.close()
    journal = Journal(path, rows_from=2000)
    journal.record(FIRST, (), history=(3, b"rows"))
    journal.close()
    journal = Journal(path, rows_from=500)  # The clock went back: numbers do not.
    assert (journal.state.filed, journal.state.history_end) == (2000, 2003)
    journal.close()
    journal = Journal(path, rows_from=9000)
    assert (journal.state.filed, journal.state.history_end) == (2000, 9000)
    journal.record(FIRST, (), history=(2, b"more"))
    journal.close()
    left = [HistoryBlock(2000, 3, b"rows"), HistoryBlock(9000, 2, b"more")]
    assert (read_journal(path)[0].blocks, read_blocks(path)) == (left, left)
    journal = Journal(path)
    journal.restart_at(journal.state)
    journal.record(FIRST, (), filed=2003)
    journal.record(FIRST, (), filed=9002)
    journal.close()
    assert Journal(path, rows_from=9001).state.history_end == 9002


def test_numbers_of_rows_that_the_medium_has_lost_are_not_used_again(path):
    """Files may have them: the newest frames are gone, and with them where the history ended."""
    journal = Journal(path, rows_from=1000)
    journal.record(FIRST, (), history=(2, b"kept"))
    journal.close()
    _, kept = read_journal(path)
    journal = Journal(path, rows_from=1000)
    journal.record(SECOND, (), history=(50, b"lost"))
    journal.record(SECOND, (), filed=1052)
    journal.close()
    path.write_bytes(path.read_bytes()[:kept])
    journal = Journal(path, rows_from=2000)
    journal.record(SECOND, (), history=(1, b"anew"))
    assert journal.state.blocks == [HistoryBlock(1000, 2, b"kept"), HistoryBlock(2000, 1, b"anew")]
