"""What figures are held against, measured in the same run on the same machine.

The bare exchange and ``fdatasync`` are measured before each group and after the last one, with no
server running. A group is held against the mean of both sides: the machine changes within an hour.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import _exchange

EXCHANGE_S = 3.0
SYNC_S = 1.5
"""Full lengths; a quick run takes its share of them."""

RECORD = b"x" * 1024
SEGMENT_BYTES = 64 << 20
EMPTY_SESSION = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.master('local[2]').getOrCreate()\n"
    "print('ready', flush=True)\n"
    "spark.stop()\n"
)


class Yardsticks(NamedTuple):
    """The units of a group.

    Attributes:
        bare_rate: Bare exchanges a second.
        bare_cpu_us: CPU of a bare exchange, both ends, microseconds.
        sync_p50_ms: Write of 1 KB and its ``fdatasync``, in an allocated file, p50.
        sync_p99_ms: The same, p99.
    """

    bare_rate: float
    bare_cpu_us: float
    sync_p50_ms: float
    sync_p99_ms: float

    def mean(self, other):
        """The mean of two measurements."""
        return Yardsticks(*(statistics.fmean(pair) for pair in zip(self, other, strict=True)))


def measure(scale):
    """The machine as it is now."""
    bare, synced_ms = _exchange.measure(EXCHANGE_S * scale), sorted(_syncs_ms(SYNC_S * scale))
    return Yardsticks(
        bare["rate"],
        bare["cpu_us"],
        synced_ms[len(synced_ms) // 2],
        synced_ms[len(synced_ms) * 99 // 100],
    )


def _syncs_ms(seconds):
    """How long each of many synced writes took, where data directories of a run are made."""
    took_ms = []
    with tempfile.NamedTemporaryFile(prefix="distributary-bench-", buffering=0) as file:
        handle, position = file.fileno(), 0
        os.posix_fallocate(handle, 0, SEGMENT_BYTES)
        os.fdatasync(handle)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            began_s = time.perf_counter()
            os.pwrite(handle, RECORD, position)
            os.fdatasync(handle)
            took_ms.append((time.perf_counter() - began_s) * 1e3)
            position = (position + len(RECORD)) % SEGMENT_BYTES
    return took_ms


def empty_session_s():
    """Seconds from the start of a program to its empty PySpark session on two local cores."""
    command, began_s = [sys.executable, "-c", EMPTY_SESSION], time.monotonic()
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as program,
    ):
        said, took_s = program.stdout.readline(), time.monotonic() - began_s
        if said != b"ready\n":
            log.seek(0)
            raise RuntimeError(log.read().decode()[-2000:])
    return took_s
