"""The public Spark format ``distributary``, read by a real Spark from a real log."""

import contextlib
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from distributary.datadir import DataDir
from distributary.datadir.readers import ReaderFiles
from distributary.spark import _columns, register
from distributary.spark._schema import arrow_schema, spark_schema

ROOT = Path(__file__).parents[2]


def _read(spark: SparkSession, log: Any, **options: str | int) -> DataFrame:
    return spark.read.format("distributary").options(**log.options, **options).load()


def _ids(frame: DataFrame) -> list[str]:
    return [row.id for row in frame.orderBy("partition", "offset", "index").collect()]


@pytest.mark.usefixtures("spark")
def test_columns_agree_with_what_spark_makes_of_them() -> None:
    """The Arrow schema that we send is the one that Spark derives from the columns."""
    schema = spark_schema(_columns.EVENTS)
    assert to_arrow_schema(schema, timezone="UTC") == arrow_schema(_columns.EVENTS)


def test_a_row_is_the_event(spark: SparkSession, any_log: Any, event: Callable[..., Any]) -> None:
    """Every attribute is in its column or in the map; the payload is byte for byte."""
    attributes: dict[str, Any] = {
        "subject": "a/b",
        "time": "2026-01-31T12:00:00.123456789+14:00",
        "datacontenttype": "application/json",
        "dataschema": "https://example.com/s",
        "sequence": 7,
        "urgent": True,
        "text": "grün",
    }
    any_log.append(1, event("one", b'{"a":  1.10}', **attributes))
    (row,) = _read(spark, any_log).collect()
    assert row.asDict() == {
        "partition": 1,
        "offset": 0,
        "index": 0,
        "logged_at": datetime.fromtimestamp(1_700_000_000, UTC).replace(tzinfo=None),
        "address": "",
        "ttl": 32,
        "specversion": "1.0",
        "id": "one",
        "source": "/s",
        "type": "t",
        "subject": "a/b",
        "time": datetime(2026, 1, 30, 22, 0, 0, 123456, UTC).replace(tzinfo=None),
        "time_text": "2026-01-31T12:00:00.123456789+14:00",
        "datacontenttype": "application/json",
        "dataschema": "https://example.com/s",
        "extensions": {"sequence": "7", "urgent": "true", "text": "grün"},
        "data": bytearray(b'{"a":  1.10}'),
    }


def test_absent_is_null_and_empty_is_empty(
    spark: SparkSession, log: Any, event: Callable[..., Any]
) -> None:
    """No payload is NULL, a payload of no bytes is not; absent attributes are NULL."""
    log.append(0, event("none"), event("empty", b""))
    none, empty = _read(spark, log).orderBy("index").collect()
    assert (none.data, none.subject, none.time, none.extensions) == (None, None, None, {})
    assert empty.data == b""


def test_batches_have_an_index_and_control_records_are_no_rows(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """A batch is one record; a route record takes an offset and gives no row."""
    any_log.append(0, event("a"), event("b"))
    any_log.append_control(0, b"{}")
    any_log.append(0, event("c"))
    rows = _read(spark, any_log).orderBy("offset", "index").collect()
    assert [(row["offset"], row["index"], row["id"]) for row in rows] == [
        (0, 0, "a"),
        (0, 1, "b"),
        (2, 0, "c"),
    ]


def test_events_of_all_brokers_and_channels_are_rows(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """In the order of the log, with where each was published and the passes that it has left."""
    any_log.append(0, event("a"))
    any_log.append_addressed(0, "broker-uid", event("b"), event("c"), ttl=7)
    any_log.append(0, event("d"))
    any_log.append_addressed(0, "other-uid", event("e"), ttl=9, carried=b"x-request-id: r\r\n")
    rows = _read(spark, any_log).orderBy("offset", "index").collect()
    assert [(row["id"], row["address"], row["ttl"]) for row in rows] == [
        ("a", "", 32),
        ("b", "broker-uid", 7),
        ("c", "broker-uid", 7),
        ("d", "", 32),
        ("e", "other-uid", 9),
    ]


def test_events_of_timers_are_no_rows(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """They belong to one subscription; the table holds what was published."""
    any_log.append(0, event("a"))
    any_log.append_timer_event(0, event("tick"))
    any_log.append(0, event("b"))
    assert sorted(_ids(_read(spark, any_log))) == ["a", "b"]


def test_an_empty_log_is_an_empty_table(spark: SparkSession, any_log: Any) -> None:
    """No partition has anything to read."""
    assert _read(spark, any_log).count() == 0


def test_a_range_is_the_same_in_one_task_or_many(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """Cutting a partition into tasks neither loses nor repeats a record."""
    for number in range(50):
        any_log.append(number % 2, event(str(number)))
    many = _read(spark, any_log, recordsPerTask=7)
    assert many.rdd.getNumPartitions() == 8
    assert sorted(_ids(many), key=int) == [str(number) for number in range(50)]


def test_offsets_and_times_bound_a_batch(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """Starts are inclusive, ends exclusive; times are those of appending."""
    for number in range(6):
        any_log.clock.now_ms = 1_700_000_000_000 + number * 1000
        any_log.append(0, event(str(number)))
    by_offset = _read(spark, any_log, startingOffsets='{"0": 2}', endingOffsets='{"0": 4}')
    assert _ids(by_offset) == ["2", "3"]
    by_time = _read(
        spark,
        any_log,
        startingTimestamp="2023-11-14T22:13:21Z",
        endingTimestamp="1700000004000",
    )
    assert _ids(by_time) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"startingOffset": "latest"}, "did you mean startingOffsets", id="misspelt"),
        pytest.param({"startingOffsets": '{"9": 0}'}, "no partition 9", id="no-such-partition"),
    ],
)
def test_mistakes_are_said(
    spark: SparkSession, log: Any, options: dict[str, str], message: str
) -> None:
    """What the user did wrong is in the error that Spark shows."""
    with pytest.raises(PySparkException, match=message):
        _read(spark, log, **options).collect()


def test_a_folder_without_a_log_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """An empty table would hide a wrong path."""
    with pytest.raises(PySparkException, match="no log"):
        spark.read.format("distributary").load(str(tmp_path)).count()


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, log: Any) -> None:
    """A schema chooses among our columns; others would not fit the rows."""
    frame = spark.read.format("distributary").schema("x INT, offset STRING")
    with pytest.raises(PySparkException, match="no column x; offset is BIGINT"):
        frame.load(str(log.data_dir)).count()


def _plan(frame: DataFrame) -> str:
    """What is pushed down, as ``explain`` shows it."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain("formatted")
    return next(line for line in shown.getvalue().splitlines() if "PushedFilters" in line)


def test_conditions_are_pushed_down_and_columns_are_chosen(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """A schema names the columns that are read; explain shows what the reader decides."""
    for number in range(10):
        any_log.clock.now_ms = 1_700_000_000_000 + number * 1000
        any_log.append(0, event(str(number), type=f"t{number % 3}", subject="a b"))
    chosen = spark.read.format("distributary").schema("type STRING, id STRING")
    rows = chosen.options(**any_log.options).load().where("type = 't1' AND length(id) = 1")
    assert [tuple(row) for row in rows.orderBy("id").collect()] == [
        ("t1", "1"),
        ("t1", "4"),
        ("t1", "7"),
    ]
    assert "EqualTo(type,t1)" in _plan(rows)
    late = _read(spark, any_log).where(
        "logged_at >= '2023-11-14 22:13:25' AND subject LIKE 'a %' AND offset < 8"
    )
    assert _ids(late) == ["5", "6", "7"]
    plan = _plan(late)
    assert "GreaterThanOrEqual(logged_at," in plan
    assert "StringStartsWith(subject,a )" in plan
    assert "LessThan(offset,8)" in plan
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert _ids(_read(spark, any_log).where("type = 't2'")) == ["2", "5", "8"]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_tables_stand_in_a_catalog(
    spark: SparkSession, log: Any, event: Callable[..., Any]
) -> None:
    """Options go with the table; a wrong one fails when the table is made, not later."""
    for number in range(4):
        log.append(0, event(str(number), type=f"t{number % 2}"))
    for _ in range(2):  # again: the tables are replaced
        register(spark, log.data_dir)
    found = spark.sql("SELECT id FROM distributary.events WHERE type = 't1' ORDER BY id")
    assert [row.id for row in found.collect()] == ["1", "3"]
    (comment,) = {
        row.comment
        for row in spark.sql("DESCRIBE distributary.events").collect()
        if row.col_name == "offset"
    }
    assert comment.startswith("offset of the record")
    for mistake, message in (
        ("", "path: missing"),
        (f"OPTIONS (path '{log.data_dir}', startingOffset 'latest')", "did you mean"),
        (f"OPTIONS (path '{log.data_dir}', table 'x')", "table: expected one of events"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"CREATE TABLE mistaken USING distributary {mistake}")
    spark.sql(f"CREATE TABLE narrow (id STRING) USING distributary OPTIONS (path '{log.data_dir}')")
    try:
        with pytest.raises(PySparkException, match="make it again without them"):
            spark.table("narrow").count()
    finally:
        spark.sql("DROP TABLE narrow")
        spark.sql("DROP DATABASE distributary CASCADE")
    assert (log.data_dir / "log" / "FORMAT").exists()


def test_deleted_records_fail_a_read_that_names_them(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """Earliest means what is kept; an offset that is gone is an error unless it may pass."""
    for number in range(30):
        any_log.append(0, event(str(number), b"x" * 8000))
    kept = any_log.delete_oldest(0)
    expected = [str(number) for number in range(kept, 30)]
    assert 0 < kept < 30
    assert _ids(_read(spark, any_log)) == expected
    with pytest.raises(PySparkException, match=f"records 0 to {kept - 1} are deleted"):
        _read(spark, any_log, startingOffsets='{"0": 0}').count()
    passing = _read(spark, any_log, startingOffsets='{"0": 0}', failOnDataLoss="false")
    assert _ids(passing) == expected


def test_a_damaged_record_fails_a_read_unless_it_may_pass(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """One flipped bit costs one record, and nobody overlooks it."""
    any_log.append(0, event("0"))
    any_log.append_damaged(0, event("1", b"payload"))
    any_log.append(0, event("2"))
    with pytest.raises(PySparkException, match="records from 1 are damaged"):
        _read(spark, any_log).count()
    assert _ids(_read(spark, any_log, failOnDataLoss="false")) == ["0", "2"]


def _drain(spark: SparkSession, log: Any, folder: Path, **options: str | int) -> list[Any]:
    """Read what is there into Parquet, keep the checkpoint, and give the progress reports."""
    query = (
        spark.readStream.format("distributary")
        .options(**log.options, **options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    return [batch for batch in query.recentProgress if batch["numInputRows"]]


def _stored(spark: SparkSession, folder: Path) -> list[str]:
    return sorted((row.id for row in spark.read.parquet(str(folder / "out")).collect()), key=int)


def test_a_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, any_log: Any, event: Callable[..., Any], tmp_path: Path
) -> None:
    """Two runs over one checkpoint read every event once; offsets are those of the log."""
    for number in range(10):
        any_log.append(number % 2, event(str(number)))
    first = _drain(spark, any_log, tmp_path)
    assert json.loads(first[-1]["sources"][0]["endOffset"]) == {"0": 5, "1": 5}
    for number in range(10, 13):
        any_log.append(0, event(str(number)))
    second = _drain(spark, any_log, tmp_path)
    assert json.loads(second[0]["sources"][0]["startOffset"]) == {"0": 5, "1": 5}
    assert json.loads(second[-1]["sources"][0]["endOffset"]) == {"0": 8, "1": 5}
    assert _stored(spark, tmp_path) == [str(number) for number in range(13)]


def test_a_stream_over_a_restored_log_says_so(
    spark: SparkSession, log: Any, event: Callable[..., Any], tmp_path: Path
) -> None:
    """Its checkpoint is beyond the end; without ``failOnDataLoss`` it goes on from there."""
    for number in range(10):
        log.append(number % 2, event(str(number)))
    _drain(spark, log, tmp_path)
    restored = type(log)(tmp_path / "restored")
    with contextlib.closing(restored):
        restored.append(0, event("0"))
        with pytest.raises(PySparkException, match="partition 0: the log ends at 1, before the"):
            _drain(spark, restored, tmp_path)
        assert _drain(spark, restored, tmp_path, failOnDataLoss="false") == []
        restored.append(0, event("10"))
        _drain(spark, restored, tmp_path)
    assert _stored(spark, tmp_path) == [str(number) for number in range(11)]


def test_a_stream_with_a_name_notes_how_far_it_is(
    spark: SparkSession, log: Any, event: Callable[..., Any], tmp_path: Path
) -> None:
    """For retention; Spark says that a micro-batch is behind it when it plans the next one."""
    readers = DataDir(log.data_dir).readers
    for number in range(10):
        log.append(number % 2, event(str(number)))
    _drain(spark, log, tmp_path, reader="hourly")
    assert ReaderFiles(readers).read()["hourly"].positions in ({0: 0, 1: 0}, {0: 5, 1: 5})
    log.append(0, event("10"))
    _drain(spark, log, tmp_path, reader="hourly")
    assert ReaderFiles(readers).read()["hourly"].positions in ({0: 5, 1: 5}, {0: 6, 1: 5})


def test_a_micro_batch_takes_no_more_than_it_may(
    spark: SparkSession, any_log: Any, event: Callable[..., Any], tmp_path: Path
) -> None:
    """Ten records in portions of at most four."""
    for number in range(10):
        any_log.append(number % 2, event(str(number)))
    batches = _drain(spark, any_log, tmp_path, maxRecordsPerTrigger=4)
    assert [batch["numInputRows"] for batch in batches] == [4, 4, 2]
    assert _stored(spark, tmp_path) == [str(number) for number in range(10)]


def test_a_stream_may_begin_at_the_end(
    spark: SparkSession, log: Any, event: Callable[..., Any], tmp_path: Path
) -> None:
    """With `latest`, the first run pins the end and later runs read what came after it."""
    log.append(0, event("0"))
    assert _drain(spark, log, tmp_path, startingOffsets="latest") == []
    log.append(0, event("1"))
    _drain(spark, log, tmp_path, startingOffsets="latest")
    assert _stored(spark, tmp_path) == ["1"]


def test_a_stream_has_no_end(spark: SparkSession, log: Any, tmp_path: Path) -> None:
    """An option for an end is refused instead of ignored, and a batch holds nothing."""
    with pytest.raises(PySparkException, match="reader belongs to streams"):
        _read(spark, log, reader="hourly").count()
    with pytest.raises(PySparkException, match="belong to batch reads"):
        _drain(spark, log, tmp_path, endingTimestamp="0")


def test_a_running_stream_sees_what_is_appended(
    spark: SparkSession, any_log: Any, event: Callable[..., Any]
) -> None:
    """Events appended between micro-batches arrive in later ones, in order."""
    any_log.append(0, event("0"))
    query = (
        spark.readStream.format("distributary")
        .options(**any_log.options)
        .load()
        .writeStream.format("memory")
        .queryName("running")
        .start()
    )
    try:
        query.processAllAvailable()
        any_log.append(0, event("1"), event("2"))
        query.processAllAvailable()
    finally:
        query.stop()
    assert [row.id for row in spark.table("running").collect()] == ["0", "1", "2"]


def test_the_examples_of_the_guide_run(
    spark: SparkSession, log: Any, event: Callable[..., Any]
) -> None:
    """Every block of the guide, one after another, over a log with two events."""
    log.append(0, event("1", b'{"total": 12}', datacontenttype="application/json"))
    log.append(1, event("2"))
    namespace = {"spark": spark, "data_dir": str(log.data_dir)}
    page = (ROOT / "docs" / "how-to" / "read-the-log-with-spark.md").read_text("utf-8")
    blocks = re.findall(r"^```python run-spark\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    for block in blocks:
        exec(compile(block, "guide", "exec"), namespace)
    assert spark.table("recent").count() == 2
