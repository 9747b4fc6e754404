"""The driver's threads: from the outbox through the JVM to one merged file that Spark reads."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary.core.clock import SystemClock
from distributary.datadir import DataDir
from distributary.history.local_folder import LocalFolder
from distributary.history.names import HistoryFile
from distributary.history.plan import SMALL_COUNT

WAIT_S = 30.0


def _wait(condition):
    until_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until_s, "waited too long"
        time.sleep(0.05)


def _write(paths, file):
    """The owner's next file, as it appears."""
    rows = range(file.first, file.end)
    table = pa.table({"number": rows, "event_id": [f"id-{row}" for row in rows]})
    path = LocalFolder(paths.history_outbox).path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path.with_name(".new"))
    path.with_name(".new").rename(path)


@pytest.fixture(params=["a URL", "a path"])
def place(request, tmp_path):
    """Where history lies."""
    return f"file://{tmp_path}/history" if request.param == "a URL" else f"{tmp_path}/history"


def test_files_are_moved_and_merged_while_the_driver_runs(spark, tmp_path, place):
    """Rows are where Spark reads them soon after they were written, and each is there once."""
    from distributary.spark.history import History  # noqa: PLC0415 - imports pyspark

    paths = DataDir(tmp_path / "data")
    today = time.strftime("%Y-%m-%d", time.gmtime(SystemClock().wall_ms() / 1000))
    files = [HistoryFile(today, 0, 2 * n, 2 * n + 2) for n in range(SMALL_COUNT)]
    history = LocalFolder(tmp_path / "history")
    service = History(place, 86400.0, 0, paths, outbox=True)
    service.start()
    try:
        _write(paths, files[0])
        _wait(lambda: [stored.file for stored in history.files()] == files[:1])
    finally:
        service.stop()
    for file in files[1:]:
        _write(paths, file)
    service = History(place, 86400.0, 0, paths, outbox=True)
    service.start()
    try:
        _wait(lambda: not LocalFolder(paths.history_outbox).files())
    finally:
        service.stop()
    service = History(place, 86400.0, 0, paths, outbox=True)
    service.start()
    try:
        merged = [files[0]._replace(end=files[-1].end)]
        _wait(lambda: [stored.file for stored in history.files()] == merged)
        rows = spark.read.parquet(f"{tmp_path}/history").orderBy("number").collect()
        assert [row["number"] for row in rows] == list(range(2 * SMALL_COUNT))
        assert {str(row["date"]) for row in rows} == {today}
    finally:
        service.stop()
