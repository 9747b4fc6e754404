"""The writer of the format ``distributary``: batches and streams, to a receiver over HTTP.

The server is a real one, which need not be ready to deliver: it takes events from the start.
"""

import contextlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct

from distributary.core.log import Reader
from kit import publish_job, short_jvm
from kit.running_server import Role, RunningServer, ServerError, wait_until

ROOT = Path(__file__).parents[2]
KILLED = 20_000
"""Rows of the job that is killed: some seconds of publishing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of two partitions that takes each event once within an hour."""
    folder = tmp_path_factory.mktemp("publish")
    running = RunningServer(folder / "data", flags=["--partitions", "2", "--once-window-s", "1h"])
    running.start()
    try:
        wait_until(lambda: _answers(running), 60.0, "the port is served")
        yield running
    finally:
        running.stop()


def _answers(server: RunningServer) -> bool:
    try:
        return server.request("GET", "/healthz").status == 200
    except (OSError, ServerError):
        return False


def _logged(spark: SparkSession, server: RunningServer, source: str) -> DataFrame:
    log = spark.read.format("distributary").load(str(server.data_dir))
    return log.where(col("source") == source)


def _publish(frame: DataFrame, server: RunningServer, **options: Any) -> None:
    writer = frame.write.format("distributary").option("url", server.url)
    writer.options(**options).mode("append").save()


def test_a_frame_is_published(spark: SparkSession, server: RunningServer) -> None:
    """Each row is an event, with every column in its place; read back, it is the same."""
    frame = spark.range(0, 2_500, 1, 3).select(
        col("id"),
        col("id").cast("string").alias("subject"),
        struct(col("id").alias("n")).alias("data"),
        struct((col("id") % 2 == 0).alias("even")).alias("extensions"),
    )
    _publish(frame, server, source="/frame", type="counted")
    rows = _logged(spark, server, "/frame").orderBy(col("id").cast("int")).collect()
    assert [row.id for row in rows] == [str(number) for number in range(2_500)]
    last = rows[-1]
    assert (last.type, last.subject, last.datacontenttype) == (
        "counted",
        "2499",
        "application/json",
    )
    assert (json.loads(last.data), last.extensions) == ({"n": 2499}, {"even": "false"})


def test_refused_rows_are_named_and_all_others_published(
    spark: SparkSession, server: RunningServer
) -> None:
    """One error of the driver for all tasks; or a warning where they are to be left out."""
    frame = spark.range(0, 40, 1, 2).selectExpr(
        "id", "if(id % 10 = 3, 'yesterday', '2026-01-31T12:00:00Z') AS time"
    )
    with pytest.raises(PySparkException) as caught:
        _publish(frame, server, source="/refused", type="t")
    text = str(caught.value)
    assert "4 rows were refused (faults: time 4), 36 are published" in text
    assert "partition 0, row 3, id '3', time: time" in text
    assert "partition 1, row 13, id '33', time: time" in text
    assert _logged(spark, server, "/refused").count() == 36
    _publish(frame, server, source="/skipped", type="t", rejected="skip")
    assert _logged(spark, server, "/skipped").count() == 36


def test_nothing_is_sent_where_columns_or_options_are_wrong(
    spark: SparkSession, server: RunningServer
) -> None:
    """One error names every fault of both, and of the mode."""
    frame = spark.range(3).selectExpr("id", "id AS total", "'/wrong' AS source")
    with pytest.raises(PySparkException) as caught:
        frame.write.format("distributary").option("url", server.url).option("broke", "a/b").mode(
            "overwrite"
        ).save()
    for part in ("broke: unknown; did you mean broker?", "total: no column", "type: missing"):
        assert part in str(caught.value)
    assert "use mode append" in str(caught.value)
    assert _logged(spark, server, "/wrong").count() == 0


def test_an_unknown_broker_fails_the_write(spark: SparkSession, server: RunningServer) -> None:
    """At the first response: no row is to blame."""
    frame = spark.range(3).selectExpr("id")
    with pytest.raises(PySparkException, match="the server answered 404 notfound"):
        _publish(frame, server, source="/lost", type="t", broker="none/such")


def test_ids_that_are_made_repeat_with_the_run(spark: SparkSession, server: RunningServer) -> None:
    """A named run that is repeated has the same ids, taken once; one without a name never has."""
    frame = spark.range(0, 20, 1, 2).selectExpr("cast(id AS string) AS subject")
    for _ in range(2):
        _publish(frame, server, source="/runs", type="t", run="nightly-2026-01-31")
        _publish(frame, server, source="/runs", type="t")
    found = _logged(spark, server, "/runs").groupBy("id").count().collect()
    assert [row["count"] for row in found] == [1] * 60


def test_a_secret_stands_in_no_plan_and_no_error(
    spark: SparkSession, server: RunningServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither in what Spark shows of the write, nor in what it logs when that fails."""
    secret = tmp_path / "key"
    secret.write_text("dk_never_shown\n")
    frame = spark.range(3).selectExpr("id")
    with pytest.raises(PySparkException) as caught:
        _publish(frame, server, source="/s", type="t", broker="no/such", tokenFrom=f"file:{secret}")
    shown = "".join(capfd.readouterr()) + str(caught.value)
    assert "dk_never_shown" not in shown


def test_a_stream_is_published_and_a_repeated_batch_has_the_same_ids(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    """A micro-batch that is committed nowhere runs again after a restart, with the same ids."""
    arrived, checkpoint = tmp_path / "arrived", tmp_path / "checkpoint"
    spark.range(0, 30, 1, 2).selectExpr("cast(id AS string) AS subject").write.text(str(arrived))

    def run() -> None:
        lines = spark.readStream.schema("value STRING").text(str(arrived))
        query = (
            lines.selectExpr("value AS subject", "'/stream' AS source", "'t' AS type")
            .writeStream.format("distributary")
            .option("url", server.url)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    first = {row.id for row in _logged(spark, server, "/stream").collect()}
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()  # as if the driver had died between the last response and the commit
    run()
    assert len(first) == 30
    assert sorted(row.id for row in _logged(spark, server, "/stream").collect()) == sorted(first)


def test_a_job_and_a_server_that_are_killed_publish_each_event_once(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    """None is missing, none is there twice: the run is repeated, and the server knows its ids."""
    began = _records(server)
    command = [sys.executable, publish_job.__file__, server.url, str(KILLED), str(tmp_path)]
    with (tmp_path / "job.log").open("wb") as output:
        job = psutil.Popen(
            command,
            env=short_jvm.environ(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        wait_until(lambda: _records(server) > began + 2_000 or job.poll() is not None, 120.0, "job")
        for process in [*job.children(recursive=True), job]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        job.wait()
    middle = threading.Thread(target=_kill_in_the_middle, args=(server, began + KILLED // 2))
    middle.start()
    publish_job.publish(spark, server.url, KILLED)
    middle.join()
    found = _logged(spark, server, "/killed").select("id", "subject").collect()
    assert len(found) == len({row.id for row in found}) == KILLED
    assert {row.subject for row in found} == {str(number) for number in range(KILLED)}


def _records(server: RunningServer) -> int:
    total = 0
    for partition in range(2):
        with contextlib.closing(Reader(server.paths.log, partition)) as reader:
            total += reader.durable_end()
    return total


def _kill_in_the_middle(server: RunningServer, records: int) -> None:
    wait_until(lambda: _records(server) > records, 120.0, "half of the events")
    server.kill(Role.INGEST)


def test_the_guide_runs(spark: SparkSession, server: RunningServer, tmp_path: Path) -> None:
    """Every block of docs/how-to/publish-from-spark.md, in order."""
    page = (ROOT / "docs/how-to/publish-from-spark.md").read_text("utf-8")
    blocks = re.findall(r"^```python run-spark\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {
        "spark": spark,
        "url": server.url,
        "data_dir": str(server.data_dir),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    for block in blocks:
        exec(compile(block, "guide", "exec"), names)
    assert len(blocks) == 2
    assert {row.id for row in _logged(spark, server, "/orders").collect()} == {"o-1", "o-2"}
    assert _logged(spark, server, "/alerts").count() == 2
