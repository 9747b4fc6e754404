"""The topic of recalled files: made, checked, and read from when it was opened on."""

import contextlib
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.flow import RecordKind
from distributary.core.log.kafka._client import settings_of
from distributary.core.log.kafka.recalled_topic import (
    MADE,
    MESSAGE_BYTES_MAX,
    RecalledReader,
    RecalledSender,
    prepare_recalled_topic,
    recalled_topic_of,
)
from distributary.core.log.pieces import Gatherer
from distributary.core.log.recalled import RecalledName, RecalledWriter, list_recalled

pytestmark = pytest.mark.slow

WAIT_S_MAX = 60.0


def _write(folder, name):
    folder.mkdir(exist_ok=True)
    writer = RecalledWriter(folder, name)
    for offset in range(*name):
        writer.add(offset, 1_000, RecordKind.EVENTS, offset.to_bytes(8, "big") * 50_000)
    writer.finish()


def _take(reader, gatherer, wanted):
    """Take pieces until a file is whole."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline_s:
        for value in reader.take(0.5):
            if whole := gatherer.take(value, wanted):
                return whole
    raise AssertionError("no file came")


def test_files_come_as_they_are_from_when_the_topic_was_opened(new_place, tmp_path):
    """What was sent before is not read; what retention has deleted meanwhile is told."""
    place = new_place(partitions=2)
    prepare_recalled_topic(place, 2)
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    early, late = RecalledName(0, 5), RecalledName(5, 10)
    for name in (early, late):
        _write(here, name)
    with contextlib.ExitStack() as opened:
        sender = RecalledSender(place)
        opened.callback(sender.close)
        sender.send(1, here, early)
        reader = RecalledReader(place, 1)
        opened.callback(reader.close)
        sender.send(0, here, early)  # to the owner of another partition
        sender.send(1, here, late)
        assert _take(reader, Gatherer(there), {0, 5}) == late
        assert list_recalled(there) == [late]
        assert late.path(there).read_bytes() == late.path(here).read_bytes()
        slow = RecalledReader(place, 1)
        opened.callback(slow.close)
        for _ in range(10):  # more than a reader fetches ahead
            sender.send(1, here, early)
        admin = AdminClient(settings_of(place))
        end = TopicPartition(recalled_topic_of(place), 1, -1)  # all of it
        (deleted,) = admin.delete_records([end]).values()
        deleted.result(30)
        with pytest.raises(LogUnavailableError, match="has no record"):
            _take(slow, Gatherer(tmp_path), ())


def test_the_topic_is_made_grows_and_is_small(new_place, kafka_cluster):
    """As many replicas as the log has; a topic that would keep everything is refused."""
    none = new_place(partitions=0)
    with pytest.raises(LogUnavailableError, match="there is no topic"):
        prepare_recalled_topic(none, 1)
    place = new_place(partitions=1, replicas=2)
    for partitions in (1, 1, 3):
        prepare_recalled_topic(place, partitions)
        kafka_cluster.wait_known(recalled_topic_of(place), partitions)
        admin = AdminClient(settings_of(place))
        topic = admin.list_topics(timeout=30).topics[recalled_topic_of(place)]
        assert len(topic.partitions) == partitions
        assert {len(each.replicas) for each in topic.partitions.values()} == {2}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"cleanup_policy": "compact"}, "cleanup.policy is compact"),
        ({"retention_ms": "-1", "retention_bytes": "-1"}, "nothing would be deleted"),
        ({"max_message_bytes": "1000"}, "pieces are too long"),
    ],
)
def test_a_topic_that_was_made_otherwise_is_refused(new_place, kafka_cluster, settings, fault):
    """By the name of the setting, with the cure."""
    place = new_place(partitions=1)
    taken = {"max_message_bytes": str(MESSAGE_BYTES_MAX)} | settings
    kafka_cluster.create_topic(recalled_topic_of(place), 1, 1, **taken)
    with pytest.raises(SettingsError, match=fault) as refused:
        prepare_recalled_topic(place, 1)
    name = next(iter(settings)).replace("_", ".")
    assert f"--add-config {name}={MADE[name]}" in str(refused.value)
