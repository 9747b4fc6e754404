"""A program that loads the classes of the pipeline, for the archive of classes (``class_archive``).

It runs a query of the pipeline's form in a folder of its own, then ends its JVM, which writes the
archive.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.spark.delivery_columns import COLUMNS
from distributary.spark.delivery_source import counted_rows
from distributary.spark.python import write_shim
from distributary.spark.session import open_session

if TYPE_CHECKING:
    import pyarrow as pa


def _load(folder: Path) -> None:
    """Load what the pipeline loads: run a query of its form in *folder*, then end the JVM."""
    os.environ["PYSPARK_PYTHON"] = str(write_shim(folder / "bin"))
    spark = open_session(
        folder, 1, "local", {}, contextlib.nullcontext(), sockets=folder / "sockets"
    )
    query = (
        counted_rows(spark, _rows, 1)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )
    while not query.recentProgress:
        if (error := query.exception()) is not None:
            raise error
        time.sleep(0.1)
    query.stop()
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - nothing public names the process
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _rows(numbers: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Rows as the pipeline has them."""
    import pyarrow as pa  # noqa: PLC0415 - in the worker alone

    for _ in numbers:
        columns = [pa.array([0], pa.int32())] + [pa.array([0], pa.int64())] * (len(COLUMNS) - 1)
        yield pa.record_batch(columns, names=list(COLUMNS))


if __name__ == "__main__":
    _load(Path(sys.argv[1]))
