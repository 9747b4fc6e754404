"""What Spark tells about the pipeline: progress with positions, and its UI where that is on."""

import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from distributary.spark.delivery_columns import COLUMNS, COUNTS
from distributary.spark.delivery_source import counted_rows
from kit.answering_sinks import AnsweringSinks
from kit.ports import free_port
from kit.running_server import Role, RunningServer, wait_until

WAIT_S_MAX = 90.0
"""Longest wait for what a stalled machine delays."""


def _task() -> Any:
    """A task whose two rows follow from partition and epoch; workers cannot import this module."""
    names = list(COLUMNS)

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                partition, epoch = row["partition"], row["epoch"]
                for turn in range(2):
                    position = 1000 * partition + 10 * epoch + turn
                    values = [epoch, turn, position, position - 1, 5 - turn, 10, 3, 2]
                    arrays = [pa.array([value], pa.int64()) for value in values]
                    columns = [pa.array([partition], pa.int32()), *arrays]
                    yield pa.record_batch(columns, names=names)

    return rows


@pytest.mark.parametrize("partitions", [1, 3])
def test_progress_has_positions_and_sums_of_each_epoch(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    """Each epoch has one task for each partition, and tells where each stood at the end."""
    query = (
        counted_rows(spark, _task(), partitions)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        wait_until(lambda: len(query.recentProgress) >= 3, WAIT_S_MAX, "three epochs")
        for progress in query.recentProgress[:3]:
            epoch = progress["batchId"] + 1
            assert progress["numInputRows"] == partitions
            counts = progress["observedMetrics"][COUNTS].asDict(recursive=True)
            assert [counts[name] for name in ("records", "attempts", "outcomes")] == [
                2 * each * partitions for each in (10, 3, 2)
            ]
            last = [1000 * number + 10 * epoch + 1 for number in range(partitions)]
            assert sorted(counts["partitions"], key=lambda each: each["partition"]) == [
                {"partition": number, "position": each, "committed": each - 1, "backlog": 4}
                for number, each in enumerate(last)
            ]
    finally:
        query.stop()


SECRET = "s3cr3t-of-the-operator"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with short epochs and Spark's UI."""
    port = free_port()
    conf = f"spark.ui.enabled=true,spark.ui.port={port},spark.my.credential={SECRET}"
    flags = ["--partitions", "2", "--epoch-s", "2s", "--spark-conf", conf]
    folder = tmp_path_factory.mktemp("progress")
    with RunningServer(folder / "data", flags=flags) as running:
        running.ui_port = port
        yield running


def _ui(server: RunningServer, path: str, method: str = "GET") -> str:
    address = f"http://127.0.0.1:{server.ui_port}{path}"
    request = urllib.request.Request(address, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return str(response.read().decode())


def _epochs(server: RunningServer) -> list[dict[str, Any]]:
    """What the log says of Spark's progress, at the beginning of each epoch."""
    lines = map(msgspec.json.decode, server.log.read_bytes().splitlines())
    return [line["spark"] for line in lines if line.get("event") == "epoch-began"]


def test_the_log_of_an_epoch_has_what_spark_reports(server: RunningServer) -> None:
    """Records, matches and positions are those of the events that were published."""
    with AnsweringSinks() as sinks:
        sink = sinks.sink("/all")
        server.subscribe(sink.url)
        for number in range(20):
            fields = {"ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/s"}
            fields |= {"ce-type": "t", "ce-partitionkey": f"k{number}"}
            assert server.request("POST", "/events", b"", fields).status == 202
        sink.wait(20)

        def reported() -> bool:
            found = [each for each in _epochs(server) if each]
            return sum(each["outcomes"] or 0 for each in found) >= 20

        wait_until(reported, WAIT_S_MAX, "Spark has reported the epoch")
    found = [each for each in _epochs(server) if each]
    assert sum(each["records"] for each in found) >= 20
    last = found[-1]["partitions"]
    assert sorted(each["partition"] for each in last) == [0, 1]
    assert sum(each["position"] for each in last) >= 20
    assert all(each["committed"] <= each["position"] for each in last)
    assert [each["backlog"] for each in last] == [0, 0]


def test_sparks_ui_names_partitions_and_epochs(server: RunningServer) -> None:
    """The plan has both as columns, and the query its name."""
    (application,) = msgspec.json.decode(_ui(server, "/api/v1/applications"))
    plans = msgspec.json.decode(_ui(server, f"/api/v1/applications/{application['id']}/sql"))
    assert any(
        "AS partition" in plan["planDescription"] and "AS epoch" in plan["planDescription"]
        for plan in plans
    )
    assert "distributary-pipeline" in _ui(server, "/StreamingQuery/")


def test_sparks_ui_shows_no_secret_and_steers_nothing(server: RunningServer) -> None:
    """It listens on loopback; settings that may be secrets are masked; nobody ends a job there."""
    (application,) = msgspec.json.decode(_ui(server, "/api/v1/applications"))
    shown = _ui(server, f"/api/v1/applications/{application['id']}/environment")
    assert "spark.my.credential" in shown
    assert SECRET not in shown
    pages = _ui(server, "/environment/") + _ui(server, "/jobs/") + _ui(server, "/SQL/")
    assert "/kill/" not in pages
    before = [each.pid for each in server.processes(Role.DRIVER)]
    for path in ("/jobs/job/kill/?id=0", "/stages/stage/kill/?id=0"):
        with pytest.raises(urllib.error.HTTPError):
            _ui(server, path, "POST")
    assert server.request("GET", "/readyz").status == 200
    assert [each.pid for each in server.processes(Role.DRIVER)] == before
    addresses = {
        line.laddr.ip
        for process in psutil.Process(server.pid).children(recursive=True)
        for line in process.net_connections("tcp")
        if line.status == psutil.CONN_LISTEN and line.laddr.port == server.ui_port
    }
    assert {address.removeprefix("::ffff:") for address in addresses} == {"127.0.0.1"}
