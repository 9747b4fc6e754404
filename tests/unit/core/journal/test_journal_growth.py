"""What a journal keeps, and what looking for it costs, when something stands still for long."""

import pytest

from distributary.core import journal as journal_module
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
        journal.record(Mark(0, 0), [(DoneKey(offset, 0, "live"), 1)])
    assert len(journal.state.done) == 2999
    assert len(looks) < 12
    journal.close()


def test_a_rewritten_journal_keeps_frames_short(tmp_path, monkeypatch):
    """One frame of everything might be longer than what a reader takes for a frame."""
    monkeypatch.setattr(journal_module, "_FRAME_MATCHES_MAX", 10)
    journal = Journal(tmp_path / "journal")
    done = [(DoneKey(offset, 0, "live"), offset) for offset in range(5, 100)]
    journal.record(Mark(5, 4), done)
    journal.restart_at(journal.state)
    journal.close()
    state, _ = read_journal(tmp_path / "journal")
    assert state.mark == Mark(5, 4)
    assert state.done == dict(done)
