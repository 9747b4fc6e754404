"""How fast events are archived, over kills, and sent again from the archive.

    python benchmarks/archive_replay.py [COUNT] [SECONDS] [--folder FOLDER] [--log]

Makes a log of two partitions with COUNT events (1,000,000) of 1 KB, archives it with a job that is
killed twice in the middle, and looks whether the archive has each record once. Then retention
cuts the log, a server starts on it, and a run replays all of it to a sink: alone, and after that at
30 % of that rate beside 200 events/s to another sink, whose p99 stands beside that without the
replay, over SECONDS (30). Last, as many events drain as were replayed, at most 60,000: the owners
are stopped while these are published.

A FOLDER keeps log and archive for the next call, which copies the log. With ``--log`` nothing is
cut, so the same is replayed from the log.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

import _archive
from _rig import Rig, each_us
from distributary.datadir import DataDir
from kit.running_server import wait_until

JSON = {"content-type": "application/json"}
REPLAY_S_MAX = 1_800.0
DRAINED_MAX = 60_000
OLD, NEW = "com.example.archived", "com.example.reading"


def _body(number):
    return _archive.event(number, OLD, "ce-sentns: 0\r\n")  # the sinks want one


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


def _make(folder, count):
    """Log and archive in *folder*, unless they are there."""
    paths, to = DataDir(folder / "data"), folder / "archive"
    if to.exists():
        return
    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _archive.make_log(paths.log, count, _body)
    took_s = _archive.archive(paths, to, 2)
    print(f"archived over two kills in {took_s:.0f} s: {count / took_s:,.0f}/s", flush=True)
    check(to, count)


def main():
    """Measure it all."""
    options = argparse.ArgumentParser()
    options.add_argument("count", type=int, nargs="?", default=1_000_000)
    options.add_argument("seconds", type=int, nargs="?", default=30)
    options.add_argument("--folder", type=Path)
    options.add_argument("--log", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (asked.folder or Path(scratch)).absolute()
        _make(folder, asked.count)

        def prepare(paths):
            shutil.copytree(folder / "data", paths.root)
            if not asked.log:
                left = _archive.cut(DataDir(paths.root).log)
                print(f"{left:,} of them are in the log still", flush=True)

        with Rig("--archive", str(folder / "archive"), prepare=prepare) as rig:
            _replay(rig, asked.count, asked.seconds)


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
    by_process = each_us(used(), count)
    cpu_us = sum(by_process.values())
    print(f"replayed: {rate:,.0f}/s, {cpu_us:.0f} us of CPU each", flush=True)
    print("    " + ", ".join(f"{name} {us:.1f}" for name, us in by_process.items() if us >= 1))
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
        used = rig.meter()
    arrived = new.wait_for(drained)
    drain_us = sum(used().values()) / drained * 1e6
    drain = drained / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)
    print(f"as many events drain: {drain:,.0f}/s; the replay had {rate / drain:.0%} of it")
    print(f"a drain uses {drain_us:.0f} us of CPU each, {drain_us / cpu_us:.0%} of a replay's")


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
