"""How fast Spark reads log and archive: all columns, a count, and one type of a hundred.

    python benchmarks/spark_read.py [COUNT] [--folder FOLDER] [--steps log,columns,archive,lake,cut]

Makes a log of two partitions with COUNT events (500,000) of 1 KB in binary form, of a hundred
types, and reads it with a session of two cores. The steps:

- ``log``: reads the log with push-down and without. Beside the rates stand the bytes of bodies that
  were parsed, which a reader in this process counts.
- ``columns``: reads chosen columns of it, with Spark and in this process alone.
- ``archive``: archives it with a job that is killed twice in the middle of a step, and compares the
  ids that the files have with those of the log.
- ``lake``: reads the archive in the same ways, as part of the table.
- ``cut``: retention deletes what the archive has; then the table has each event once.

Each read runs once, after a short one that warms up. In a FOLDER that is given, log and archive
stay, and the next call goes on with them: steps may be taken one at a time.
"""

import argparse
import contextlib
import json
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

import _archive
from _session import session
from distributary.core.log import Reader
from distributary.datadir import DataDir
from distributary.spark import _columns, _pushed

TYPES = 100
NARROW = "id STRING, type STRING, logged_at TIMESTAMP"
WANTED = "com.example.order.t07"


def _body(number):
    return _archive.event(number, f"com.example.order.t{number % TYPES:02d}")


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


def _read(spark, made, read, *, pushed=False, to=None):
    """Print the rate of one *read*, with what all processes used; *to*: with this archive."""
    what, schema, ending = read
    spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushed).lower())
    data_dir, count = made
    reader = spark.read.format("distributary")
    if to is not None:
        reader = reader.option("archive", str(to))
    frame = (reader.schema(schema) if schema else reader).load(str(data_dir))
    began_s, before_s = time.monotonic(), _cpu_s()
    ending(frame)
    took_s, used_s = time.monotonic() - began_s, _cpu_s() - before_s
    where = "log" if to is None else "archive"
    rate, cpu_us = count / took_s, used_s / count * 1e6
    print(f"Spark, {where}, {what}: {rate:,.0f}/s, {cpu_us:.1f} us of CPU each", flush=True)


def _cpu_s():
    """CPU seconds of this process, and of the JVM and the workers below it."""
    used = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:4])
    return used


def _whole(frame):
    frame.write.format("noop").mode("overwrite").save()


def _count(frame):
    frame.count()


def _selective(frame):
    _whole(frame.where(f"type = '{WANTED}'"))


def _read_all(spark, made, to=None):
    """A line for each way to read."""
    first = spark.read.format("distributary").option("endingOffsets", '{"0": 1000, "1": 1000}')
    _whole(first.load(str(made[0])))  # Warms up.
    for what, ending, pushed in (
        ("all columns", _whole, False),
        ("count(*)", _count, False),
        ("one type, not pushed", _selective, False),
        ("one type, pushed", _selective, True),
    ):
        _read(spark, made, (what, "", ending), pushed=pushed, to=to)


ONE_TYPE = _pushed.Pushed(tests=(_pushed.TextTest("type", "equal", (WANTED,)),))


def _log(spark, made, _to):
    parsed, whole = _parsed(made[0] / "log", ONE_TYPE)
    print(f"{whole / 1e6:,.0f} MB of bodies; one type: {parsed / 1e6:,.1f} MB parsed", flush=True)
    _read_all(spark, made)


def _chosen_columns(spark, made, _to):
    narrow = [each for each in _columns.EVENTS if each.name in NARROW]
    for what, columns, pushed in (
        ("all columns", _columns.EVENTS, _pushed.EVERYTHING),
        ("three columns", narrow, _pushed.EVERYTHING),
        ("one type, all columns", _columns.EVENTS, ONE_TYPE),
    ):
        rate = _in_process(made[0] / "log", columns, pushed)
        print(f"one process, {what}: {rate:,.0f} a second of CPU", flush=True)
    _read(spark, made, ("three columns", NARROW, _whole))
    _read(spark, made, ("count(*), one column", "partition INT", _count))


def _files(to):
    """The files that manifests name."""
    for path in sorted(to.glob("manifests/*.json")):
        for found in json.loads(path.read_bytes())["ranges"]:
            yield from (to / "events" / file["path"] for file in found["files"])


def _check(frame, count, what):
    """Compare the ids of *frame* with 0 to *count*: none missing, none twice."""
    number = sql.col("id").cast("long")
    found = frame.select(
        sql.count("*"), sql.count_distinct("id"), sql.min(number), sql.max(number)
    ).first()
    assert tuple(found) == (count, count, 0, count - 1), (what, found)
    print(f"{what}: {count:,} rows, each id once", flush=True)


def _archived(spark, made, to):
    data_dir, count = made
    took_s = _archive.archive(DataDir(data_dir), to, 2)
    print(f"archived over two kills in {took_s:.0f} s: {count / took_s:,.0f}/s", flush=True)
    _check(spark.read.parquet(*map(str, _files(to))), count, "files of the archive")


def _lake(spark, made, to):
    wanted = whole = 0
    for path in _files(to):
        found = pq.read_metadata(path)
        at = found.schema.names.index("type")
        for number in range(found.num_row_groups):
            group = found.row_group(number)
            types = group.column(at).statistics
            whole += group.total_byte_size
            wanted += group.total_byte_size if types.min <= WANTED <= types.max else 0
    print(f"{whole / 1e6:,.0f} MB in row groups; one type: {wanted / 1e6:,.1f} MB decoded")
    _read_all(spark, made, to)


def _cut(spark, made, to):
    data_dir, count = made
    left = _archive.cut(data_dir / "log")
    print(f"retention left {left:,} records in the log", flush=True)
    reader = spark.read.format("distributary").schema("id STRING").option("archive", str(to))
    _check(reader.load(str(data_dir)), count, "archive and log as one")


STEPS = {"log": _log, "columns": _chosen_columns, "archive": _archived, "lake": _lake, "cut": _cut}


def main():
    """Make the log, take the steps, and print a line for each read."""
    options = argparse.ArgumentParser()
    options.add_argument("count", type=int, nargs="?", default=500_000)
    options.add_argument("--folder", type=Path)
    options.add_argument("--steps", default=",".join(STEPS))
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (asked.folder or Path(scratch)).absolute()
        data_dir = folder / "data"
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / "archive").exists():
            _archive.make_log(data_dir / "log", asked.count, _body)
        print(f"{asked.count:,} events", flush=True)
        spark = session(Path(scratch))
        for step in asked.steps.split(","):
            STEPS[step](spark, (data_dir, asked.count), folder / "archive")
        spark.stop()


if __name__ == "__main__":
    main()
