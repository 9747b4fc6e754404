"""How fast kept dead letters are redriven, beside how fast the same events drain; and their lists.

    python benchmarks/redrive.py [COUNT] [KILLS]

Makes COUNT dead letters (100,000) of events of 1 KB, lists them in parts of 100 from the first to
the last, redrives all of them to the sink that takes them now, and drains the same number of events
in the same run. Meanwhile owners are killed (``kill -9``) KILLS times (0), at equal distances: each
dead letter has to arrive, and more than once only what was under way at a kill.
"""

import json
import statistics
import sys
import time

from _rig import Rig
from kit.running_server import Role, wait_until

PARTS = 200
COPIES_MAX = 2_500
"""Of one kill: what was under way, or delivered and not written down (2,048)."""
WAIT_S_MAX = 300.0
JSON = {"content-type": "application/json"}


def main():
    """Measure it all on one server."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 0
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
        for number in range(kills):
            _kill(rig, sink, count * (number + 1) // (kills + 1), number)
        wait_until(lambda: _different(sink) == count, WAIT_S_MAX, f"{count} arrivals", 0.25)
        took_s = time.monotonic() - began_s
        cpu_us = sum(used().values()) / count * 1e6
        wait_until(
            lambda: rig.server.request("GET", "/runs/again").json()["state"] == "done",
            WAIT_S_MAX,
            "the run is done",
        )
        copies = sink.ask("stats")["count"] - count
        assert copies <= kills * COPIES_MAX, copies
        assert kept() == 0
        print(
            f"redriven over {kills} kills: {count / took_s:,.0f}/s, {cpu_us:.1f} us of CPU each,"
            f" {copies:,} copies",
            flush=True,
        )
        if kills:
            rig.server.wait_ready(WAIT_S_MAX)
        sink.reset()
        with rig.stopped_pipeline():
            rig.load("closed", connections=64, count=count)
            used = rig.meter()
        arrived = sink.wait_for(count)
        rate = count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)
        cpu_us = sum(used().values()) / count * 1e6
        print(f"as many events drain: {rate:,.0f}/s, {cpu_us:.1f} us of CPU each")


def _different(sink):
    return sink.ask("stats")["different"]


def _kill(rig, sink, enough, number):
    """Kill an owner once *enough* have arrived."""
    wait_until(lambda: _different(sink) >= enough, WAIT_S_MAX, f"{enough} arrivals", 0.05)
    rig.server.kill(Role.WRITER, number)


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
