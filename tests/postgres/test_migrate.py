"""A data directory moves to three brokers and a database, whole, whatever interrupts it."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from distributary.core import database
from distributary.core.cluster import KafkaPlace, PostgresPlace, SharedPlaces
from distributary.core.database import StorePlace
from distributary.core.errors import SettingsError
from distributary.core.log import partition_dir
from distributary.core.log.kafka import KafkaRecords, MemorySnapshots
from distributary.core.log.kafka.copying import keep_times
from distributary.core.log.kafka.ends import KafkaEnds
from distributary.core.log.kafka.store_snapshots import StoreSnapshots
from distributary.core.log.kafka.topics import prepare_topics
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresOwnership,
    PostgresReservations,
)
from distributary.core.postgres_lease import PostgresLease, partition_lease
from distributary.datadir import DataDir
from distributary.server import migrate
from distributary.server.migrate import MigrationError, _log, _partition, _record, _resources
from distributary.server.migrate._source import Source
from distributary.subscriptions.store import moving
from distributary.subscriptions.store.store import Store
from kit.moving_directory import CHOSEN, Open, make, opened, repeated
from kit.running_server import clean_environ
from kit.servers.kafka_cluster import KafkaCluster

_numbers = itertools.count()

EVENTS = int(os.environ.get("DISTRIBUTARY_EVENTS", "20000"))
"""Ten times as many in the soak."""


FIRST_RECORDS = 2_000
"""Records that are there when the copy is interrupted first."""

EIGHTHS = (1, 3, 5) if EVENTS > 20_000 else (1,)
KILLED_AT = [EVENTS * eighths // 8 for eighths in EIGHTHS]
"""Records of all partitions that are there when the command is killed, at least: once for each."""

IN_FLIGHT = 50
"""Records more that are under way then: how many of them arrive is a matter of time."""

HERE = "the copy stands still"


class Interrupted(Exception):  # noqa: N818 - it is no error of ours
    """What a kill would be."""


@pytest.fixture
def places(kafka_cluster: KafkaCluster, postgres_place: PostgresPlace) -> SharedPlaces:
    """A topic of its own, which is not made yet, and an empty database."""
    prefix = f"moved-{os.getpid()}-{next(_numbers)}"
    log = KafkaPlace(servers=kafka_cluster.servers, prefix=prefix)
    return SharedPlaces(log=log, store=postgres_place)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A data directory with events, half of them delivered, and the uids of its routes."""
    folder = tmp_path_factory.mktemp("made") / "data"
    return folder, make(folder, EVENTS)


@pytest.fixture
def data_dir(made: tuple[Path, list[str]], tmp_path: Path) -> Path:
    """A copy of it."""
    folder = tmp_path / "data"
    shutil.copytree(made[0], folder)
    return folder


def _before(data_dir: Path, routes: list[str]) -> list[Open]:
    source = Source(data_dir)
    seqs = [demand.seq for demand in _resources.demands(source.paths)]
    found = [opened(one.records, one.state, one.store, routes, seqs) for one in source.partitions]
    source.close()
    return found


def _after(places: SharedPlaces, routes: list[str], count: int) -> Iterator[Open]:
    """As the next owners find it."""
    url = database.database_url(places.store)
    for partition in range(count):
        with _owned(url, partition) as owned:
            records = KafkaRecords(places.log, partition, StoreSnapshots(StorePlace(url)))
            yield opened(records, owned.state, owned.store, routes, [1, 2, 3])
            records.close()


@contextmanager
def _owned(url: sa.URL, partition: int) -> Iterator[PostgresOwnership]:
    lease = PostgresLease(url, partition_lease(partition), 10.0)
    fence = PartitionFence(partition, lease.generation, lease.token)
    owned = PostgresOwnership(url, fence, _partition.NO_BUDGET)
    yield owned
    owned.close()
    lease.release()


def test_everything_moves_although_each_step_is_interrupted(
    data_dir: Path,
    made: tuple[Path, list[str]],
    places: SharedPlaces,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events, half of them delivered: none is lost, and none is open that was not."""
    routes = made[1]
    before = _before(data_dir, routes)
    wanted = migrate.look(data_dir, places)
    said = _dry_run(data_dir, places)
    assert said.startswith(f"{wanted.records:,} records of 2 partitions would be moved\n")
    steps: list[migrate.Step] = []

    def interrupt(owner: object, name: str, after: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, _failing(getattr(owner, name), after))
            with pytest.raises(Interrupted):
                migrate.migrate(data_dir, places, steps.append)

    interrupt(_log.TopicCopy, "append", FIRST_RECORDS)
    for records in KILLED_AT:
        _kill_one(data_dir, places, records)
    for owner, name, after in _INTERRUPTIONS:
        assert not (data_dir / "MIGRATED").exists()
        with pytest.raises(SettingsError, match=r"message\.timestamp\.type"):
            prepare_topics(places.log, 2)  # no node starts on what is not whole
        interrupt(owner, name, after)
    _check_not_ended(places)  # though nothing else is left to do
    moved = migrate.migrate(data_dir, places, steps.append)
    assert moved._replace(warnings=[]) == wanted
    assert (data_dir / "MIGRATED").exists()
    assert not prepare_topics(places.log, 2).made
    after_move = list(_after(places, routes, len(before)))
    assert after_move == before
    assert [repeated(each.events) for each in after_move] == [[], []]
    assert sum(len(each.pending) for each in before) > 10_000
    _check_rest(data_dir, places, routes)
    for work in (migrate.look, migrate.migrate):  # once more, when nodes may run already
        with pytest.raises(MigrationError, match="already"):
            work(data_dir, places)
    assert not prepare_topics(places.log, 2).made  # nodes start on it as before


@pytest.fixture(autouse=True)
def _connections(places: SharedPlaces) -> Iterator[None]:
    """Ends those that a move has left to the next one."""
    url = database.database_url(places.store)
    engines = database.open_writer(url, "test"), database.open_reader(url, "test")
    yield
    for engine in engines:
        engine.dispose()


def _check_rest(data_dir: Path, places: SharedPlaces, routes: list[str]) -> None:
    """Resources, counts, publishers, and the routes at the begin of each partition."""
    url = database.database_url(places.store)
    source = Source(data_dir)
    store = Store(url, sealer=source.sealer)
    assert [each.uid for each in store.page("", 10)] == routes
    store.close()
    _check_chosen(source, url)
    reservations = PostgresReservations(url)
    snapshots = StoreSnapshots(StorePlace(url))
    for one in source.partitions:
        assert len(reservations.held(one.partition)) > 5
        records = KafkaRecords(places.log, one.partition, snapshots)
        found = records.route_snapshot()
        records.close()
        before = one.records.route_snapshot()
        assert found is not None
        assert before is not None
        assert (found[0], found[1]) == (before[0] - one.start, before[1])
    source.close()


def _check_chosen(source: Source, url: sa.URL) -> None:
    """A run of chosen dead letters chooses those with these events, and no others."""
    with database.reading(database.open_reader(url, "test")) as connection:
        (chosen,) = (each for each in moving.read_demands(connection) if each.run == "chosen")
    before, after = {}, {}
    for one in source.partitions:
        with _owned(url, one.partition) as owned:
            for found, store in (before, one.store), (after, owned.store):
                for kept in store.kept_dead_letters(1_000):
                    found[f"{one.partition}-{kept.id}"] = kept.event
    assert chosen.details.by == "ann"
    assert [after[each] for each in chosen.details.ids if each in after] == [
        before[each] for each in CHOSEN if each in before
    ]
    assert {each for each in chosen.details.ids if each not in after} == {"0-0", "1-0"}


def _dry_run(data_dir: Path, places: SharedPlaces) -> str:
    """What the command prints."""
    words, environ = _command(data_dir, places, "--dry-run")
    ran = subprocess.run(words, env=environ, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _command(
    data_dir: Path, places: SharedPlaces, *options: str
) -> tuple[list[str], dict[str, str]]:
    """The command with *options*, and its environment."""
    log, store = places.log, places.store
    words = [sys.executable, "-m", "distributary.cli", "migrate", *options]
    words += ["--data-dir", str(data_dir), "--store", store.url]
    words += ["--log", f"kafka://{','.join(log.servers)}/{log.prefix}"]
    return words, clean_environ() | {"DISTRIBUTARY_STORE_PASSWORD": store.password}


HELD = f"""
import sys
from distributary.cli import main
from distributary.core.log.kafka.copying import TopicCopy

copied, append = int(sys.argv.pop(1)), TopicCopy.append


def held(self, *record):
    global copied
    append(self, *record)
    copied -= 1
    if copied == 0:
        self.flush()
    if copied == -{IN_FLIGHT}:
        print("{HERE}", flush=True)
        sys.stdin.read()


TopicCopy.append = held
main()
"""
"""The command, which stands still within its copy: it cannot end before it is killed."""


def _kill_one(data_dir: Path, places: SharedPlaces, records: int) -> None:
    """Begin the move as the command does, or go on with it; kill it once *records* are there."""
    (_, _, _, *words), environ = _command(data_dir, places)
    ends = KafkaEnds(places.log)
    lacking = records - sum(ends.read(2))
    command = [sys.executable, "-c", HELD, str(lacking), *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = list(iter(process.stdout.readline, f"{HERE}\n"))
        process.kill()
        assert process.wait() == -signal.SIGKILL, said
    # What the interrupted copy before had under way may have come meanwhile, and counts too.
    assert records <= sum(ends.read(2)) < EVENTS


def _failing(work: Callable[..., object], after: int) -> Callable[..., object]:
    """*work*, which is interrupted at its call number *after*, from 0."""
    calls = itertools.count()

    def fails(*arguments: object, **named: object) -> object:
        if next(calls) == after:
            raise Interrupted
        return work(*arguments, **named)

    return fails


_INTERRUPTIONS = [
    (PostgresOwnership, "flush", 9),
    (_record, "end", 0),
]


def _check_not_ended(places: SharedPlaces) -> None:
    """No node starts on the database."""
    reader = database.open_reader(database.database_url(places.store), "test")
    with pytest.raises(MigrationError, match="being moved"):
        migrate.check_ended(reader)
    reader.dispose()


def test_a_damaged_record_leaves_its_place(data_dir: Path, places: SharedPlaces) -> None:
    """Those behind it keep their numbers; in the topic it is damage again, and never an event."""
    source = Source(data_dir)
    first, start = source.partitions[0], source.partitions[0].start
    broken = first.end - 700
    body = next(iter(first.records.read(broken, broken + 1))).body
    source.close()
    (path,) = (
        path
        for path in partition_dir(DataDir(data_dir).log, 0).iterdir()
        if body in path.read_bytes()
    )
    path.write_bytes(path.read_bytes().replace(body, bytes(len(body))))
    source = Source(data_dir)
    first = source.partitions[0]
    wanted = [logged.body for logged in first.records.read(first.end - 800, first.end)]
    assert len(wanted) == 799
    prepare_topics(places.log, 2)
    keep_times(places.log, given=True)
    _log.copy(places.log, [first], lambda _done, _count: None)
    assert _log.compare(places.log, first, lambda _done, _count: None) == first.end - start
    records = KafkaRecords(places.log, 0, MemorySnapshots())
    end = records.durable_end()
    assert end == first.end - start
    copies = list(records.read(end - 800, end))
    assert [logged.body for logged in copies] == wanted
    assert [damage.from_offset for damage in records.damages()] == [broken - start]
    records.close()
    source.close()


def test_a_place_that_is_used_is_refused(data_dir: Path, places: SharedPlaces) -> None:
    """A topic with other records, and a database of somebody else."""
    prepare_topics(places.log, 2)
    foreign = _log.TopicCopy(places.log)
    for number in range(11_000):
        foreign.append(0, 1, b"of somebody else", number, "")
    foreign.flush()
    foreign.close()
    with pytest.raises(MigrationError, match="not empty"):
        migrate.look(data_dir, places)
    with pytest.raises(MigrationError, match="not empty"):
        migrate.migrate(data_dir, places)
    url = database.database_url(places.store)
    elsewhere = SharedPlaces(
        log=KafkaPlace(servers=places.log.servers, prefix=places.log.prefix + "-b"),
        store=places.store,
    )
    with database.writing(database.open_writer(url, "test")) as connection:
        connection.exec_driver_sql("UPDATE migration SET identity = 'another'")
    for work in (migrate.look, migrate.migrate):
        with pytest.raises(MigrationError, match="another data directory"):
            work(data_dir, elsewhere)
    with database.writing(database.open_writer(url, "test")) as connection:
        connection.exec_driver_sql("DELETE FROM migration")
        connection.exec_driver_sql("CREATE TABLE route_change (seq int)")
        connection.exec_driver_sql("INSERT INTO route_change VALUES (1)")
    with pytest.raises(MigrationError, match="not empty: route_change"):
        migrate.migrate(data_dir, elsewhere)
    assert not (data_dir / "MIGRATED").exists()
