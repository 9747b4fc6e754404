"""A partition's state moves whole, by the ports of owners: here from files to files."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from distributary.core.clock import SystemClock
from distributary.core.cluster import KafkaPlace, PostgresPlace, SharedPlaces
from distributary.core.database import sqlite_url
from distributary.core.errors import SettingsError, StoreError
from distributary.core.flow import DoneKey, Logged, RecordKind
from distributary.core.journal import Journal, read_journal
from distributary.core.log import Appender
from distributary.core.outcome import (
    Batch,
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    FileOwnership,
    GivenUp,
    RunRow,
    TallyFile,
)
from distributary.datadir import DataDir
from distributary.server import settings
from distributary.server.migrate import (
    FATES,
    MigrationError,
    _moving,
    _partition,
    _resources,
    look,
    migrate,
)
from distributary.server.migrate._source import PartitionSource, Source
from distributary.server.processes import faults_before_start
from distributary.server.processes.base.ground import make_folder
from kit.moving_directory import CHOSEN, make, opened


class Target:
    """What was moved of one partition, in files."""

    def __init__(self, folder: Path, partition: int) -> None:
        self.paths = DataDir(folder)
        self.paths.outcome(partition).mkdir(parents=True, exist_ok=True)
        url = sqlite_url(self.paths.delivery_db(partition))
        self._store = DeliveryStore(url, partition, _partition.NO_BUDGET)
        self._journal = Journal(self.paths.journal(partition), rows_from=1)
        self.ownership = FileOwnership(self._store, self._journal)
        self.tallies = TallyFile(self.paths.tallies(partition))

    def close(self) -> None:
        for each in (self._store, self._journal, self.tallies):
            each.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A data directory, and the uids of its routes."""
    folder = tmp_path_factory.mktemp("made") / "data"
    return folder, make(folder, 4_000)


@pytest.fixture
def source(made: tuple[Path, list[str]]) -> Iterator[Source]:
    """It, opened for its move."""
    one = Source(made[0])
    yield one
    one.close()


def _move(source: PartitionSource, target: Target, source_of: Source) -> None:
    demands = _resources.demands(source_of.paths)
    _partition.move(source, target.ownership, target.tallies, demands)


def test_what_is_open_is_open_afterwards(
    source: Source, made: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """Each match, row, dead letter and run: once moved, and once moved a second time."""
    seqs = [demand.seq for demand in _resources.demands(source.paths)]
    for one in source.partitions:
        assert one.start > 0
        before = opened(one.records, one.state, one.store, made[1], seqs)
        assert len(before.pending) > 1000
        assert len(before.letters) > 30
        for _ in range(2):
            target = Target(tmp_path, one.partition)
            _move(one, target, source)
            after = opened(
                _Renumbered(one), target.ownership.state, target.ownership.store, made[1], seqs
            )
            assert after == before
            demands = _resources.demands(source.paths)
            assert _partition.found(
                target.ownership, target.tallies, demands
            ) == _partition.expected(one, demands)
            target.close()


def test_a_kept_dead_letter_is_moved_as_the_outcome_of_its_match(
    made: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """The server was killed before the journal said so."""
    folder = shutil.copytree(made[0], tmp_path / "killed")
    paths = DataDir(folder)
    cursor = read_journal(paths.journal(0))[0].mark.offset
    key = DoneKey(cursor, 99, made[1][0])
    letter = DeadLetter(key, 7, Failure("status-400", "http://sink.example/"), b"\x01event", 1)
    store = DeliveryStore(sqlite_url(paths.delivery_db(0)), 0, _partition.NO_BUDGET)
    store.apply(Changes(dead_letters=[letter]))
    store.close()
    one = Source(folder)
    assert one.partitions[0].state.done[key] == 7
    one.close()


def test_chosen_dead_letters_are_the_same_ones_afterwards(source: Source, tmp_path: Path) -> None:
    """By their new numbers, in each partition; those that are gone are nobody's."""
    letters, names = {}, {}
    for one in source.partitions:
        target = Target(tmp_path, one.partition)
        demands = _resources.demands(source.paths)
        letters[one.partition] = _partition.move(one, target.ownership, target.tallies, demands)
        for store, when in (one.store, "before"), (target.ownership.store, "after"):
            for kept in store.kept_dead_letters(1_000):
                names[when, f"{one.partition}-{kept.id}"] = kept.event
        target.close()
    after = _moving.chosen(CHOSEN, letters)
    assert after != CHOSEN
    assert [names.get(("after", each)) for each in after if each not in {"0-0", "1-0"}] == [
        names["before", each] for each in ("0-7", "0-12", "1-40")
    ]
    assert [after[1], after[3]] == ["0-0", "1-0"]
    assert len(after) == len(CHOSEN) - 1  # one for all that are gone of a partition


def test_no_run_of_chosen_dead_letters_becomes_one_of_all() -> None:
    """Though none of them is kept any more."""
    assert _moving.chosen(("0-3", "0-4", "7-1"), {0: {5: 1}}) == ("0-0", "7-0")


def test_what_a_replay_missed_is_named_by_the_new_numbers() -> None:
    """What lay before the log begins there now."""
    moving = _moving.Moving(100, {})
    row = RunRow(1, 150, 300, 3, 0, done=False, missing=20, missing_from=90, missing_to=110)
    moved = moving.replay(row)
    assert (moved.at, moved.through) == (50, 200)
    assert (moved.missing, moved.missing_from, moved.missing_to) == (20, 0, 10)
    nothing = moving.replay(row._replace(missing=0, missing_from=None, missing_to=None))
    assert (nothing.missing_from, nothing.missing_to) == (None, None)


class _Renumbered:
    """The records of a partition as a topic has them: with its numbers and checksums."""

    def __init__(self, source: PartitionSource) -> None:
        self._source = source

    def start(self) -> int:
        return 0

    def durable_end(self) -> int:
        return self._source.end - self._source.start

    def read(self, first: int, end: int) -> Iterator[Logged]:
        source = self._source
        for logged in source.records.read(first + source.start, end + source.start):
            yield logged._replace(
                offset=logged.offset - source.start, checksum=source.checksum_after(logged)
            )


@pytest.mark.parametrize("after", range(1, 12, 2))
def test_a_move_that_is_interrupted_is_begun_anew(
    source: Source, made: tuple[Path, list[str]], tmp_path: Path, after: int
) -> None:
    """After any flush: the second try ends as the first would have."""
    seqs = [demand.seq for demand in _resources.demands(source.paths)]
    one = source.partitions[1]
    target = Target(tmp_path, one.partition)
    flush, left = target.ownership.flush, after

    def fails(batch: Batch) -> list[GivenUp]:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoreError("the database went away")
        return flush(batch)

    target.ownership.flush = fails  # type: ignore[method-assign]
    with contextlib.suppress(StoreError):
        _move(one, target, source)
    target.close()
    again = Target(tmp_path, one.partition)
    _move(one, again, source)
    before = opened(one.records, one.state, one.store, made[1], seqs)
    store = again.ownership.store
    assert opened(_Renumbered(one), again.ownership.state, store, made[1], seqs) == before
    again.close()


def test_each_part_of_a_data_directory_is_decided_upon() -> None:
    """A new file is moved, made anew or left: whoever adds it says which."""
    parts = {name for name, value in vars(DataDir).items() if type(value).__name__[:2] in _KINDS}
    assert parts == set(FATES)
    assert {name for name, fate in FATES.items() if fate == "moved"} >= {"log", "state_db"}


_KINDS = {"_B", "_O"}
"""How the names of the descriptors of paths begin."""


def test_a_directory_of_a_running_server_is_refused(made: tuple[Path, list[str]]) -> None:
    """So is one that is none."""
    holder = Source(made[0])
    with pytest.raises(MigrationError, match="stop the server"):
        Source(made[0])
    holder.close()
    with pytest.raises(MigrationError, match="no data directory"):
        Source(made[0].parent)


def test_another_content_has_another_identity(made: tuple[Path, list[str]], tmp_path: Path) -> None:
    """A server that ran once more, if only for one event, makes it another one."""
    folder = tmp_path / "data"
    shutil.copytree(made[0], folder)
    first = Source(folder)
    first.close()
    same = Source(folder)
    same.close()
    assert same.identity == first.identity
    appender = Appender.open(DataDir(folder).log, 0, clock=SystemClock())
    appender.append([(RecordKind.EVENTS, b"one more")])
    appender.close()
    changed = Source(folder)
    changed.close()
    assert changed.identity != first.identity


def test_no_server_starts_where_everything_has_moved_away(tmp_path: Path) -> None:
    """It would deliver all of it again."""
    DataDir(tmp_path).migrated.write_text("{}")
    chosen = settings.load({"data_dir": str(tmp_path)}, {}, None)
    assert [fault for fault in faults_before_start(chosen) if "has moved" in fault]
    with pytest.raises(SettingsError, match="has moved"):
        make_folder(tmp_path)


@pytest.mark.parametrize("work", [look, migrate])
def test_what_has_moved_moves_to_no_second_place(
    made: tuple[Path, list[str]], tmp_path: Path, work: Callable[..., object]
) -> None:
    """Nodes at both would deliver it. Once more to the first, or without the mark: as before."""
    folder = tmp_path / "data"
    shutil.copytree(made[0], folder)
    store = PostgresPlace(url="no-such-database://host/a")
    first, second = (
        SharedPlaces(log=KafkaPlace(servers=("host:1",), prefix=prefix), store=store)
        for prefix in "ab"
    )
    said = {"log": "host:1/a", "store": store.url}
    places = {msgspec.json.encode(said): f"host:1/a and {store.url}", b"{": "an unknown place"}
    for content, place in places.items():
        DataDir(folder).migrated.write_bytes(content)
        with pytest.raises(MigrationError, match=f"has moved to {place}: "):
            work(folder, second)
    DataDir(folder).migrated.write_bytes(msgspec.json.encode(said))
    with pytest.raises(SettingsError, match="cannot be used"):
        work(folder, first)
    DataDir(folder).migrated.unlink()
    with pytest.raises(SettingsError, match="cannot be used"):
        work(folder, second)
