"""How fast events are archived, over kills, and sent again from the archive.

    python benchmarks/archive_replay.py [COUNT] [SECONDS]

Makes a log of two partitions with COUNT events (1,000,000) of 1 KB, archives it with a job that is
killed twice in the middle, and looks whether the archive has each record once. Then retention
cuts the log, a server starts on it, and a run replays all of it to a sink: alone, and after that at
30 % of that rate beside 200 events/s to another sink, whose p99 stands beside that without the
replay, over SECONDS (30). Last, as many events drain as were replayed, at most 100,000.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from _rig import Rig
from distributary.core.clock import SystemClock
from distributary.core.event import binary
from distributary.core.flow import RecordKind
from distributary.core.log import Appender, Reader, open_folder, partition_dir, retain
from distributary.core.route import RouteTable
from distributary.datadir import DataDir
from kit.running_server import wait_until

PARTITIONS = 2
COMMIT = 1_000
JSON = {"content-type": "application/json"}
REPLAY_S_MAX = 1_800.0
DRAINED_MAX = 100_000
OLD, NEW = "com.example.archived", "com.example.reading"


def _record(number):
    lines = (
        "ce-specversion: 1.0\r\n",
        f"ce-id: {number:012d}\r\n",
        "ce-source: /benchmarks/archive\r\n",
        f"ce-type: {OLD}\r\n",
        "ce-sentns: 0\r\n",  # the sinks want one
        "ce-time: 2026-01-31T12:00:00.123Z\r\n",
        "content-type: application/json\r\n",
    )
    return binary.encode([line.encode() for line in lines], b'{"x":"' + _text() + b'"}')


def _text():
    """Bytes that Parquet cannot make much smaller."""
    return base64.b64encode(os.urandom(615))


def make_log(paths, count):
    """Append *count* events, to the partitions in turn."""
    open_folder(paths.log, PARTITIONS)
    for partition in range(PARTITIONS):
        appender = Appender.open(paths.log, partition, clock=SystemClock())
        each = count // PARTITIONS
        for first in range(0, each, COMMIT):
            numbers = range(partition * each + first, partition * each + min(first + COMMIT, each))
            appender.append([(RecordKind.EVENTS, _record(number)) for number in numbers])
        appender.close()


def archive(paths, to, kills):
    """Archive all of it; a job is killed after each manifest but one, *kills* times."""
    words = [sys.executable, "-m", "distributary.cli", "archive", "--to", str(to), "--all"]
    words += ["--data-dir", str(paths.root)]
    began_s = time.monotonic()
    for number in range(kills + 1):
        before = len(list(to.glob("manifests/*.json")))
        job = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
        while number < kills and job.poll() is None:
            if len(list(to.glob("manifests/*.json"))) > before:
                time.sleep(2.0)  # in the middle of the next step, if there is one
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGKILL)
                    print(f"killed after manifest {before + 1}", flush=True)
            time.sleep(0.2)
        assert job.wait() == 0 or number < kills
    return time.monotonic() - began_s


def check(to, count):
    """Whether the archive has each event once."""
    ids = set()
    rows = 0
    for path in sorted(to.glob("manifests/*.json")):
        for found in json.loads(path.read_bytes())["ranges"]:
            for file in found["files"]:
                table = pq.read_table(to / "events" / file["path"], columns=["id"])
                rows += len(table)
                ids |= set(map(int, table.column("id").to_pylist()))
    assert (rows, len(ids)) == (count, count), (rows, len(ids), count)
    print(f"{rows:,} rows in the archive, each event once", flush=True)


def cut(paths):
    """Delete what the archive has, but for the newest segment of each partition."""
    left = 0
    for partition in range(PARTITIONS):
        with_end = Reader(paths.log, partition)
        end = with_end.durable_end()
        with_end.close()
        cut_at = retain(
            partition_dir(paths.log, partition),
            end,
            bytes_max=0,
            age_max_s=0.0,
            now_ms=SystemClock().wall_ms(),
            snapshot_at_cut=lambda _cut: RouteTable().frozen()(),
        )
        left += end - cut_at.start
    print(f"{left:,} of them are in the log still", flush=True)


def main():
    """Measure it all."""
    count, seconds = map(int, (*sys.argv[1:], *("1000000", "30")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "archive"

        def prepare(paths):
            paths = DataDir(paths.root)
            paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_log(paths, count)
            took_s = archive(paths, to, 2)
            print(f"archived over two kills in {took_s:.0f} s: {count / took_s:,.0f}/s", flush=True)
            check(to, count)
            cut(paths)

        with Rig("--archive", str(to), prepare=prepare) as rig:
            _replay(rig, count, seconds)


def _replay(rig, count, seconds):
    old, new = rig.sink(), rig.sink()
    for name, sink, type_ in (("old", old, OLD), ("new", new, NEW)):
        wanted = {"sink": sink.url, "protocol": "HTTP", "filters": [{"exact": {"type": type_}}]}
        body = json.dumps(wanted).encode()
        answer = rig.server.request("PUT", f"/subscriptions/{name}", body, JSON)
        assert answer.status == 201, answer.body
    used, began_s = rig.meter(), time.monotonic()
    _ask(rig, "alone")
    wait_until(lambda: old.ask("stats")["count"] > 0, REPLAY_S_MAX, "the first event", 0.1)
    print(f"the first event after {time.monotonic() - began_s:.1f} s", flush=True)
    wait_until(lambda: _run(rig, "alone")["state"] == "done", REPLAY_S_MAX, "the end", 0.5)
    arrived = old.wait_for(count)
    assert arrived["count"] == count, arrived
    rate = count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)
    cpu_us = sum(used().values()) / count * 1e6
    print(f"replayed from the archive: {rate:,.0f}/s, {cpu_us:.0f} us of CPU each", flush=True)
    alone = _p99(rig, new, seconds)
    _ask(rig, "beside", rateLimit=max(1.0, rate * 0.3))
    old.reset()
    wait_until(lambda: old.ask("stats")["count"] > 0, REPLAY_S_MAX, "the second run", 0.1)
    beside = _p99(rig, new, seconds)
    sent = old.ask("stats")["count"]
    rig.server.request("POST", "/runs/beside/cancel")
    print(f"200/s: p99 {alone:.1f} ms alone, {beside:.1f} ms beside {sent / seconds:,.0f}/s again")
    new.reset()
    drained = min(count, DRAINED_MAX)
    with rig.stopped_pipeline():
        rig.load("closed", connections=64, count=drained)
    arrived = new.wait_for(drained)
    drain = drained / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)
    print(f"as many events drain: {drain:,.0f}/s; the replay had {rate / drain:.0%} of it")


def _ask(rig, run, **more):
    body = json.dumps({"from": "2000-01-01T00:00:00Z", "run": run, **more}).encode()
    answer = rig.server.request("POST", "/subscriptions/old/replay", body, JSON)
    assert answer.status == 202, answer.body


def _run(rig, run):
    return rig.server.request("GET", f"/runs/{run}").json()


def _p99(rig, sink, seconds):
    sink.reset()
    sent = rig.load("open", connections=16, rate=200, seconds=seconds)
    return sink.wait_for(sent["count"])["p99_ms"]


if __name__ == "__main__":
    main()
