"""The options of the Spark format, as Spark hands them over: strings."""

import pytest

from distributary.core.errors import SettingsError
from distributary.spark._options import EARLIEST, LATEST, Bound, parse_options


def test_a_path_is_enough() -> None:
    """The default is everything that is kept, up to the durable end."""
    options = parse_options({"path": "events"})
    assert (str(options.places.data_dir), options.start.kind, options.end.kind) == (
        "events",
        "earliest",
        "latest",
    )
    assert options.records_per_trigger_max is None
    assert options.fail_on_data_loss


def test_names_are_read_in_any_case() -> None:
    """Spark's options ignore case."""
    options = parse_options({"PATH": "x", "MAXRECORDSPERTRIGGER": "7", "failondataloss": "False"})
    assert (options.records_per_trigger_max, options.fail_on_data_loss) == (7, False)


def test_offsets_come_as_json() -> None:
    """Numbers are offsets; -1 and -2 mean what they mean for Spark's Kafka source."""
    options = parse_options({"path": "x", "startingOffsets": '{"0": 12, "1": -1, "2": -2}'})
    assert options.start == Bound("offsets", {0: 12, 1: LATEST, 2: EARLIEST})


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        pytest.param("1970-01-01T00:00:01Z", 1000, id="utc"),
        pytest.param("1970-01-01T01:00:01+01:00", 1000, id="offset"),
        pytest.param("1970-01-01T00:00:00.0001Z", 1, id="between-milliseconds"),
        pytest.param("1970-01-01T00:00:00Z", 0, id="zero"),
        pytest.param("1234", 1234, id="milliseconds"),
    ],
)
def test_times_become_milliseconds(text: str, time_ms: int) -> None:
    """A moment between two milliseconds means the later one: nothing before it is read."""
    options = parse_options({"path": "x", "startingTimestamp": text})
    assert options.start == Bound("time", time_ms=time_ms)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param("startingOffsets", "newest", "expected earliest, latest, or JSON", id="word"),
        pytest.param("startingOffsets", "[1]", "expected earliest, latest, or JSON", id="array"),
        pytest.param("startingOffsets", '{"a": 1}', "'a' is not a partition", id="partition"),
        pytest.param("startingOffsets", '{"0": -3}', "partition 0: an offset", id="negative"),
        pytest.param("startingOffsets", '{"0": true}', "partition 0: an offset", id="boolean"),
        pytest.param("endingOffsets", '{"0": 1.5}', "partition 0: an offset", id="float"),
        pytest.param("startingTimestamp", "yesterday", "expected a time", id="time"),
        pytest.param("endingTimestamp", "2026-01-01T00:00:00", "from UTC is missing", id="naive"),
        pytest.param("maxRecordsPerTrigger", "0", "a number from 1", id="zero"),
        pytest.param("recordsPerTask", "many", "a number from 1", id="not-a-number"),
        pytest.param("failOnDataLoss", "maybe", "true or false", id="truth"),
        pytest.param("startingOffset", "latest", "did you mean startingOffsets", id="misspelt"),
        pytest.param("colour", "red", "known: path, settings, log", id="unknown"),
    ],
)
def test_values_that_cannot_be_read_are_named(name: str, value: str, message: str) -> None:
    """The message names the option and what it takes."""
    with pytest.raises(SettingsError) as caught:
        parse_options({"path": "x", name: value})
    assert f"{name}: " in str(caught.value)
    assert message in str(caught.value)


def test_every_fault_is_named_at_once() -> None:
    """A user mends three mistakes in one go."""
    given = {"startingOffsets": "latest", "startingTimestamp": "1", "maxRecordsPerTrigger": "x"}
    with pytest.raises(SettingsError) as caught:
        parse_options(given)
    message = str(caught.value)
    assert "startingOffsets and startingTimestamp exclude one another" in message
    assert "maxRecordsPerTrigger: " in message
    assert "path: missing" in message


def test_a_reader_of_a_shared_log_needs_the_store() -> None:
    """There it notes how far it is."""
    shared = {"log": "kafka://127.0.0.1:9/p", "reader": "hourly"}
    with pytest.raises(SettingsError, match="reader: needs store"):
        parse_options(shared)
    options = parse_options(shared | {"store": "postgresql://u@127.0.0.1/d"})
    assert options.reader == "hourly"
