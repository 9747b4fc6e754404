"""Copies must say all that was delivered: where the outcomes are damaged, none is made."""

from pathlib import Path

import pytest

from distributary.core.flow import Mark
from distributary.core.journal import Journal
from distributary.datadir import DataDir
from distributary.server.backup import BackupError, back_up
from distributary.server.migrate._errors import MigrationError
from distributary.server.migrate._source import Source
from kit.tarballs import unpack

EARLIER = Path(__file__).parents[3] / "directories" / "state-4.tar.xz"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A data directory whose first outcomes the disk has lost."""
    unpack(EARLIER, tmp_path)
    path = DataDir(tmp_path / "data").journal(0)
    path.unlink()
    journal = Journal(path)
    for offset in range(1, 9):
        journal.record(Mark(offset, 0), ())
    journal.close()
    with path.open("r+b") as file:
        file.write(b"x" * 64)
    return tmp_path / "data"


def test_no_backup_is_made(damaged: Path, tmp_path: Path) -> None:
    """A server on it would deliver again what was delivered."""
    with pytest.raises(BackupError, match=r"partition 0: .* damaged from byte 0 .* start it once"):
        back_up(damaged, tmp_path / "b")


def test_nothing_is_moved(damaged: Path) -> None:
    """The new place would have it delivered again; afterwards a server may start on the old one."""
    with pytest.raises(MigrationError, match=r"partition 0: .* damaged .* Start the server here"):
        Source(damaged)
    journal = Journal(DataDir(damaged).journal(0))
    journal.close()
    Source(damaged).close()
