"""What the jobs of this folder share: their arguments, and a session on this machine."""

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import distributary.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_FOLDER = TemporaryDirectory(prefix="distributary-")
"""Nobody else's, since Java is started from it; gone when the job ends."""


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with what every job needs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data-dir", required=True, help="of the server whose events are read")
    parser.add_argument("--url", required=True, help="of the server that gets the new events")
    return parser


def stream_arguments(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with what every job over a stream needs."""
    parser = arguments(description)
    parser.add_argument("--checkpoint", required=True, help="folder for how far the job has come")
    parser.add_argument("--once", action="store_true", help="end when all events are read")
    return parser


def open_session(name: str) -> "SparkSession":
    """Returns a session of two threads, with the format ``distributary``.

    On a cluster, leave this out: ``spark-submit`` chooses master, Java and Python.
    """
    java = distributary.spark.find_java(os.environ)
    folder = Path(_FOLDER.name)
    os.environ.update(distributary.spark.java_environment(java, folder))
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after Java is chosen

    spark = (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    distributary.spark.register(spark)
    return spark


def publish(rows: "DataFrame", parsed: argparse.Namespace) -> "StreamingQuery":
    """Start to publish *rows*, a stream; ends when all are read if ``--once`` was given."""
    writer = rows.writeStream.format("distributary").option("url", parsed.url)
    writer = writer.option("checkpointLocation", parsed.checkpoint)
    if parsed.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime="1 second").start()
