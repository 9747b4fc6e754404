"""After a backup, a restore or a move no power cut takes away what was said to be done."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from distributary.core import files
from distributary.datadir import DataDir
from distributary.server.backup import _back_up as backing_up
from distributary.server.backup import _manifest as manifests
from distributary.server.backup import _restore as restoring
from distributary.server.backup import back_up, restore
from distributary.server.migrate import _run
from kit.tarballs import unpack

EARLIER = Path(__file__).parents[3] / "directories" / "state-4.tar.xz"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders whose names were made durable."""
    found: list[Path] = []
    for module in (files, manifests, backing_up, restoring):
        monkeypatch.setattr(module, "sync_folder", found.append)
    return found


def test_every_folder_of_a_backup_and_of_what_is_restored_is_synced(
    tmp_path: Path, synced: list[Path]
) -> None:
    """Those between files and the folder that was named too, and the one that has its name."""
    unpack(EARLIER, tmp_path)
    back_up(tmp_path / "data", tmp_path / "b")
    restore(tmp_path / "b", tmp_path / "new" / "data")
    made = [tmp_path, tmp_path / "new"]
    for root in (tmp_path / "b", tmp_path / "new" / "data"):
        made += [root, *(path for path in root.rglob("*") if path.is_dir())]
    assert {*made} <= {*synced}


def test_a_directory_whose_content_has_moved_stays_marked(
    tmp_path: Path, synced: list[Path]
) -> None:
    """A service manager may start its server after the power cut."""
    source = SimpleNamespace(paths=DataDir(tmp_path), identity="x")
    log = SimpleNamespace(servers=["kafka:9092"], prefix="p")
    _run._mark(source, SimpleNamespace(log=log, store=SimpleNamespace(url="postgresql://db/d")))
    assert DataDir(tmp_path).migrated.exists()
    assert synced == [tmp_path]
