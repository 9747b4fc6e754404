"""What a journal keeps, and what looking for it costs, when something stands still for long."""

import errno
import os
from pathlib import Path

import pytest

from distributary.core import journal as journal_module
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import Journal, read_journal


@pytest.fixture
def _small(monkeypatch):
    """Journals are rewritten from 4 KiB on."""
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 4096)


@pytest.mark.usefixtures("_small")
def test_one_backfilled_route_does_not_keep_the_outcomes_of_all_others(tmp_path):
    """A route that is backfilled for hours is asked about its own matches alone."""
    journal = Journal(tmp_path / "journal")
    own = DoneKey(3, 0, "lagging")
    journal.record(Mark(0, 0), [(own, 1)], {"lagging": 2})
    for offset in range(1, 3000):
        done = [(DoneKey(offset, 0, "live"), 1)]
        journal.record(Mark(offset, 1), done, {"lagging": 2})
    assert own in journal.state.done
    assert len(journal.state.done) < 200
    journal.close()
    state, _ = read_journal(tmp_path / "journal")
    assert own in state.done


@pytest.mark.usefixtures("_small")
def test_matches_that_are_all_needed_are_not_looked_through_at_every_frame(tmp_path, monkeypatch):
    """A stuck match keeps the cursor; the cost of each frame must not grow with what is kept."""
    looks = []
    needed = journal_module._needed

    def counted(done, *others):
        looks.append(len(done))
        return needed(done, *others)

    monkeypatch.setattr(journal_module, "_needed", counted)
    journal = Journal(tmp_path / "journal")
    for offset in range(1, 3000):
        journal.record(Mark(0, 0), [(DoneKey(offset, 0, "live"), 1)], {})
    assert len(journal.state.done) == 2999
    assert 0 < len(looks) < 12
    journal.close()


def test_a_rewritten_journal_keeps_frames_short(tmp_path, monkeypatch):
    """One frame of everything might be longer than what a reader takes for a frame."""
    monkeypatch.setattr(journal_module, "FRAME_MATCHES_MAX", 10)
    journal = Journal(tmp_path / "journal")
    done = [(DoneKey(offset, 0, "live"), offset) for offset in range(5, 100)]
    journal.record(Mark(5, 4), done)
    journal.restart_at(journal.state)
    journal.close()
    state, _ = read_journal(tmp_path / "journal")
    assert state.mark == Mark(5, 4)
    assert state.done == dict(done)


@pytest.mark.usefixtures("_small")
def test_rows_of_the_history_outlive_a_rewrite_until_files_hold_them(tmp_path):
    """However often the journal is rewritten; then they cost nothing any more."""
    path = tmp_path / "journal"
    journal = Journal(path)
    for number in range(200):
        filed = 3 * max(0, number - 99)
        journal.record(Mark(number, 1), (), {}, history=(3, bytes(100)), filed=filed)
    journal.close()
    state, length = read_journal(path)
    assert [block.first for block in state.blocks] == list(range(300, 600, 3))
    assert (state.filed, state.history_end) == (300, 600)
    journal = Journal(path)
    journal.record(Mark(200, 1), (), filed=600)
    journal.restart_at(journal.state)
    journal.close()
    state, shorter = read_journal(path)
    assert (state.blocks, state.filed, state.history_end) == ([], 600, 600)
    assert shorter < length


@pytest.mark.usefixtures("_small")
def test_rows_that_wait_are_not_rewritten_at_every_frame(tmp_path, monkeypatch):
    """No file can be written for a while: the cost of each frame must not grow with what waits."""
    rewrites = []
    restart_at = Journal.restart_at
    monkeypatch.setattr(
        Journal, "restart_at", lambda self, state: rewrites.append(1) or restart_at(self, state)
    )
    journal = Journal(tmp_path / "journal")
    for number in range(1000):
        journal.record(Mark(number, 1), (), {}, history=(1, bytes(100)))
    assert len(rewrites) < 12
    assert len(journal.state.blocks) == 1000
    journal.close()


@pytest.mark.usefixtures("_small")
def test_a_rewriting_that_fails_leaves_no_file_open(tmp_path):
    """Disks stay full for hours, and each owner tries."""

    class Full:
        def write(self, fd, content):
            if Path(f"/proc/self/fd/{fd}").readlink().suffix == ".new":
                raise OSError(errno.ENOSPC, "No space left on device")
            return os.write(fd, content)

        def fdatasync(self, _fd):
            """Nothing is lost here."""

    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir()))
    for _ in range(3):
        journal = Journal(tmp_path / "journal", Full())
        with pytest.raises(StoreError, match="No space left"):
            _fill(journal)
        journal.close()
    assert len(list(open_files.iterdir())) == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_without_space_for_outcomes_no_owner_begins(tmp_path, monkeypatch, code):
    """It would send what the owner before has sent, and the next one again."""
    journal = Journal(tmp_path / "journal")
    journal.record(Mark(5, 1), [], {})
    journal.close()

    def full(*_file):
        raise OSError(code, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(StoreError, match="cannot open"):
            Journal(tmp_path / "journal")
    assert read_journal(tmp_path / "journal")[0].mark == Mark(5, 1)


def test_a_medium_that_reserves_nothing_is_used_as_it_is(tmp_path, monkeypatch):
    """Not every file system can."""

    def unable(*_file):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", unable)
    journal = Journal(tmp_path / "journal")
    journal.record(Mark(5, 1), [], {})
    journal.close()
    assert read_journal(tmp_path / "journal")[0].mark == Mark(5, 1)


def _fill(journal):
    for offset in range(1, 3000):
        journal.record(Mark(offset, 1), [], {})
