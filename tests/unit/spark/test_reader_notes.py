"""When a stream with a name tells retention how far it is."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from distributary.core.log import Appender, open_folder
from distributary.datadir import DataDir
from distributary.datadir.readers import ReaderFiles
from distributary.spark import format as spark_format
from distributary.spark.format import NOTED_S, DistributarySource
from distributary.testing.virtual import VirtualClock


@pytest.fixture
def clock(monkeypatch):
    """The time of the stream."""
    made = VirtualClock()
    monkeypatch.setattr(spark_format, "SystemClock", lambda: made)
    return made


def test_a_reader_of_an_idle_log_says_once_an_hour_that_it_is_there(clock, tmp_path):
    """No micro-batch ends where nothing comes: after seven days it would be forgotten."""
    log = DataDir(tmp_path).log
    open_folder(log, 1)
    Appender.open(log, 0, clock=clock).close()
    source = DistributarySource({"path": str(tmp_path), "reader": "hourly"})
    stream = source.streamReader(source.schema())
    notes, told = ReaderFiles(DataDir(tmp_path).readers), []
    for _ in range(26):
        stream.latestOffset({"0": 0}, ReadAllAvailable())
        told.append(notes.read()["hourly"].at_ms)
        clock.move_to(clock.monotonic_s() + NOTED_S / 2)
    assert len(set(told)) == 13
    stream.stop()
