"""Logs of events of 1 KB, their archive, and retention: what a call made, another goes on with."""

import base64
import os
import signal
import subprocess
import sys
import time

from distributary.core.clock import SystemClock
from distributary.core.event import binary
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, Reader, open_folder, partition_dir, retain
from distributary.core.route import RouteTable

PARTITIONS = 2
COMMIT = 1_000


def event(number, type_, *more):
    """The body of a record: an event in binary form that Parquet cannot make much smaller."""
    lines = (
        "ce-specversion: 1.0\r\n",
        f"ce-id: {number:012d}\r\n",
        "ce-source: /benchmarks/archive\r\n",
        f"ce-type: {type_}\r\n",
        *more,
        "ce-time: 2026-01-31T12:00:00.123Z\r\n",
        "content-type: application/json\r\n",
    )
    text = base64.b64encode(os.urandom(615))
    return binary.encode([line.encode() for line in lines], b'{"x":"' + text + b'"}')


def make_log(log_dir, count, body):
    """Append *count* events, ``body(number)`` each, half to either partition; goes on with a log.

    A partition has one commit or none of each thousand numbers: its end tells where it stands.
    """
    open_folder(log_dir, PARTITIONS)
    each = count // PARTITIONS
    for partition in range(PARTITIONS):
        appender = Appender.open(log_dir, partition, clock=SystemClock())
        reader = Reader(log_dir, partition)
        begun = reader.durable_end()
        reader.close()
        for first in range(begun, each, COMMIT):
            numbers = range(first, min(first + COMMIT, each))
            appender.append(
                [(RecordKind.EVENTS, body(partition * each + number)) for number in numbers]
            )
        appender.close()


def archive(paths, to, kills):
    """Archive all of it; *kills* jobs are killed, each in the middle of a step after a manifest.

    Returns:
        Seconds that it took.
    """
    words = [sys.executable, "-m", "distributary.cli", "archive", "--to", str(to), "--all"]
    words += ["--data-dir", str(paths.root)]
    began_s = time.monotonic()
    for number in range(kills + 1):
        before = _manifests(to)
        job = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
        while number < kills and job.poll() is None:
            if _manifests(to) > before:
                time.sleep(2.0)  # in the middle of the next step, if there is one
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGKILL)
                    print(f"killed after manifest {_manifests(to)}", flush=True)
            time.sleep(0.2)
        assert job.wait() == 0 or number < kills
    return time.monotonic() - began_s


def _manifests(to):
    return len(list(to.glob("manifests/*.json")))


def cut(log_dir):
    """Delete what the archive has, but for the newest segment of each partition.

    Returns:
        Records that are left.
    """
    left = 0
    for partition in range(PARTITIONS):
        reader = Reader(log_dir, partition)
        end = reader.durable_end()
        reader.close()
        cut_at = retain(
            partition_dir(log_dir, partition),
            end,
            bytes_max=0,
            age_max_s=0.0,
            now_ms=SystemClock().wall_ms(),
            snapshot_at_cut=lambda _cut: RouteTable().frozen()(),
        )
        left += end - cut_at.start
    return left
