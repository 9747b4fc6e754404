"""Mover and keeper over local folders, with a crash at every call to the file system."""

import itertools
import os
from collections import Counter

import pytest

from distributary.core.meter import Meter
from distributary.history.keeping import Keeper
from distributary.history.local_folder import LocalFolder
from distributary.history.moving import Mover, Outbox
from distributary.history.names import HistoryFile, superseded
from distributary.history.place import HistorySettings

CALLS = ("link", "fsync", "rename", "unlink", "mkdir", "rmdir")
FILES = [HistoryFile("2026-11-18", 0, first, first + 2) for first in range(0, 8, 2)]


class CrashError(Exception):
    """The process ends here."""


def _rows(*folders):
    """How often a reader that skips superseded names sees each row."""
    found = {
        stored.file: folder.path(stored.file).read_bytes()
        for folder in folders
        for stored in folder.files()
    }
    gone = set(superseded(found))
    return Counter(
        line for file, content in found.items() if file not in gone for line in content.splitlines()
    )


def _pass(world, outbox, folder):
    """What the driver's threads do, at a time when the hour of the files is over."""
    folder.sweep()
    Mover(Outbox(outbox, meter=Meter(), log=world.lines), folder, 1.0, log=world.lines).look()
    keeper = Keeper(
        folder,
        HistorySettings(place="/h"),
        world.merging,
        world.scratch,
        clock=world.clock,
        meter=Meter(),
        log=world.lines,
    )
    keeper.look()


@pytest.mark.parametrize("error", [CrashError, OSError])
def test_no_row_is_lost_or_seen_twice_wherever_it_ends(world, tmp_path, monkeypatch, error):
    """From the outbox to one merged file, ended or failed at each call; then done again."""
    real = {name: getattr(os, name) for name in CALLS}
    for step in itertools.count():
        root = tmp_path / str(step)
        outbox, folder = LocalFolder(root / "outbox"), LocalFolder(root / "history")
        for file in FILES:
            outbox.path(file).parent.mkdir(parents=True, exist_ok=True)
            outbox.path(file).write_bytes(b"%d\n%d\n" % (file.first, file.first + 1))
            os.utime(outbox.path(file), (1_794_900_000,) * 2)
        expected = _rows(outbox)
        calls = itertools.count()
        crashed = []

        def fail(name, *args, calls=calls, crashed=crashed, step=step, **options):
            if next(calls) == step:
                crashed.append(name)
                raise error(name)
            return real[name](*args, **options)

        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, lambda *a, name=name, **o: fail(name, *a, **o))
            try:
                _pass(world, outbox, folder)
            except (CrashError, OSError):
                assert crashed
        assert _rows(outbox, folder) == expected, (step, crashed)
        for _ in range(2):
            _pass(world, outbox, folder)
        assert _rows(outbox, folder) == _rows(folder) == expected, (step, crashed)
        left = [stored.file for stored in folder.files()]
        if error is CrashError:  # otherwise a file may have come after the others' merge
            assert left == [FILES[0]._replace(end=8)], (step, crashed)
        assert [path.name for path in (root / "history").rglob(".*")] == []
        if not crashed:
            break
    assert step > 30
