"""Backups of a data directory at rest: what is in them, what is refused, what a restore changes."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from distributary.core.clock import SystemClock
from distributary.core.flow import DoneKey, Mark, RecordKind
from distributary.core.journal import Journal, read_journal
from distributary.core.log import (
    SYSTEM_DISK,
    Appender,
    Reader,
    open_folder,
    partition_dir,
)
from distributary.core.log.copying import files_below
from distributary.datadir import DataDir, holding_retention, unless_held
from distributary.datadir.publishers import PublisherBook, Publishers
from distributary.server.backup import BackupError, back_up, check, restore
from kit.tarballs import unpack

EARLIER = Path(__file__).parents[3] / "directories" / "state-4.tar.xz"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that a server of an earlier version left."""
    folder = tmp_path_factory.mktemp("left")
    unpack(EARLIER, folder)
    return folder / "data"


@pytest.fixture
def data_dir(left: Path, tmp_path: Path) -> Path:
    """A copy of it, and what is not to be copied."""
    folder = tmp_path / "left" / "data"
    shutil.copytree(left, folder)
    (folder / "internal.key").write_bytes(b"nobody else's")
    (folder / "run").mkdir(exist_ok=True)
    book = PublisherBook({0: DataDir(folder).publishers(0)})
    book.note(0, 0, ["ann"])
    book.flush()
    return folder


def _bodies(paths: DataDir, partition: int) -> list[tuple[int, bytes]]:
    """Offset and body of every record of a partition."""
    with contextlib.closing(Reader(paths.log, partition)) as reader:
        records = reader.read(0, reader.durable_end())
        return [(record.offset, bytes(record.body)) for record in records]


def _dump(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def _modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in [folder, *folder.rglob("*")]}


def test_a_restored_directory_has_what_the_first_one_had(data_dir: Path, tmp_path: Path) -> None:
    """Records, rows and outcomes are the same; nothing is readable by others."""
    made = back_up(data_dir, tmp_path / "b")
    assert check(tmp_path / "b") == made
    restored = tmp_path / "new" / "data"
    assert restore(tmp_path / "b", restored) == made
    assert _modes(tmp_path / "b") == _modes(restored) == {(True, 0o700), (False, 0o600)}

    old, new = DataDir(data_dir), DataDir(restored)
    for partition in range(made.partitions):
        with contextlib.closing(Appender.open(new.log, partition, clock=SystemClock())) as appender:
            assert appender.next_offset == made.ends[partition]
            assert appender.damages == ()
        assert _bodies(new, partition) == _bodies(old, partition) != []
        states = [read_journal(paths.journal(partition))[0] for paths in (old, new)]
        assert states[0].done == states[1].done
        assert states[0].mark == states[1].mark
        assert _dump(new.delivery_db(partition)) == _dump(old.delivery_db(partition))
    assert Publishers(new.publishers(0)).of(0) == "ann"
    assert _dump(new.quota_db) == _dump(old.quota_db)
    assert new.key_file().read_bytes() == old.key_file().read_bytes()
    assert not new.internal_key.exists()
    assert not new.restoring.exists()


COPIED = {
    *("audit", "audit_refused", "delivery_db", "journal", "log", "publishers", "quota_db"),
    *("state_db", "tallies"),
}
MADE_AGAIN = {
    *("archive_lock", "archive_scratch", "archived", "readers"),
    *(
        "recall_failed",
        "recall_lock",
        "recall_requests",
        "recall_scratch",
        "recalled",
        "recalled_folder",
    ),
    *("access", "append_socket", "asked_keys", "bell", "control_socket", "driver_page", "failing"),
    *("forward_socket", "index", "index_folder", "ingest_page", "internal_key", "key_uses"),
    *(
        "live",
        "lock",
        "node_counts",
        "own_socket",
        "owner_lock",
        "restoring",
        "retention_hold",
        "routes",
    ),
    *("addresses", "control_settings", "leader", "node_chain", "node_page", "node_socket"),
    *("nodes_authority", "receivers_live"),
    *("run", "seen", "sick", "sources_page", "spark", "status_page", "tenant_counts"),
    "worker_sockets",
}
LEFT_OUT = {"history", "history_outbox", "history_scratch"}
"""What the guide says: any tool copies it."""
REFUSED = {"migrated"}
"""There is no backup where it is."""
PLACES = {"outcome", "publishers_folder"}
"""Folders whose files are named for themselves."""


def test_every_file_of_a_data_directory_is_copied_or_left_out_on_purpose() -> None:
    """A new one has to be put into a list here, and into the backup where it must survive."""
    layout = vars(sys.modules[DataDir.__module__])
    kinds = tuple(layout[name] for name in ("_Below", "_OfPartition", "_OfReceiver"))
    names = {name for name, place in vars(DataDir).items() if isinstance(place, kinds)}
    assert names == COPIED | MADE_AGAIN | LEFT_OUT | REFUSED | PLACES


@pytest.mark.parametrize(
    ("mark", "said"), [("MIGRATED", "has moved"), ("RESTORING", "did not finish")]
)
def test_what_no_server_starts_on_has_no_backup(
    data_dir: Path, tmp_path: Path, mark: str, said: str
) -> None:
    """One on a copy would deliver again what has moved, or lack what was not restored."""
    (data_dir / mark).write_bytes(b"")
    with pytest.raises(BackupError, match=said):
        back_up(data_dir, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_what_says_that_something_is_done_is_copied_first(data_dir: Path, tmp_path: Path) -> None:
    """Journals, counts, rows, the store, the log: docs/decisions/0093-backup-and-restore.md."""
    made = back_up(data_dir, tmp_path / "b")
    patterns = ("/journal$", r"quota\.db$", r"delivery\.db$", r"state\.db$", r"\.seg$")
    ranks = [
        next(
            (rank for rank, pattern in enumerate(patterns) if re.search(pattern, entry.path)), None
        )
        for entry in made.files
    ]
    found = [rank for rank in ranks if rank is not None]
    assert found == sorted(found)
    assert set(found) == set(range(len(patterns)))


def test_numbers_leap_over_what_the_first_server_can_have_used(
    data_dir: Path, tmp_path: Path
) -> None:
    """Versions of objects, ids of timer events, runs, rows of the history; rows that wait stay."""
    journal = Journal(DataDir(data_dir).journal(0))
    journal.record(journal.state.mark, (), history=(3, b"rows"), filed=0)
    journal.close()
    first = read_journal(DataDir(data_dir).journal(0))[0]
    back_up(data_dir, tmp_path / "b")
    ends = set()
    for name in ("one", "two"):
        restore(tmp_path / "b", tmp_path / name)
        paths = DataDir(tmp_path / name)
        state = read_journal(paths.journal(0))[0]
        assert [block.rows for block in state.blocks] == [block.rows for block in first.blocks]
        assert state.blocks[0].first == state.filed > first.history_end + 2**39
        ends.add(state.history_end)
        for query, leap in (
            ("SELECT version FROM object_counter", 10**9),
            ("SELECT max(numbered) FROM schedule", 10**9),
            ("SELECT demand_seq FROM generation", 10**4),
        ):
            found = []
            for folder in (data_dir, tmp_path / name):
                with contextlib.closing(sqlite3.connect(folder / "state.db")) as store:
                    found.append(store.execute(query).fetchone()[0])
            assert found[1] == (None if found[0] is None else found[0] + leap)
    assert len(ends) == 2, "two restores do not share their numbers"


def test_a_copy_ends_where_the_log_ended(tmp_path: Path) -> None:
    """Whatever is appended later, in any segment: not one record more or less."""
    log = tmp_path / "data" / "log"
    open_folder(log, 1)
    clock = SystemClock()
    with contextlib.closing(Appender.open(log, 0, clock=clock, segment_bytes=4096)) as appender:
        for number in range(60):
            appender.append([(int(RecordKind.EVENTS), b"%d" % number * 90)])
    whole = _bodies(DataDir(tmp_path / "data"), 0)
    for end in range(61):
        target = tmp_path / f"copy-{end}" / "log"
        open_folder(target, 1)
        for path, length in files_below(log, 0, end):
            (partition_dir(target, 0) / path.name).write_bytes(path.read_bytes()[:length])
        with contextlib.closing(
            Appender.open(target, 0, clock=clock, segment_bytes=4096)
        ) as copied:
            assert copied.next_offset == end
        assert _bodies(DataDir(target.parent), 0) == whole[:end]


def test_a_journal_that_is_being_written_is_copied_up_to_its_last_whole_frame(
    data_dir: Path, tmp_path: Path
) -> None:
    """A torn frame counts as nothing, as after a crash."""
    paths = DataDir(data_dir)
    journal = Journal(paths.journal(0))
    journal.record(Mark(1, 0), [(DoneKey(1, 0, "r"), 7)])
    journal.close()
    length = read_journal(paths.journal(0))[1]
    with paths.journal(0).open("r+b") as file:
        file.truncate(length)
        file.seek(length)
        file.write(b"DOJ1\xff\xff")
    back_up(data_dir, tmp_path / "b")
    assert (tmp_path / "b" / "outcome" / "p0000" / "journal").stat().st_size == length


def test_after_a_power_cut_the_records_count_and_not_the_published_end(
    data_dir: Path, tmp_path: Path
) -> None:
    """It is in shared memory: of a server that does not run it may be old, or missing."""
    paths = DataDir(data_dir)
    whole = back_up(data_dir, tmp_path / "whole").ends
    assert min(whole) > 0
    (partition_dir(paths.log, 0) / "end").write_bytes(bytes(4096))
    (partition_dir(paths.log, 1) / "end").unlink()
    assert back_up(data_dir, tmp_path / "b").ends == whole


def test_a_log_without_what_is_called_delivered_is_not_backed_up(
    data_dir: Path, tmp_path: Path
) -> None:
    """The server has to look first, which offsets are never to be used again."""
    paths = DataDir(data_dir)
    journal = Journal(paths.journal(1))
    journal.record(Mark(10**6, 1), ())
    journal.close()
    with pytest.raises(BackupError, match="start the server once"):
        back_up(data_dir, tmp_path / "b")


def test_the_key_is_that_which_sealed_what_is_copied(data_dir: Path, tmp_path: Path) -> None:
    """A backup takes hours: somebody may replace the key, and seal all again, while it runs."""
    before = DataDir(data_dir).key_file().read_bytes()

    def replaced(_done: int, _total: int) -> None:
        if list((tmp_path / "b").rglob("*.seg")):
            DataDir(data_dir).key_file().write_bytes(b"another")

    assert back_up(data_dir, tmp_path / "b", progress=replaced).key == "included"
    assert DataDir(data_dir).key_file().read_bytes() != before
    assert DataDir(tmp_path / "b").key_file().read_bytes() == before


def test_without_the_key_nothing_opens_the_credentials(data_dir: Path, tmp_path: Path) -> None:
    """The manifest says so, and so it does where the key was never in the folder."""
    assert back_up(data_dir, tmp_path / "b", with_key=False).key == "left-out"
    assert not list((tmp_path / "b").rglob("*.key"))
    DataDir(data_dir).key_file().unlink()
    assert back_up(data_dir, tmp_path / "c").key == "elsewhere"


def test_retention_waits_for_a_backup_and_a_backup_for_retention(tmp_path: Path) -> None:
    """Nothing is deleted while anybody copies; a backup that was killed holds nothing."""
    hold = tmp_path / "run" / "p0000.hold"
    with holding_retention(hold), holding_retention(hold), unless_held(hold) as free:
        assert not free
    with unless_held(hold) as free:
        assert free
        held = threading.Event()

        def hold_it() -> None:
            with holding_retention(hold):
                held.set()

        waiting = threading.Thread(target=hold_it)
        waiting.start()
        assert not held.wait(0.2)
    waiting.join(60)
    assert held.is_set()

    program = (
        "import sys, time; from pathlib import Path\n"
        "from distributary.datadir import holding_retention\n"
        f"with holding_retention(Path({str(hold)!r})): print('held', flush=True); time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with unless_held(hold) as free:
        assert not free
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with unless_held(hold) as free:
        assert free


def test_a_backup_that_was_killed_is_none(data_dir: Path, tmp_path: Path) -> None:
    """At whatever file it ends, the folder cannot be restored, and says why."""
    target = tmp_path / "b"
    program = (
        "import os, signal; from pathlib import Path\n"
        "from distributary.server.backup import back_up\n"
        "def stop(done, total):\n"
        "    if done > 100_000: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"back_up(Path({str(data_dir)!r}), Path({str(target)!r}), progress=stop)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(target.iterdir()), "it had begun"
    for refused in (lambda: check(target), lambda: restore(target, tmp_path / "new")):
        with pytest.raises(BackupError, match="no complete backup"):
            refused()
    assert not (tmp_path / "new").exists()
    with pytest.raises(BackupError, match="not empty"):
        back_up(data_dir, target)


def _flip(folder: Path) -> None:
    path = next((folder / "log" / "p0000").glob("*.seg"))
    with path.open("r+b") as file:
        file.seek(40)
        byte = file.read(1)
        file.seek(40)
        file.write(bytes([byte[0] ^ 1]))


def _cut(folder: Path) -> None:
    os.truncate(folder / "state.db", 4096)


def _lose(folder: Path) -> None:
    (folder / "outcome" / "p0001" / "journal").unlink()


def _add(folder: Path) -> None:
    (folder / "log" / "p0000" / f"{7:020d}.seg").write_bytes(b"")


def _edit(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        manifest = json.loads((folder / "MANIFEST.json").read_text())
        change(manifest)
        (folder / "MANIFEST.json").write_text(json.dumps(manifest))

    return edit


def _link(folder: Path) -> None:
    (folder / "state.db").rename(folder.parent / "elsewhere.db")
    (folder / "state.db").symlink_to(folder.parent / "elsewhere.db")


def _link_folder(folder: Path) -> None:
    (folder / "outcome").rename(folder.parent / "elsewhere")
    (folder / "outcome").symlink_to(folder.parent / "elsewhere")


def _pipe(folder: Path) -> None:
    (folder / "state.db").unlink()
    os.mkfifo(folder / "state.db")


DAMAGES = {
    "a bit": (_flip, "checksum differs"),
    "a tail": (_cut, "size differs"),
    "a file": (_lose, "No such file"),
    "a stranger": (_add, "did not write: log/p0000/00000000000000000007.seg"),
    "a link": (_link, "state.db is no file"),
    "a link to a folder": (_link_folder, "outcome is no file"),
    "a pipe": (_pipe, "state.db is no file"),
    "no number of partitions": (
        _edit(lambda found: found.update(partitions=10**15)),
        "has 1 to 10,000 partitions",
    ),
    "no JSON": (lambda folder: (folder / "MANIFEST.json").write_text("{"), "damaged"),
    "not its shape": (lambda folder: (folder / "MANIFEST.json").write_text("[]"), "damaged"),
    "a newer one": (_edit(lambda found: found.update(format=2)), "has format 2"),
    "a way out": (
        _edit(lambda found: found["files"][0].update(path="../../x")),
        "leads out of the backup",
    ),
    "a root": (_edit(lambda found: found["files"][0].update(path="/etc/x")), "leads out"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES.keys())
def test_what_is_not_as_it_was_written_is_refused(
    data_dir: Path, tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    """By the check and by the restore, with the file; no server starts on what it left."""
    target, restored = tmp_path / "b", tmp_path / "new"
    back_up(data_dir, target)
    damage(target)
    with pytest.raises(BackupError, match=said):
        check(target)
    with pytest.raises(BackupError, match=said):
        restore(target, restored)
    assert not restored.exists() or DataDir(restored).restoring.exists()
    if restored.exists():
        with pytest.raises(BackupError, match="did not finish"):
            restore(target, restored)


def test_nothing_is_overwritten(data_dir: Path, tmp_path: Path) -> None:
    """Neither by a backup nor by a restore; an empty folder may be there, as a volume is."""
    with pytest.raises(BackupError, match="in the data directory itself"):
        back_up(data_dir, data_dir / "backup")
    with pytest.raises(BackupError, match=r"no data directory.*in PostgreSQL"):
        back_up(tmp_path, tmp_path / "b")
    (tmp_path / "b").mkdir()
    back_up(data_dir, tmp_path / "b")
    with pytest.raises(BackupError, match="not empty"):
        restore(tmp_path / "b", data_dir)
    (tmp_path / "new").mkdir(mode=0o755)
    restore(tmp_path / "b", tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_full_disk_is_told_before_anything_is_copied(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what is free and what is needed."""
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(BackupError, match="has 0 MiB free"):
        back_up(data_dir, tmp_path / "b")


def test_a_rate_is_kept(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits as long as the bytes copied so far should have taken."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    made = back_up(data_dir, tmp_path / "b", rate=1e6)
    assert sum(1 for wait in slept if wait) >= made.total_bytes / 2e6
    assert max(slept) <= 1.0


def test_the_log_is_cut_where_the_store_stands(data_dir: Path, tmp_path: Path) -> None:
    """What is appended and stored once the snapshot stands is in neither."""
    paths = DataDir(data_dir)
    appender = Appender.open(paths.log, 0, clock=SystemClock(), disk=SYSTEM_DISK)
    end = appender.next_offset
    later = False

    def meddle(_done: int, _total: int) -> None:
        """Runs while files are copied: the first call with a size is after the snapshot."""
        nonlocal later
        if later or not (tmp_path / "b" / "state.db").exists():
            return
        later = True
        appender.append([(int(RecordKind.EVENTS), b"later")])
        with contextlib.closing(sqlite3.connect(paths.state_db)) as store, store:
            store.execute("UPDATE generation SET seq = seq + 1")

    with contextlib.closing(sqlite3.connect(paths.state_db)) as store:
        before = store.execute("SELECT seq FROM generation").fetchone()
    made = back_up(data_dir, tmp_path / "b", progress=meddle)
    appender.close()
    assert later
    assert made.ends[0] == end
    with contextlib.closing(sqlite3.connect(tmp_path / "b" / "state.db")) as copy:
        assert copy.execute("SELECT seq FROM generation").fetchone() == before
    restore(tmp_path / "b", tmp_path / "new")
    with contextlib.closing(
        Appender.open(tmp_path / "new" / "log", 0, clock=SystemClock())
    ) as copied:
        assert copied.next_offset == end
