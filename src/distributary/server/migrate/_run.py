"""Moves a stopped data directory to a log and a store that machines share, step by step.

Each step finds out what is there already, so a move that was interrupted is begun again with the
same command. Nothing in the data directory changes until everything has been compared; then a mark
there keeps servers from starting on it, and at last the database says that the move has ended.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from distributary.core import database
from distributary.core.clock import SystemClock
from distributary.core.cluster import SharedPlaces
from distributary.core.database import StorePlace
from distributary.core.demand import Demand
from distributary.core.files import write_atomically
from distributary.core.log.kafka.copying import keep_times, partitions_of
from distributary.core.log.kafka.snapshots import Cut, Snapshots
from distributary.core.log.kafka.store_snapshots import StoreSnapshots
from distributary.core.log.kafka.topics import prepare_topics
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresOwnership,
    PostgresTallies,
    prepare_outcomes,
)
from distributary.core.postgres_lease import PostgresLease, partition_lease, prepare_leases
from distributary.core.route import RouteTable
from distributary.server.migrate import _log, _partition, _record, _resources
from distributary.server.migrate._errors import MigrationError
from distributary.server.migrate._moving import Numbers
from distributary.server.migrate._source import PartitionSource, Source

LEASE_S_MAX: Final = 10.0
"""Longest wait for the lease of a partition: one that an interrupted move left runs out in 6 s."""


class Step(NamedTuple):
    """How far a move is.

    Attributes:
        name: What it does, for people.
        done: Of the step: records, or partitions.
        total: How many there are.
    """

    name: str
    done: int
    total: int


class Moved(NamedTuple):
    """What was moved, or would be.

    Attributes:
        records: Of the log.
        partitions: What each one's state holds.
        rows: Of the tables of resources and counts, by table.
        warnings: Of the cluster, with cures.
    """

    records: int
    partitions: list[_partition.Counts]
    rows: dict[str, int]
    warnings: list[str]


Progress = Callable[[Step], None]


class _Targets:
    """The database and the topic, opened."""

    def __init__(self, places: SharedPlaces) -> None:
        self.log = places.log
        self.url = database.database_url(places.store)
        self.writer = database.open_writer(self.url, _record.STORE)


def look(data_dir: Path, places: SharedPlaces, *, key_file: str = "") -> Moved:
    """What a move would do; changes nothing in the log's cluster and the database.

    Raises:
        MigrationError: It could not begin.
        DistributaryError: The data directory, the cluster or the database cannot be read.
    """
    source = Source(data_dir, key_file)
    try:
        _check_mark(source, places)
        reader = database.open_reader(database.database_url(places.store), _record.STORE)
        record = _record.read(reader)
        if record is not None:
            _record.check(record, source.identity)
        if partitions_of(places.log):
            for each in source.partitions:
                _log.copied(places.log, each)
        return _expected(source)
    finally:
        source.close()


def _expected(source: Source) -> Moved:
    demands = _resources.demands(source.paths)
    return Moved(
        sum(each.end - each.start for each in source.partitions),
        [_partition.expected(each, demands) for each in source.partitions],
        _resources.counted(source.paths),
        [],
    )


def migrate(
    data_dir: Path,
    places: SharedPlaces,
    progress: Progress = lambda _step: None,
    *,
    key_file: str = "",
) -> Moved:
    """Move the content of *data_dir*; call it again after any failure.

    Args:
        data_dir: Of a stopped server.
        places: Where it goes: empty, or what an earlier call with this content has left.
        progress: Is called often.
        key_file: Key file of credentials; empty: in the data directory.

    Raises:
        MigrationError: It cannot begin, or what was moved is not what was there.
        DistributaryError: The cluster or the database failed; call it again.
    """
    source = Source(data_dir, key_file)
    try:
        _check_mark(source, places)
        targets = _Targets(places)
        now_ms = SystemClock().wall_ms()
        _record.begin(targets.writer, source.identity, now_ms)
        warnings = _move_log(source, targets, progress)
        prepare_leases(targets.writer)
        prepare_outcomes(targets.writer)
        rows = _resources.move(source, targets.url)
        demands = _resources.demands(source.paths)
        counts, letters = [], {}
        for number, each in enumerate(source.partitions, 1):
            held, letters[each.partition] = _move_partition(each, targets, demands)
            counts.append(held)
            progress(Step("state of partitions", number, len(source.partitions)))
        _resources.move_chosen(targets.url, demands, letters)
        snapshots = StoreSnapshots(StorePlace(targets.url), leads=True)
        _move_routes(source.partitions, snapshots)
        _resources.check(source, targets.url, rows)
        _mark(source, places)
        keep_times(targets.log, given=False)  # until now no node starts on the topic
        _record.end(targets.writer, SystemClock().wall_ms())
        records = sum(each.end - each.start for each in source.partitions)
        return Moved(records, counts, rows, warnings)
    finally:
        source.close()


def _move_log(source: Source, targets: _Targets, progress: Progress) -> list[str]:
    if partitions_of(targets.log):
        keep_times(targets.log, given=False)  # as it is checked; an interrupted move changed it
    count = len(source.partitions)
    prepared = prepare_topics(targets.log, count)
    if prepared.partitions != count:
        raise MigrationError(
            f"the topic has {prepared.partitions} partitions, and the log {count}: events of a key"
            " would change their partition. Delete the topic, or name another prefix"
        )
    # Replays, searches and retention go by the time at which each event was received. Nodes refuse
    # a topic of this kind, so none starts before everything is there.
    keep_times(targets.log, given=True)
    _log.copy(targets.log, source.partitions, _told(progress, "records copied"))
    for each in source.partitions:
        name = f"records compared of partition {each.partition}"
        _log.compare(targets.log, each, _told(progress, name))
    return list(prepared.warnings)


def _told(progress: Progress, name: str) -> _log.Progress:
    def told(done: int, total: int) -> None:
        progress(Step(name, done, total))

    return told


def _move_partition(
    source: PartitionSource,
    targets: _Targets,
    demands: Sequence[Demand],
) -> tuple[_partition.Counts, Numbers]:
    lease = PostgresLease(targets.url, partition_lease(source.partition), LEASE_S_MAX)
    try:
        fence = PartitionFence(source.partition, lease.generation, lease.token)
        rows_from = SystemClock().wall_ms() * 1000
        ownership = PostgresOwnership(targets.url, fence, _partition.NO_BUDGET, rows_from=rows_from)
        try:
            tallies = PostgresTallies(targets.url, fence)
            letters = _partition.move(source, ownership, tallies, demands)
            wanted = _partition.expected(source, demands)
            found = _partition.found(ownership, tallies, demands)
        finally:
            ownership.close()
    finally:
        lease.release()
    if wanted != found:
        raise MigrationError(
            f"partition {source.partition} of the database holds {found}, and the data directory"
            f" {wanted}"
        )
    return found, letters


def _move_routes(sources: Sequence[PartitionSource], target: Snapshots) -> None:
    """Keep the routes in force at the begin of each log, whose older records are gone."""
    for source in sources:
        found = source.records.route_snapshot()
        if found is not None:
            cut, snapshot = found
            seq = RouteTable.restore(snapshot).last_seq
            at = max(cut - source.start, 0)
            if target.cut(source.partition) != Cut(at, seq):
                target.put(source.partition, Cut(at, seq), snapshot)


def _mark(source: Source, places: SharedPlaces) -> None:
    """Keep servers from starting on the data directory, which would deliver everything again.

    Durable: after a power cut a service manager may start the server by itself.
    """
    said: Mapping[str, Any] = {
        "identity": source.identity,
        **_places_said(places),
        "process": os.getpid(),
    }
    write_atomically(source.paths.migrated, msgspec.json.encode(said), durable=True)


def _places_said(places: SharedPlaces) -> dict[str, str]:
    log = places.log
    return {"log": f"{','.join(log.servers)}/{log.prefix}", "store": places.store.url}


def _check_mark(source: Source, places: SharedPlaces) -> None:
    """See that what moves is not at other places already: nodes there may deliver it.

    Raises:
        MigrationError: It may be.
    """
    path = source.paths.migrated
    try:
        said = msgspec.json.decode(path.read_bytes(), type=dict)
    except FileNotFoundError:
        return
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = {}
    asked = _places_said(places)
    there = {name: said.get(name) for name in asked}
    if there != asked:
        where = (
            f"{there['log']} and {there['store']}" if all(there.values()) else "an unknown place"
        )
        raise MigrationError(
            f"what {source.paths.root} holds has moved to {where}: nodes on two such places"
            f" would both deliver it. If none runs there, nor will, delete {path}, and migrate"
            " again"
        )
