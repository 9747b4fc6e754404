"""What a journal keeps, and what looking for it costs, when something stands still for long."""

import pytest

from distributary.errors import StoreError
from distributary.flow import Leg
from distributary.outcome import (
    Changes,
    DeliveryStore,
    DoneKey,
    Journal,
    Mark,
    RetryRow,
    read_journal,
    sqlite_url,
)
from distributary.outcome import _journal as journal_module


@pytest.fixture
def _small(monkeypatch):
    """Journals are rewritten from 4 KiB on."""
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 4096)


@pytest.mark.usefixtures("_small")
def test_one_lagging_route_does_not_keep_the_outcomes_of_all_others(tmp_path):
    """A route that lags for hours is asked about its own matches alone."""
    journal = Journal(tmp_path / "journal")
    own = DoneKey(3, 0, "lagging")
    journal.record(Mark(0, 0), [(own, 1)], 0, {"lagging": 2})
    for offset in range(1, 3000):
        done = [(DoneKey(offset, 0, "live"), 1)]
        journal.record(Mark(offset, 1), done, 2, {"lagging": 2})
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
        journal.record(Mark(0, 0), [(DoneKey(offset, 0, "live"), 1)], 0)
    assert len(journal.state.done) == 2999
    assert len(looks) < 12
    journal.close()


def test_a_rewritten_journal_keeps_frames_short(tmp_path, monkeypatch):
    """One frame of everything might be longer than what a reader takes for a frame."""
    monkeypatch.setattr(journal_module, "_FRAME_MATCHES_MAX", 10)
    journal = Journal(tmp_path / "journal")
    done = [(DoneKey(offset, 0, "live"), offset) for offset in range(5, 100)]
    journal.record(Mark(5, 4), done, 5)
    journal.restart_at(journal.state)
    journal.close()
    state, _ = read_journal(tmp_path / "journal")
    assert state.mark == Mark(5, 4)
    assert state.done == dict(done)


def test_a_failing_store_says_nothing_of_what_it_holds(tmp_path):
    """Rows hold events and addresses; the message goes into the log."""
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0)
    secret = DoneKey(1, 0, "canary")
    row = RetryRow(secret, 1, Leg.EVENT, 1, 0, None, done=False)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE retry")
    with pytest.raises(StoreError) as refused:
        store.apply(Changes(rows={secret: row}))
    assert "canary" not in str(refused.value)
    assert "no such table" in str(refused.value)
    store.close()


def test_the_store_is_readable_by_its_owner_alone(tmp_path):
    """Dead letters hold whole events."""
    DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0).close()
    assert (tmp_path / "delivery.db").stat().st_mode & 0o077 == 0
