"""A log that ends before a position: restored, recovered late, or told of by an old leader."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from distributary.core.clock import SystemClock
from distributary.core.errors import LogUnavailableError, RecordsMissingError, SettingsError
from distributary.core.event import Event, record
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, open_folder, partition_dir
from distributary.core.log._end import DurableEnd
from distributary.core.log.disk import SYSTEM_DISK
from distributary.spark import _logs
from distributary.spark._columns import EVENTS
from distributary.spark._log_reads import Log
from distributary.spark._options import parse_options
from distributary.spark.archive import manifest
from distributary.spark.format import _StreamReader

ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def fill(data_dir, partition, count):
    """Append so many records."""
    appender = Appender.open(data_dir / "log", partition, clock=SystemClock())
    for _ in range(count):
        appender.append([(RecordKind.EVENTS, record.encode([Event(ATTRIBUTES, b"")]))])
    appender.close()


@pytest.fixture
def data_dir(tmp_path):
    """Four records in partition 0, none in partition 1."""
    open_folder(tmp_path / "log", 2)
    fill(tmp_path, 0, 4)
    fill(tmp_path, 1, 0)
    return tmp_path


def stream(data_dir, **options):
    """A stream's reader."""
    return _StreamReader(parse_options({"path": str(data_dir), **options}), list(EVENTS))


def ranges(reader, start, end):
    """What a micro-batch reads."""
    return [tuple(slice_.parts[0]) for slice_ in reader.partitions(start, end)]


def test_a_stream_beyond_the_end_of_the_log_fails(data_dir):
    """A restored log uses offsets again: whoever waits until it reaches them passes over events."""
    reader = stream(data_dir)
    assert reader.latestOffset({"0": 4, "1": 0}, ReadAllAvailable()) == {"0": 4, "1": 0}
    said = "partition 0: the log ends at 4, before the position 9 of this query"
    with pytest.raises(RecordsMissingError, match=said):
        reader.latestOffset({"0": 9, "1": 0}, ReadAllAvailable())
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(RecordsMissingError, match="begin with a new checkpoint"):
        reader.latestOffset({"0": 9, "1": 0}, ReadAllAvailable())


def test_a_micro_batch_that_is_repeated_beyond_the_end_fails(data_dir):
    """It was planned before the log was restored; so was one of more partitions."""
    reader = stream(data_dir)
    assert ranges(reader, {"0": 2}, {"0": 4}) == [(0, 2, 4)]
    for start, end in (({"0": 2}, {"0": 9}), ({"0": 9}, {"0": 3}), ({"2": 0}, {"2": 1})):
        with pytest.raises(RecordsMissingError, match="restored from a backup, or replaced"):
            reader.partitions(start, end)


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(1)], ids=["all", "some"])
def test_a_stream_that_may_lose_data_goes_on_from_the_end(data_dir, limit):
    """It warns, and reads what comes next."""
    reader = stream(data_dir, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="goes on from that end"):
        found = reader.latestOffset({"0": 9, "1": 0, "2": 3}, limit)
    assert found == {"0": 4, "1": 0}
    assert ranges(reader, {"0": 9, "1": 0, "2": 3}, found) == []
    fill(data_dir, 0, 1)
    after = reader.latestOffset(found, limit)
    assert ranges(reader, found, after) == [(0, 4, 5)]
    with pytest.warns(UserWarning, match="before the position 9"):
        assert ranges(reader, {"0": 3}, {"0": 9}) == [(0, 3, 5)]


def test_a_log_that_was_not_recovered_yet_is_waited_for(data_dir):
    """After a power cut the published end may be older than the records."""
    end = DurableEnd(SYSTEM_DISK, partition_dir(data_dir / "log", 0), write=True)
    end.publish(1)
    end.close()
    for may_lose in ("true", "false"):
        reader = stream(data_dir, failOnDataLoss=may_lose)
        with pytest.raises(LogUnavailableError, match="start the server"):
            reader.latestOffset({"0": 4}, ReadAllAvailable())


def test_an_archive_ahead_of_the_log_is_not_read_with_it(data_dir):
    """Each offset would be read of the archive that the log uses again."""
    folder = data_dir / "archive" / manifest.MANIFESTS
    folder.mkdir(parents=True)
    (folder.parent / manifest.EVENTS).mkdir()
    log = Log(parse_options({"path": str(data_dir), "archive": str(folder.parent)}), list(EVENTS))

    def archive(to_offset):
        made = manifest.ArchivedRange(
            partition=0,
            from_offset=0,
            to_offset=to_offset,
            events=0,
            check=0,
            from_ms=0,
            to_ms=0,
            last_checksum=0,
            name=manifest.range_name(0, 0, to_offset, "0" * 16),
            files=(),
        )
        content = manifest.encode(manifest.Manifest(format=1, number=1, ranges=(made,)))
        (folder / manifest.manifest_name(1)).write_bytes(content)

    archive(3)
    assert log.plan({}, {0: 4, 1: 0}) == [(0, 3, 4)]
    archive(5)
    with pytest.raises(SettingsError, match="archived to 5 and the log ends at 4"):
        log.plan({}, {0: 4, 1: 0})


class Ends:
    """Tells these ends of one partition, one after the other, and the last one again."""

    def __init__(self, *ends):
        self._ends = list(ends)

    def count(self):
        return 1

    def read(self, partitions):
        assert partitions == 1
        return [self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]]

    def starts(self, partitions):
        return [0] * partitions


@pytest.mark.parametrize("said", [(3, 3, 7), (3,)], ids=["late", "lost"])
def test_an_end_that_an_old_leader_tells_is_asked_again(said, monkeypatch):
    """A leader of Kafka that is none any more tells an older end, for a moment."""
    monkeypatch.setattr(_logs, "CERTAIN_S", 0.05)
    monkeypatch.setattr(_logs, "_AGAIN_S", 0.001)
    reader = _StreamReader(parse_options({"log": "kafka://127.0.0.1:1/p"}), list(EVENTS))
    reader._log._log._ends = Ends(*said)
    if len(said) > 1:
        assert reader.latestOffset({"0": 7}, ReadAllAvailable()) == {"0": 7}
    else:
        with pytest.raises(RecordsMissingError, match="ends at 3, before the position 7"):
            reader.latestOffset({"0": 7}, ReadAllAvailable())
