"""The topic of the log is made safe, and one that is not is refused by the name of the setting."""

import asyncio

import pytest

from distributary.core.clock import SystemClock
from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.flow import Received, RecordKind, RouteRecord, encode_route
from distributary.core.log.kafka import (
    Cut,
    KafkaAppends,
    KafkaEnds,
    KafkaRecords,
    KafkaRetention,
    KafkaRoutes,
    MemorySnapshots,
    prepare_topics,
    topic_of,
)
from distributary.core.log.kafka._client import RECORD_BYTES_MAX
from distributary.core.log.kafka._topic_admin import TopicAdmin
from distributary.core.log.keys import partition_of
from distributary.core.route import BlindMatcher, RouteTable
from distributary.server.processes.receiver.route_snapshot import routes_at

pytestmark = pytest.mark.slow

SAFE = {
    "retention_ms": "-1",
    "retention_bytes": "-1",
    "message_timestamp_type": "LogAppendTime",
    "max_message_bytes": str(RECORD_BYTES_MAX),
}


def test_a_topic_is_made_and_then_found_safe(new_place):
    """What the first node makes, the second accepts without a word; its partitions stay."""
    place = new_place(partitions=0)
    made = prepare_topics(place, 3)
    assert made.made
    assert (made.partitions, made.warnings) == (3, ())
    again = prepare_topics(place, 3)
    assert again == (3, False, ())
    (warning,) = prepare_topics(place, 5).warnings
    assert "has 3 partitions, not 5" in warning


def test_what_another_node_has_done_meanwhile_is_no_fault(new_place):
    """Each looks before it makes a topic or adds partitions, and may have seen the old state."""
    place = new_place(partitions=0)
    admin = TopicAdmin(place, topic_of(place))
    assert admin.make(1, 3, {})
    assert not admin.make(1, 3, {})
    for partitions in (3, 3, 2):
        admin.grow(partitions)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("retention_ms", "604800000"),
        ("retention_bytes", "1000000000"),
        ("cleanup_policy", "compact"),
        ("message_timestamp_type", "CreateTime"),
        ("unclean_leader_election_enable", "true"),
        ("min_insync_replicas", "1"),
        ("max_message_bytes", "1000000"),
    ],
)
def test_each_unsafe_setting_is_refused_by_name(new_place, setting, value):
    """The error has the setting, what it is, and the command that cures it; and nothing else."""
    place = new_place(**(SAFE | {setting: value}))
    with pytest.raises(SettingsError) as refused:
        prepare_topics(place, 1)
    first, *faults = str(refused.value).splitlines()
    assert "not safe" in first
    (fault,) = faults
    name = setting.replace("_", ".")
    assert fault.startswith(f"- {name} of topic {topic_of(place)} is {value}: ")
    assert f"--add-config {name}=" in fault


def test_all_faults_are_told_at_once(new_place):
    """A topic with Kafka's defaults misses three of them."""
    with pytest.raises(SettingsError) as refused:
        prepare_topics(new_place(replicas=1), 1)
    text = str(refused.value)
    for name in ("retention.ms", "message.timestamp.type", "max.message.bytes", "one replica"):
        assert name in text


def test_one_replica_must_be_accepted_by_a_word(new_place):
    """It is a warning then."""
    place = new_place(replicas=1, **SAFE)
    with pytest.raises(SettingsError, match="one replica"):
        prepare_topics(place, 1)
    (warning,) = prepare_topics(place, 1, one_replica=True).warnings
    assert "one replica" in warning


def test_settings_that_cost_availability_are_warned_about(new_place):
    """All replicas must be in sync; every batch is compressed twice."""
    place = new_place(**SAFE, min_insync_replicas="3", compression_type="zstd")
    warnings = prepare_topics(place, 1).warnings
    assert [each.split()[0] for each in warnings] == ["min.insync.replicas", "compression.type"]


def test_a_cluster_that_does_not_answer_is_an_error_without_the_password(monkeypatch):
    """It says which cluster."""
    monkeypatch.setattr("distributary.core.log.kafka._topic_admin.ANSWER_S_MAX", 0.5)
    place = KafkaPlace(
        servers=("127.0.0.1:1",), prefix="x", sasl_mechanism="PLAIN", user="u", password="s3cret"
    )
    with pytest.raises(LogUnavailableError) as raised:
        prepare_topics(place, 1)
    assert "s3cret" not in f"{raised.value!r} {place!r}"


def test_partitions_are_added_with_their_routes(new_place):
    """A new partition begins with the snapshot, and gets each later change, as the others do."""
    place = new_place(partitions=0)
    prepare_topics(place, 1)
    snapshots = MemorySnapshots()

    async def grow():
        loop = asyncio.get_running_loop()
        routes = KafkaRoutes(place, 1, loop)
        appends = KafkaAppends(place, 1, loop)
        await routes.append_routes([b"r1", b"r2"])
        adding = routes.add_partitions(3, lambda: (2, b"routes after 2"), snapshots)
        await asyncio.gather(adding, routes.append_routes([b"r3"]))
        assert routes.partitions == 3
        await routes.add_partitions(3, lambda: (9, b"not asked for"), snapshots)
        assert await routes.append_timer_events([(2, b"t"), (0, b"t")]) == 2
        assert await routes.append_events([(7, RecordKind.EVENTS, b"nowhere")]) == 0
        await appends.change_partitions(3)
        for key in ("a", "b", "c", "d"):
            done = loop.create_future()
            appends.submit(Received(key.encode(), 1, key), done.set_result)
            assert await done is None
        await appends.close()
        await routes.close()

    asyncio.run(grow())
    assert snapshots.cut(0) is None
    assert snapshots.cut(1) == snapshots.cut(2) == Cut(0, 2)
    for partition, expected in enumerate(([b"r1", b"r2", b"r3"], [b"r3"], [b"r3"])):
        records = KafkaRecords(place, partition, snapshots)
        found = list(records.kinds(0, records.durable_end(), RecordKind.ROUTE))
        assert [each.body for each in found] == expected
        events = records.kinds(0, records.durable_end(), RecordKind.EVENTS)
        keys = [key for key in ("a", "b", "c", "d") if partition_of(key, 3) == partition]
        assert [each.body.decode() for each in events] == keys
        assert records.route_snapshot() == ((0, b"routes after 2") if partition else None)
        records.close()


class History:
    """Every change of a route, as the store has it."""

    def __init__(self, changes):
        self._changes = changes

    def last_seq(self):
        return len(self._changes)

    newest_seq = last_seq

    def between(self, after_seq, before_seq):
        return [each for each in self._changes if after_seq < each.seq < before_seq]


def test_retention_keeps_the_routes_of_what_it_deletes(new_place):
    """The next cut begins with the snapshot of the last one; a reader in the past undoes a cut."""
    place = new_place(partitions=0)
    prepare_topics(place, 1)
    changes = [
        RouteRecord(seq=number, op="put", uid=f"r{number}", revision=1) for number in range(1, 7)
    ]

    async def append():
        routes = KafkaRoutes(place, 1, asyncio.get_running_loop())
        for change in changes:
            await routes.append_routes([encode_route(change)])
            await routes.append_events([(0, RecordKind.EVENTS, b"e" * 100)])
        await routes.close()

    asyncio.run(append())
    snapshots = MemorySnapshots()
    now_ms = SystemClock().wall_ms
    retention = KafkaRetention(place, snapshots, bytes_max=0, age_max_s=0.0, now_ms=now_ms)

    def retain(*keep_from):
        asked = iter(keep_from)
        return retention.retain(
            0,
            lambda: next(asked),
            lambda records, cut: routes_at(records, History(changes), cut),
        )

    assert retain(5, 5) == (5, 5)  # changes 1 to 3 are below
    assert snapshots.cut(0) == Cut(5, 3)
    assert retain(8, 6) == (5, 0)  # a backfill has begun at 6 meanwhile
    assert snapshots.cut(0) == Cut(5, 3)
    with pytest.raises(StopIteration):
        retain(8)  # the leader ends before it asks again, and a backfill has begun at 6
    assert snapshots.cut(0) == Cut(8, 4)
    assert retain(6) == (5, 0)
    assert retain(9, 9) == (9, 4)
    cut = snapshots.cut(0)
    assert cut == Cut(9, 5)
    table = RouteTable.restore(snapshots.get(5), BlindMatcher)
    assert (len(table), table.last_seq) == (5, 5)
    assert snapshots.get(3) is None
    records = KafkaRecords(place, 0, snapshots)
    assert (records.start(), records.durable_end()) == (9, 12)
    assert KafkaEnds(place).read(1) == [12]
    records.close()
    whole = KafkaRetention(place, snapshots, bytes_max=10**9, age_max_s=3600.0, now_ms=now_ms)
    assert whole.retain(0, lambda: 12, lambda *_: pytest.fail("nothing is too old")) == (9, 0)
    whole.close()
    snapshots.put(0, Cut(11, 6), snapshots.get(5))  # by a process that ended before it looked again
    assert retain(10) == (9, 0)  # a reader has begun below it
    assert retain(0) == (9, 0)  # unknown
    assert retain(11) == (11, 2)
    retention.close()
