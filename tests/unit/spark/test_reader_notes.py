"""When a stream with a name tells retention how far it is."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from distributary.core.errors import SettingsError
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


@pytest.fixture
def stream(clock, tmp_path):
    """A stream with a name, of a log in which nothing is."""
    log = DataDir(tmp_path).log
    open_folder(log, 1)
    Appender.open(log, 0, clock=clock).close()
    source = DistributarySource({"path": str(tmp_path), "reader": "hourly"})
    made = source.streamReader(source.schema())
    yield made
    made.stop()


def test_a_reader_of_an_idle_log_says_once_an_hour_that_it_is_there(clock, stream, tmp_path):
    """No micro-batch ends where nothing comes: after seven days it would be forgotten."""
    notes, told = ReaderFiles(DataDir(tmp_path).readers), []
    for _ in range(26):
        stream.latestOffset({"0": 0}, ReadAllAvailable())
        told.append(notes.read()["hourly"].at_ms)
        clock.move_to(clock.monotonic_s() + NOTED_S / 2)
    assert len(set(told)) == 13


def _full(*_):
    raise OSError(28, "No space left on device")


def test_a_reader_that_cannot_note_its_position_does_not_begin(stream, monkeypatch):
    """Retention would not hold the log for it, and nobody would know."""
    monkeypatch.setattr(ReaderFiles, "write", _full)
    with pytest.raises(SettingsError, match="its position cannot be noted"):
        stream.latestOffset({"0": 0}, ReadAllAvailable())


def test_a_reader_outlives_an_hour_in_which_it_cannot_note_its_position(clock, stream, monkeypatch):
    """It is forgotten after seven days, not before."""
    stream.latestOffset({"0": 0}, ReadAllAvailable())
    monkeypatch.setattr(ReaderFiles, "write", _full)
    clock.move_to(clock.monotonic_s() + NOTED_S)
    assert stream.latestOffset({"0": 0}, ReadAllAvailable()) == {"0": 0}
