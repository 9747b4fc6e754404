"""What steering and asking do to deliveries at 500 events/s, and what these do to questions.

    python benchmarks/while_events_flow.py [ROUNDS] [SECONDS] [PAUSE_S]

Every event goes to two subscriptions. A round measures how long events take to the first one, each
time for SECONDS: alone, while the second one is paused, and from its resumption on; how long the
second one takes to catch up; and how long finding an event by its id and telling its way take
meanwhile. At the end one pause of PAUSE_S, with how fast it is caught up beside how fast the same
number of events drains. Prints a line a round, and the medians.
"""

import http.client
import itertools
import json
import random
import statistics
import sys
import time

from _rig import Rig

RATE = 500
ASKS_PER_S = 10
IN_FORCE_S = 2.0
"""From the answer to a pause until no owner delivers any more: they learn of it by their routes."""


def main():
    """Run all rounds on one server."""
    rounds, seconds, pause_s = map(int, (*sys.argv[1:], *("5", "12", "60")[len(sys.argv) - 1 :]))
    with Rig() as rig:
        steady, steered = rig.sink(), rig.sink()
        for name, sink in (("steady", steady), ("steered", steered)):
            _call(rig, "PUT", f"/subscriptions/{name}", {"sink": sink.url, "protocol": "HTTP"})
        rig.load("closed", connections=64, count=30_000)
        for sink in (steady, steered):
            sink.wait_for(30_000)
        rig.settle()
        found = [_round(rig, steady, steered, seconds) for _ in range(rounds)]
        for name in found[0]:
            print(f"median of {name}: {statistics.median(each[name] for each in found):.2f}")
        for name in ("paused", "resumed"):
            ratios = [each[f"{name} p99"] / each["alone p99"] for each in found]
            print(f"median of pairs, {name} p99 to alone: {statistics.median(ratios):.3f}")
        _catch_up(rig, steady, steered, pause_s)


def _round(rig, steady, steered, seconds):
    told = {"alone p99": _p99(rig, steady, seconds)}
    steered.reset()
    _call(rig, "POST", "/subscriptions/steered/pause")
    told["paused p99"] = _p99(rig, steady, seconds)
    _call(rig, "POST", "/subscriptions/steered/resume")
    told["resumed p99"] = _p99(rig, steady, seconds)
    steered.wait_for(2 * seconds * RATE)
    told |= _asked(rig, steady, seconds)
    print(*(f"{name} {value:.2f}" for name, value in told.items()), sep=", ", flush=True)
    return told


def _p99(rig, sink, seconds):
    sink.reset()
    sent = rig.load("open", connections=64, rate=RATE, seconds=seconds)
    return sink.wait_for(sent["count"])["p99_ms"]


def _asked(rig, steady, seconds):
    """Ask while events flow; times in milliseconds."""
    steady.reset()
    report = rig.load("open", connections=64, rate=RATE, seconds=seconds, background=True)
    client = http.client.HTTPConnection("127.0.0.1", rig.server.port)
    finds, ways, places = [], [], []
    drawn, due_s = random.Random(1), time.monotonic()
    for number in itertools.count():
        due_s += 1 / ASKS_PER_S
        if number >= seconds * ASKS_PER_S:
            break
        began_s = time.perf_counter()
        if number % 2 and places:
            assert _ask(client, f"/events/{drawn.choice(places)}")["matches"]
            ways.append((time.perf_counter() - began_s) * 1e3)
        else:
            hits = _ask(client, f"/events?id={drawn.randrange(RATE * seconds)}&limit=3")
            finds.append((time.perf_counter() - began_s) * 1e3)
            places += [hit["position"] for hit in hits]
        time.sleep(max(0.0, due_s - time.monotonic()))
    sent = report()
    return {
        "asked p99": steady.wait_for(sent["count"])["p99_ms"],
        "find p50": statistics.median(finds),
        "find p99": statistics.quantiles(finds, n=100)[98],
        "way p50": statistics.median(ways),
        "way p99": statistics.quantiles(ways, n=100)[98],
    }


def _catch_up(rig, steady, steered, pause_s):
    _call(rig, "POST", "/subscriptions/steered/pause")
    time.sleep(IN_FORCE_S)
    steered.reset()  # only now: what came before the pause was in force is not caught up
    paused = _p99(rig, steady, pause_s)
    count = pause_s * RATE
    assert steered.ask("stats")["count"] == 0, "deliveries while paused"
    began_s = time.monotonic()
    _call(rig, "POST", "/subscriptions/steered/resume")
    arrived = steered.wait_for(count)
    caught_s = time.monotonic() - began_s
    rig.settle()
    assert arrived["count"] == count
    rates = [count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)]
    steered.reset()
    with rig.stopped_pipeline():
        rig.load("closed", connections=64, count=count)
    arrived = steered.wait_for(count)
    rates.append(count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9))
    print(
        f"paused {pause_s} s: p99 of the other {paused:.2f} ms; {count:,} caught up in"
        f" {caught_s:.1f} s, {rates[0]:,.0f}/s; as many drain, to two, at {rates[1]:,.0f}/s each"
    )


def _call(rig, method, path, value=None):
    body = b"" if value is None else json.dumps(value).encode()
    answer = rig.server.request(method, path, body, {"content-type": "application/json"})
    assert answer.status < 300, (path, answer.status)


def _ask(client, path):
    client.request("GET", path)
    answer = client.getresponse()
    found = json.loads(answer.read())
    assert answer.status == 200, (path, answer.status, found)
    return found


if __name__ == "__main__":
    main()
