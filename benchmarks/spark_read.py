"""How fast Spark reads the log: all columns, a count, and one type of a hundred.

    python benchmarks/spark_read.py [COUNT]

Makes a log of two partitions with COUNT events (500,000) of 1 KB in binary form, of a hundred
types, and reads it with a session of two cores: with push-down and without, all
columns and chosen ones.
Each read runs twice and the second one counts. Beside the rates stand the bytes of bodies that were
parsed, which a reader in this process counts.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from distributary.core.clock import SystemClock
from distributary.core.event import binary
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, Reader, open_folder
from distributary.spark import _columns, _pushed, find_java, java_environment, register

TYPES = 100
COMMIT = 1_000
NARROW = "id STRING, type STRING, logged_at TIMESTAMP"
WANTED = "com.example.order.t07"


def _record(number):
    lines = (
        "ce-specversion: 1.0\r\n",
        f"ce-id: {number:012d}\r\n",
        "ce-source: /benchmarks/spark\r\n",
        f"ce-type: com.example.order.t{number % TYPES:02d}\r\n",
        "ce-time: 2026-01-31T12:00:00.123Z\r\n",
        "content-type: application/json\r\n",
    )
    return binary.encode([line.encode() for line in lines], b'{"x":"' + b"x" * 820 + b'"}')


def _make(log_dir, count):
    """Append *count* events, to both partitions in turn."""
    open_folder(log_dir, 2)
    for partition in range(2):
        appender = Appender.open(log_dir, partition, clock=SystemClock())
        for first in range(0, count // 2, COMMIT):
            entries = [(RecordKind.EVENTS, _record(first + n)) for n in range(COMMIT)]
            appender.append(entries)
        appender.close()


def _parsed(log_dir, pushed):
    """Bytes of bodies that a reader parses with *pushed*, and of all bodies."""
    parsed = whole = 0
    may_match = pushed.may_match()
    for partition in range(2):
        reader = Reader(log_dir, partition)
        for entry in reader.read(0, reader.durable_end()):
            whole += len(entry.body)
            parsed += len(entry.body) if may_match(entry) else 0
        reader.close()
    return parsed, whole


def _in_process(log_dir, columns, pushed):
    """Events a second of CPU of one process, from files to Arrow."""
    began_s = time.process_time()
    reader = Reader(log_dir, 0)
    end = reader.durable_end()
    for _ in _columns.batches(0, reader.read(0, end), columns, pushed):
        pass
    reader.close()
    return end / (time.process_time() - began_s)


def _session(folder):
    for name, value in java_environment(find_java(os.environ), folder / "java").items():
        os.environ[name] = value
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - after Java is chosen

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    register(spark)
    return spark


def _read(spark, name, count, schema, ending, *, pushed):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushed).lower())
    for _ in range(2):
        reader = spark.read.format("distributary")
        frame = (reader.schema(schema) if schema else reader).load(name)
        began_s = time.monotonic()
        ending(frame)
        took_s = time.monotonic() - began_s
    return count / took_s


def _whole(frame):
    frame.write.format("noop").mode("overwrite").save()


def _count(frame):
    frame.count()


def _selective(frame):
    _whole(frame.where(f"type = '{WANTED}'"))


def main():
    """Make the log, read it in each way, and print a line for each."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        _make(data_dir / "log", count)
        one_type = _pushed.Pushed(tests=(_pushed.TextTest("type", "equal", (WANTED,)),))
        parsed, whole = _parsed(data_dir / "log", one_type)
        print(f"{count:,} events, {whole / 1e6:,.0f} MB of bodies")
        print(f"one type of {TYPES}: {parsed / 1e6:,.1f} MB of bodies parsed")
        narrow = [each for each in _columns.EVENTS if each.name in NARROW]
        for what, columns, pushed in (
            ("all columns", _columns.EVENTS, _pushed.EVERYTHING),
            ("three columns", narrow, _pushed.EVERYTHING),
            ("one type, all columns", _columns.EVENTS, one_type),
        ):
            rate = _in_process(data_dir / "log", columns, pushed)
            print(f"one process, {what}: {rate:,.0f} a second of CPU", flush=True)
        spark = _session(Path(folder))
        for what, schema, ending, pushed in (
            ("all columns", "", _whole, False),
            ("three columns", NARROW, _whole, False),
            ("count(*), all columns", "", _count, False),
            ("count(*), one column", "partition INT", _count, False),
            ("one type, not pushed", "", _selective, False),
            ("one type, pushed", "", _selective, True),
        ):
            rate = _read(spark, str(data_dir), count, schema, ending, pushed=pushed)
            print(f"Spark, {what}: {rate:,.0f}/s", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
