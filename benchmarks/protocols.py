"""Lines of the delivery protocols beside HTTP, each against its real broker on this machine."""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import _kit  # noqa: F401 - for the imports of kit
from _rig import HERE, Rig
from distributary.core.log import Reader
from kit.broker_scenarios import SCENARIOS
from kit.history_rows import history_rows
from kit.running_server import wait_until
from kit.servers import Authority, ServerNotHadError
from kit.servers.rabbitmq import RECENT

BROKERS = {"nats": "nats", "mqtt": "mosquitto", "amqp": "rabbitmq", "kafka": "kafka"}
"""Name in the lines -> broker."""

COUNT = 100_000
DRAIN_S_MAX = 30.0
"""A protocol gets so many events, or so long."""

BARE_COUNT_MAX = 30_000
"""The bare client gets no more: paho takes them all at once and loses count beyond 65,535."""

WARM_UP = 5_000
PATIENT = {"retry": 1000, "backoffDelay": "PT0.1S", "backoffMax": "PT1S"}
GOOD_SINKS = 5
WINDOW_S = 5.0
DOWN_S = 60.0
"""How long one broker is away beside five good sinks."""


def measure(scale):
    """Log to acknowledged delivery by each protocol, and the bare client library beside it."""
    figures = {}
    for name, broker in BROKERS.items():
        try:
            figures |= _drain(name, broker, int(COUNT * scale))
        except ServerNotHadError as error:
            print(f"    ({broker} is NOT MEASURED: {error})", flush=True)
    return figures


def _drain(name, broker, count):
    with ExitStack() as stack:
        trial = stack.enter_context(_trial(broker, stack))
        rig = stack.enter_context(Rig())
        subscription = trial.subscription(PATIENT, format_="binary", direct=True)
        rig.server.subscribe(subscription.pop("sink"), **subscription)
        rig.load("closed", connections=64, count=WARM_UP)
        rig.settle()
        before = _done(rig)
        with rig.stopped_pipeline():
            rig.load("closed", connections=64, count=count)
        rate = _delivery_rate(rig, before, count)
        rig.settle()
        bare = _bare(trial, min(count, BARE_COUNT_MAX))
        return {
            f"{name}_rate": rate,
            f"{name}_bare": bare,
            f"{name}_share": 100.0 * rate / bare,
        }


def _trial(broker, stack):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="distributary-bench-"))
    return SCENARIOS[broker](Authority(Path(folder)))


def _delivery_rate(rig, before, count):
    """Deliveries a second, from the first to the last, or until time is up."""
    wait_until(lambda: _done(rig) > before, DRAIN_S_MAX, "the first delivery", 0.05)
    first, began_s = _done(rig), time.monotonic()
    while _done(rig) < before + count and time.monotonic() - began_s < DRAIN_S_MAX:
        time.sleep(0.1)
    return (_done(rig) - first) / (time.monotonic() - began_s)


def _done(rig):
    """Acknowledged deliveries. Not the cursor: it passes what a backfill has yet to deliver."""
    return rig.server.metric("delivered_total")


def _bare(trial, count):
    command = [sys.executable, str(HERE / "_bare.py"), trial.protocol, str(trial.server.port)]
    done = subprocess.run([*command, str(count)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["rate"]


def one_down(scale):
    """The p99 of an HTTP sink and four brokers, before, while and after one more broker is away.

    Windows of some seconds, and the median of their p99s: six servers and a Spark share two cores
    here, and one pause of any of them (compaction, a collection, another user of the disk) makes
    the p99 of a whole minute. What is held against the time of the outage is as much time, one
    half before it and one after: servers change while they fill.
    """
    with ExitStack() as stack:
        good = ("nats", "mosquitto", "rabbitmq", "kafka")
        trials = [stack.enter_context(_trial(broker, stack)) for broker in good]
        down = stack.enter_context(_trial("mosquitto", stack))
        rig = stack.enter_context(Rig())
        sink = rig.sink()
        rig.server.subscribe(sink.url)
        for trial in (*trials, down):
            subscription = trial.subscription(PATIENT, format_="binary", direct=True)
            if trial.name == "rabbitmq":
                subscription["protocolsettings"]["address"] = f"/amq/queue/{RECENT}"
            rig.server.subscribe(subscription.pop("sink"), **subscription)
        _p99_ms(rig, sink, 10.0)
        rig.settle()
        count = max(round(DOWN_S * scale / WINDOW_S), 4)
        whole = [_window(rig, sink) for _ in range(count // 2)]
        down.kill()
        _p99_ms(rig, sink, WINDOW_S)  # until its queue is full and its route is backfilled
        during = [_window(rig, sink) for _ in range(count)]
        down.server.start()
        wait_until(rig.server.settled, 60.0, "the broker that was away has caught up", 0.3)
        whole += [_window(rig, sink) for _ in range(count // 2)]
        rig.settle()
        here = [statistics.median(each.p99_ms for each in windows) for windows in (whole, during)]
        return {
            "one_down_before": here[0],
            "one_down_during": here[1],
            "one_down_growth": _growth(*here),
            "one_down_worst_growth": _worst_growth(rig.server, whole, during),
        }


class Window(NamedTuple):
    """Some seconds of load: from when to when (wall clock), and send to arrival at the sink."""

    begin_ms: int
    end_ms: int
    p99_ms: float


def _window(rig, sink):
    begin_ms = _wall_ms()
    p99_ms = _p99_ms(rig, sink, WINDOW_S)
    return Window(begin_ms, _wall_ms(), p99_ms)


def _worst_growth(server, whole, during):
    """Growth of the p99 from append to answer, of the sink that fares worst of the good ones, %."""
    appended = _append_times(server)
    waits = defaultdict(lambda: defaultdict(list))
    bad = set()
    for row in history_rows(server.data_dir):
        at_ms = appended[row["partition"], row["offset"]]
        if row["decision"] != "delivered":
            bad.add(row["uid"])
        for window in (*whole, *during):
            if window.begin_ms <= at_ms < window.end_ms:
                waits[row["uid"]][window].append(row["time"].timestamp() * 1000 - at_ms)
    growths = []
    for route, windows in waits.items():
        if route in bad:
            continue
        p99s = {each: sorted(found)[len(found) * 99 // 100] for each, found in windows.items()}
        medians = [statistics.median(p99s[each] for each in part) for part in (whole, during)]
        growths.append(_growth(*medians))
        print(f"    ({route[:8]}, append to answer: p99 {medians[0]} ms, {medians[1]} ms)")
    assert len(growths) == GOOD_SINKS, growths
    return max(growths)


def _growth(whole, during):
    return 100.0 * (during / whole - 1.0)


def _append_times(server):
    times = {}
    for number in range(server.partition_count()):
        with contextlib.closing(Reader(server.paths.log, number)) as reader:
            for record in reader.read(reader.start(), reader.durable_end()):
                times[number, record.offset] = record.time_ms
    return times


def _wall_ms():
    return time.time_ns() // 1_000_000


def _p99_ms(rig, sink, seconds):
    """Send to arrival, p99 at 200/s, ms."""
    sink.reset()
    sent = rig.load("open", connections=64, rate=200, seconds=seconds)
    return sink.wait_for(sent["count"])["p99_ms"]
