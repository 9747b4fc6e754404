"""How fast kept dead letters are redriven, beside how fast the same events drain; and their lists.

    python benchmarks/redrive.py [COUNT]

Makes COUNT dead letters (100,000) of events of 1 KB, lists them in parts of 100 from the first to
the last, redrives all of them to the sink that takes them now, and drains the same number of events
in the same run.
"""

import json
import statistics
import sys
import time

from _rig import Rig
from kit.running_server import wait_until

PARTS = 200
WAIT_S_MAX = 300.0
JSON = {"content-type": "application/json"}


def main():
    """Measure it all on one server."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with Rig() as rig:
        sink = rig.sink("_refusing_sink")
        id_ = rig.server.subscribe(sink.url)
        rig.load("closed", connections=64, count=count)

        def kept():
            return rig.server.request("GET", f"/subscriptions/{id_}/status").json()["kept"]["count"]

        wait_until(lambda: kept() == count, WAIT_S_MAX, f"{count} dead letters", 0.5)
        _list(rig)
        sink.ask("take")
        sink.reset()
        used, began_s = rig.meter(), time.monotonic()
        body = json.dumps({"subscription": id_, "run": "again"}).encode()
        assert rig.server.request("POST", "/dead-letters/redrive", body, JSON).status == 202
        sink.wait_for(count)
        took_s = time.monotonic() - began_s
        cpu_us = sum(used().values()) / count * 1e6
        wait_until(
            lambda: rig.server.request("GET", "/runs/again").json()["state"] == "done",
            WAIT_S_MAX,
            "the run is done",
        )
        arrived = sink.ask("stats")
        assert arrived["count"] == count
        print(f"redriven: {count / took_s:,.0f}/s, {cpu_us:.1f} us of CPU each", flush=True)
        sink.reset()
        with rig.stopped_pipeline():
            rig.load("closed", connections=64, count=count)
            used = rig.meter()
        arrived = sink.wait_for(count)
        rate = count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)
        cpu_us = sum(used().values()) / count * 1e6
        print(f"as many events drain: {rate:,.0f}/s, {cpu_us:.1f} us of CPU each")


def _list(rig):
    path, times = "/dead-letters?limit=100", []
    while path is not None and len(times) < PARTS:
        began_s = time.perf_counter()
        answer = rig.server.request("GET", path)
        times.append((time.perf_counter() - began_s) * 1e3)
        assert len(answer.json()) == 100
        link = answer.headers.get("link")
        path = None if link is None else link.partition(">")[0].removeprefix("<")
    p99 = statistics.quantiles(times, n=100)[98]
    print(f"a part of 100: p50 {statistics.median(times):.1f} ms, p99 {p99:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
