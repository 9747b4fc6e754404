"""What two files remember of one partition, where the power goes between them."""

from contextlib import closing, contextmanager

import pytest

from distributary.core import journal as journal_module
from distributary.core.database import sqlite_url
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import Journal
from distributary.core.journal_frames import decode_frames
from distributary.core.outcome import (
    BackfillRow,
    Batch,
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    FileOwnership,
)
from distributary.core.outcome import _ownership as ownership_module
from distributary.partitions._history import finish

LAGGING = "lagging"
OWN = [(DoneKey(offset, 0, LAGGING), offset) for offset in range(2, 12)]
"""Outcomes of a backfill, which began at record 1 and has not passed them by its durable row."""
LIVE = Mark(1_000, 7)


class NoFiles:
    """Files of the history that nobody reads."""

    def write(self, blocks):
        """Take rows that are none."""
        assert blocks

    def publish(self, files):
        """Show nothing."""

    def recover(self, filed):
        """There is nothing."""


class Places:
    """Stops a flush before the store changes, once armed."""

    def __init__(self):
        self.armed = False

    def fence(self):
        """The store is about to write."""
        if self.armed:
            raise StoreError("the power goes")


@contextmanager
def owned(folder, places):
    """The partition, by its two files."""
    url = sqlite_url(folder / "delivery.db")
    with (
        closing(DeliveryStore(url, 0, fence=places.fence)) as store,
        closing(Journal(folder / "journal")) as journal,
    ):
        yield FileOwnership(store, journal)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A partition with a backfill far behind, and a journal that is about to be made anew."""
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 4_096)
    places = Places()
    row = BackfillRow(LAGGING, 1, 0, 1, None, b"its record")
    with owned(tmp_path, places) as ownership:
        backfills = Changes(backfills={row.name: row})
        ownership.flush(Batch(LIVE, OWN, backfills, {LAGGING: 1}, (1, bytes(3_000))))
    return places


def test_no_outcome_is_forgotten_before_the_row_of_its_backfill_has_moved(tmp_path, places):
    """A backfill ends in a flush that makes the journal anew, and that the store does not take."""
    gone = Changes(backfills={(LAGGING, 1): None})
    last = Batch(LIVE, [], gone, {}, (1, bytes(1_500)), filed=1)
    with owned(tmp_path, places) as ownership:
        ownership.flush(Batch(LIVE, backfilling={LAGGING: 1}, filed=1))
        places.armed = True
        with pytest.raises(StoreError, match="power"):
            ownership.flush(last)
    places.armed = False
    with owned(tmp_path, places) as ownership:
        assert [row.route for row in ownership.store.backfills()] == [LAGGING]
        assert ownership.state.done == dict(OWN)


def test_an_orderly_end_forgets_no_outcome_of_a_backfill(tmp_path, places, monkeypatch):
    """Whoever files the last rows of the history does not know what backfills need."""
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 2_048)
    with owned(tmp_path, places) as ownership:
        assert ownership.state.blocks
        finish(ownership, NoFiles(), lambda work: work())
    with owned(tmp_path, places) as ownership:
        assert (ownership.state.blocks, ownership.state.done) == ([], dict(OWN))


def test_kept_dead_letters_without_a_journal_are_outcomes_in_frames_of_a_size(
    tmp_path, places, monkeypatch
):
    """A frame that is too long would be damage to the next owner."""
    monkeypatch.setattr(ownership_module, "FRAME_MATCHES_MAX", 100)
    failure = Failure("status-400", "http://sink.example/")
    letters = [DeadLetter(DoneKey(n, 0, "r"), n, failure, b"\x01event", 1) for n in range(250)]
    with owned(tmp_path, places) as ownership:
        ownership.flush(Batch(LIVE, changes=Changes(dead_letters=letters)))
    (tmp_path / "journal").unlink()
    for _ in range(2):
        with owned(tmp_path, places) as ownership:
            assert ownership.state.done == {letter.key: letter.checksum for letter in letters}
    frames = list(decode_frames((tmp_path / "journal").read_bytes()))
    assert [len(frame.done) for frame in frames] == [100, 100, 50]
