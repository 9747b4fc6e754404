"""Events that a batch of Spark publishes, over kills: each is taken once, and none is missing.

    python benchmarks/spark_publish.py [COUNT]

A server keeps a window in which an event is taken once. A job publishes COUNT rows (1,000,000) as
one named run; it is killed when a third of them is in the log, killed again at two thirds, and then
runs to its end, while the receiver is killed once. The table ``events`` tells what was taken.
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from pyspark.sql import functions as sql

from _rig import Rig
from _session import session
from distributary.core.log import Reader
from kit import publish_job
from kit.running_server import Role, wait_until

WAIT_S_MAX = 1_800.0


def _records(server):
    found = 0
    for partition in range(2):
        reader = Reader(server.paths.log, partition)
        found += reader.durable_end()
        reader.close()
    return found


def _job(server, count, folder):
    words = [sys.executable, publish_job.__file__, server.url, str(count), str(folder)]
    path = os.environ.get("PYTHONPATH", "")
    kit = str(Path(publish_job.__file__).parents[1])
    environ = os.environ | {"PYTHONPATH": f"{kit}:{path}"}
    return psutil.Popen(words, env=environ, start_new_session=True)


def _kill(job):
    for process in [*job.children(recursive=True), job]:
        process.kill()
    job.wait()


def _kill_receiver(server, above):
    wait_until(lambda: _records(server) > above, WAIT_S_MAX, "the receiver's time", 0.2)
    server.kill(Role.INGEST)
    print(f"killed the receiver at {_records(server):,} records", flush=True)


def main():
    """Publish over kills, and look at what was taken."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    flags = ("--partitions", "2", "--once-window-s", "1h")
    with tempfile.TemporaryDirectory() as scratch, Rig(*flags) as rig:
        server = rig.server
        began, began_s = _records(server), time.monotonic()
        for third in (1, 2):
            job = _job(server, count, scratch)
            above = began + count * third // 3
            wait_until(
                lambda job=job, above=above: _records(server) > above or job.poll() is not None,
                WAIT_S_MAX,
                "the job's time",
                0.2,
            )
            assert job.poll() is None, "the job ended before it was killed"
            _kill(job)
            print(f"killed the job at {_records(server) - began:,} records", flush=True)
        middle = threading.Thread(target=_kill_receiver, args=(server, began + count * 5 // 6))
        middle.start()
        assert _job(server, count, scratch).wait() == 0
        middle.join()
        took_s = time.monotonic() - began_s
        print(f"published {count:,} rows over all kills in {took_s:.0f} s", flush=True)
        spark = session(Path(scratch))
        table = spark.read.format("distributary").load(str(server.data_dir))
        found = (
            table.where("source = '/killed'")
            .agg(sql.count("*"), sql.count_distinct("id"), sql.count_distinct("subject"))
            .first()
        )
        spark.stop()
        assert tuple(found) == (count, count, count), found
        print(f"in the log: {count:,} events, each id once, no row missing", flush=True)


if __name__ == "__main__":
    main()
