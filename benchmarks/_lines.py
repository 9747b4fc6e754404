"""The lines of the table: each group runs on a server of its own and returns its figures."""

import time

import _kit  # noqa: F401 - for the imports of kit
import _profile
import _yardsticks
import api
import cesql
import churn
import knative
import large_bodies
import many_routes
import matching
import pauses
import protocols
from _rig import Rig, each_us
from kit.running_server import Role, wait_until

HERE_TYPE = "com.example.reading"
"""Type of every event of the load generator."""

SHORT = 8.0
"""Seconds of a measurement of the receiver alone, in a full run."""

PARTITIONS = ("--partitions", "2")
"""As many as the figures of memory, CPU and latency are asked for."""

STEADY = {"arrival": 1000, "slow": 500, "quiet": 50, "busy": 2000}
"""Lines of a steady rate -> events a second."""


def start_and_idle(scale):
    """Start to readyz beside an empty session, CPU of an idle server, memory of all processes."""
    session_s = _yardsticks.empty_session_s()
    with Rig(*PARTITIONS) as rig:
        time.sleep(3.0)  # what runs once after the start is no idling
        used, seconds = rig.meter(), 20.0 * scale
        time.sleep(seconds)
        idle = {name: 100.0 * used_s / seconds for name, used_s in used().items()}
        figures = {"start": rig.start_s, "idle_cpu": idle, "memory": rig.pss_mib()}
    # The quicker of two, before and after ours: files that are in no cache yet slow the first.
    session_s = min(session_s, _yardsticks.empty_session_s())
    return figures | {"session": session_s, "start_growth": figures["start"] - session_s}


def accept(scale, profile=False):
    """The front door with delivery idle: there is no subscription."""
    with Rig() as rig:
        rig.load("closed", connections=64, seconds=3)
        runs = []
        for _ in range(3):
            watch = _watch(rig, (Role.INGEST,), SHORT * scale) if profile else None
            used = rig.meter()
            sent = rig.load("closed", connections=64, seconds=SHORT * scale)
            runs.append((sent["rate"], each_us(used(), sent["count"])))
            _show(watch)
        rate, cpu_us = sorted(runs, key=lambda run: run[0])[1]
        rig.settle()
        steady = rig.load("open", connections=64, rate=1000, seconds=2 * SHORT * scale)
        return {
            "accept_rate": rate,
            "accept_cpu": cpu_us,
            "accept_p50": steady["ack_p50_ms"],
            "accept_p99": steady["ack_p99_ms"],
        }


def two_receivers(scale):
    """The front door with one receiver and with two, in turns; delivery idle."""
    rates, cpus = {1: [], 2: []}, {1: [], 2: []}
    with Rig("--receivers", "1", *PARTITIONS) as one, Rig("--receivers", "2", *PARTITIONS) as two:
        rigs = {1: one, 2: two}
        for rig in rigs.values():
            rig.load("closed", connections=64, seconds=3)
        for _ in range(4):
            for count, rig in rigs.items():
                used = rig.meter()
                sent = rig.load("closed", connections=64, seconds=SHORT * scale)
                rates[count].append(sent["rate"])
                cpus[count].append(each_us(used(), sent["count"]))
                rig.settle()
    pairs = zip(cpus[1], cpus[2], strict=True)
    ratios = sorted(sum(of_two.values()) / sum(of_one.values()) for of_one, of_two in pairs)
    return {
        "one_receiver_rate": sorted(rates[1])[2],
        "one_receiver_cpu": sorted(cpus[1], key=lambda used: sum(used.values()))[2],
        "two_receivers_rate": sorted(rates[2])[2],
        "two_receivers_cpu": sorted(cpus[2], key=lambda used: sum(used.values()))[2],
        "two_receivers_ratio": (ratios[1] + ratios[2]) / 2,
    }


def one(scale, profile=False):
    """One subscription with a filter that matches."""
    with Rig(*PARTITIONS) as rig:
        sink = rig.sink()
        rig.server.subscribe(sink.url, filters=[{"exact": {"type": HERE_TYPE}}])
        _warm_up(rig, sink, 1)
        figures = {}
        count = int(200_000 * scale)
        sink.reset()
        with rig.stopped_pipeline():
            rig.load("closed", connections=64, count=count)
            watch = _watch(rig, (Role.WRITER,), 10) if profile else None
            used = rig.meter()
        figures["drain_rate"] = _rate(sink.wait_for(count), count)
        figures["drain_cpu"] = each_us(used(), count)
        _show(watch)
        watch = _watch(rig, (Role.INGEST, Role.WRITER), 10) if profile else None
        rate, cpu_us = _through(rig, sink, int(150_000 * scale), 1)
        figures |= {"through_rate": rate, "through_cpu": cpu_us}
        _show(watch)
        rig.settle()
        for name, rate in STEADY.items():
            figures |= _steady(rig, sink, name, rate, 20 * scale)
        figures["memory_loaded"] = rig.pss_mib()
        return figures


def ten(scale, profile=False):
    """Ten subscriptions that all match."""
    with Rig() as rig:
        sink = rig.sink()
        for number in range(10):
            rig.server.subscribe(f"{sink.url}{number}", filters=[{"exact": {"type": HERE_TYPE}}])
        _warm_up(rig, sink, 10)
        count = int(20_000 * scale)
        sink.reset()
        with rig.stopped_pipeline():
            rig.load("closed", connections=64, count=count)
            watch = _watch(rig, (Role.WRITER,), 10) if profile else None
            used = rig.meter()
        arrived = sink.wait_for(10 * count)
        drained_us = each_us(used(), 10 * count)
        _show(watch)
        rate, cpu_us = _through(rig, sink, count, 10)
        return {
            "ten_rate": _rate(arrived, 10 * count),
            "ten_cpu": drained_us,
            "ten_through_rate": rate,
            "ten_through_cpu": cpu_us,
        }


def none(scale, profile=False):
    """A hundred subscriptions of which none matches."""
    with Rig() as rig:
        sink = rig.sink()
        for number in range(100):
            rig.server.subscribe(f"{sink.url}{number}", filters=[{"exact": {"type": f"t{number}"}}])
        rig.load("closed", connections=64, count=int(20_000 * scale))
        rig.settle()
        before, count = rig.live_offset(), int(100_000 * scale)
        with rig.stopped_pipeline():
            rig.load("closed", connections=64, count=count)
            watch = _watch(rig, (Role.WRITER,), 8) if profile else None
            used = rig.meter()
            behind, began_s = rig.live_offset(), time.monotonic()
        wait_until(lambda: rig.live_offset() >= before + count, 180, "all were looked at", 0.005)
        took_s, looked_at = time.monotonic() - began_s, before + count - behind
        cpu_us = each_us(used(), looked_at)
        _show(watch)
        return {"none_rate": looked_at / took_s, "none_cpu": cpu_us}


def bad_sinks(scale, profile=False):
    """A good sink, alone and beside one that hangs, answers in 5 s, never ends, or drips."""
    with Rig() as rig:
        sink = rig.sink()
        rig.server.subscribe(sink.url)
        _warm_up(rig, sink, 1)
        rig.settle()
        alone = _p99(rig, sink, 20 * scale)
        before = rig.pss_mib()
        for flags in (("--hang",), ("--delay", "5s"), ("--endless-body",), ("--slow-body",)):
            rig.server.subscribe(rig.bad_sink(*flags))
        time.sleep(1.0)
        _p99(rig, sink, 5.0)  # until they are as bad as they get: queues full, routes behind
        watch = _watch(rig, (Role.WRITER,), 10) if profile else None
        beside = _p99(rig, sink, 20 * scale)
        _show(watch)
        return {
            "alone_p99": alone,
            "beside_p99": beside,
            "beside_growth": 100.0 * (beside / alone - 1.0),
            "bad_memory": rig.pss_mib() - before,
        }


def _through(rig, sink, count, copies):
    """Deliveries a second and CPU of each by process, while events come and go at once."""
    sink.reset()
    used = rig.meter()
    sent = rig.load("closed", connections=64, count=count)
    arrived = sink.wait_for(copies * count)
    cpu_us = each_us(used(), copies * count)
    return copies * count / ((arrived["last_ns"] - sent["began_ns"]) / 1e9), cpu_us


def _steady(rig, sink, name, rate, seconds):
    """Send to arrival, and CPU by process, at a steady rate of events."""
    sink.reset()
    used = rig.meter()
    sent = rig.load("open", connections=64, rate=rate, seconds=seconds)
    arrived = sink.wait_for(sent["count"])
    used_s = used()
    return {
        f"{name}_p50": arrived["p50_ms"],
        f"{name}_p99": arrived["p99_ms"],
        f"{name}_cores": sum(used_s.values()) / sent["seconds"],
        f"{name}_cpu": each_us(used_s, sent["count"]),
    }


def _p99(rig, sink, seconds):
    sink.reset()
    sent = rig.load("open", connections=64, rate=500, seconds=seconds)
    return sink.wait_for(sent["count"])["p99_ms"]


def _warm_up(rig, sink, copies):
    """Until connections stand, concurrency has grown, and code is warm."""
    count = 30_000 // copies
    sink.reset()
    rig.load("closed", connections=64, count=count)
    sink.wait_for(count * copies)
    rig.settle()


def _rate(arrived, count):
    return count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)


def _watch(rig, roles, seconds):
    pids = {
        f"{role}-{process.pid}": process.pid
        for role in roles
        for process in rig.server.processes(role)
    }
    return _profile.start(pids, int(seconds))


def _show(watch):
    if watch is not None:
        print(watch(), flush=True)


GROUPS = {
    "api": api.measure,
    "large-bodies": large_bodies.measure,
    "start": start_and_idle,
    "accept": accept,
    "receivers": two_receivers,
    "one": one,
    "ten": ten,
    "none": none,
    "bad": bad_sinks,
    "cesql": cesql.measure,
    "churn": churn.measure,
    "matching": matching.measure,
    "routes": many_routes.measure,
    "ready": knative.ready,
    "apply": knative.apply,
    "chain": knative.chain,
    "ten-triggers": knative.ten_triggers,
    "watchers": knative.watchers,
    "resource-kills": knative.resource_kills,
    "protocols": protocols.measure,
    "one-down": protocols.one_down,
    "kills": pauses.kills,
    "hand-over": pauses.rollover,
    "leak": pauses.leak,
    "sick": pauses.sick,
}
PROFILED = {"accept", "one", "ten", "none", "bad"}
