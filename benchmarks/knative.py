"""The lines of Knative Eventing: from a change to Ready, replies, fan-out, and many watchers.

``kubectl`` is the one on ``PATH``, or the one that ``KUBECTL`` names.
"""

import concurrent.futures
import http.client
import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import _kit  # noqa: F401 - for the imports of kit
import _triggers
from _rig import Rig
from _triggers import TRIGGERS, Api, trigger
from kit.resource_kills import run_resource_kills
from kit.running_server import Role

HERE = Path(__file__).parent
LOAD_TYPE = "com.example.reading"
"""Type of every event of the load generator."""

REPEATS = 3
"""The median of so many runs counts."""

STEPS = 10
HOPS_MAX = 32
"""Deliveries of an event that always comes back: so many passes it has (decision 17)."""

WATCHERS = 1000
CHANGES_PER_S = 100
CHANGERS = 4
CHANGED = 48
"""Triggers that the changes go round; each belongs to one connection."""

STALLED = 100
"""Watchers that do not read; each begins at a version of its own, so that they share nothing."""

LARGE_BYTES = 60_000
"""An annotation, in changes that watchers do not read."""

LARGE_COUNT = 600
"""Such changes: more than the window and all buffers keep."""

KILLED_CHANGES = 1000
VICTIMS = (Role.INGEST, None, Role.WRITER, Role.SERVE, Role.INGEST, Role.DRIVER, None, Role.JVM)
"""What is killed during those changes, twice; None: everything at once."""

KILLS_SEED = 20


def ready(scale):
    """300 Triggers, one after the other: created to Ready; an event follows each at once."""
    count = int(300 * scale)
    with Rig() as rig, Api(rig.server.port) as api:
        sink = rig.sink()
        path = api.broker("b")
        version = api.ask("GET", TRIGGERS)["metadata"]["resourceVersion"]
        seen = queue.Queue()
        watching = threading.Thread(target=_tell_ready, args=(rig, version, seen), daemon=True)
        watching.start()
        taken_ms = []
        for number in range(count):
            name = f"t{number}"
            began_s = time.monotonic()
            api.ask("POST", TRIGGERS, trigger(name, "b", name, f"{sink.url}{number}"))
            told, told_s = seen.get(timeout=_triggers.READY_S_MAX)
            assert told == name, (told, name)
            taken_ms.append((told_s - began_s) * 1000)
            _publish(rig, path, name)
        rig.settle()
        arrived = sink.ask("stats")["count"]
    taken_ms.sort()
    return {
        "ready_p50": taken_ms[count // 2],
        "ready_p99": taken_ms[count * 99 // 100],
        "ready_missed": abs(count - arrived),
    }


def _tell_ready(rig, version, seen):
    """Put each Trigger's name, and when a watch said that it is ready; ends with the server."""
    connection = http.client.HTTPConnection("127.0.0.1", rig.server.port)
    connection.request("GET", f"{TRIGGERS}?watch=true&resourceVersion={version}")
    told = set()
    for line in connection.getresponse():
        now_s = time.monotonic()
        found = json.loads(line)["object"]
        name = found["metadata"]["name"]
        if name not in told and _triggers.is_ready(found):
            told.add(name)
            seen.put((name, now_s))


def _publish(rig, path, event_type):
    headers = {
        "ce-specversion": "1.0",
        "ce-id": event_type,
        "ce-source": "/bench",
        "ce-type": event_type,
        "ce-sentns": str(time.monotonic_ns()),
        "content-type": "application/json",
    }
    assert rig.server.request("POST", path, b"{}", headers).status == 202


def apply(scale):
    """1,000 Triggers by kubectl apply; events through their Broker, and through one without."""
    count, events = int(1000 * scale), int(60_000 * scale)
    with Rig() as rig, Api(rig.server.port) as api:
        sink = rig.sink()
        paths = {name: api.broker(name) for name in ("alone", "beside")}
        api.triggers(trigger(name, name, LOAD_TYPE, sink.url) for name in paths)
        for path in paths.values():  # until concurrency has grown, and code is warm
            _drain_rate(rig, sink, path, events)
        none = [trigger(f"none-{n}", "beside", f"none.{n}", f"{sink.url}{n}") for n in range(count)]
        began_s = time.monotonic()
        _kubectl_apply(rig, none)
        applied_s = time.monotonic() - began_s
        api.wait_ready()
        ready_s = time.monotonic() - began_s
        rates = {name: [] for name in paths}
        for _ in range(REPEATS):  # by turns: what else the machine does hits both
            for name, path in paths.items():
                rates[name].append(_drain_rate(rig, sink, path, events))
    alone, beside = (sorted(found)[REPEATS // 2] for found in rates.values())
    return {
        "apply": applied_s,
        "apply_ready": ready_s,
        "broker_rate": alone,
        "broker_rate_1k": beside,
        "broker_share_1k": 100.0 * beside / alone,
    }


def _kubectl_apply(rig, objects):
    """One file, as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "all.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        words = [os.environ.get("KUBECTL", "kubectl"), "--kubeconfig=/dev/null"]
        words += [f"--server={rig.server.url}", f"--cache-dir={folder}/cache"]
        subprocess.run([*words, "apply", "-f", file], check=True, stdout=subprocess.DEVNULL)


def _drain_rate(rig, sink, path, count, copies=1):
    """Deliveries a second, of a backlog at *path* whose events match so many Triggers."""
    sink.reset()
    with rig.stopped_pipeline():
        rig.load("closed", connections=64, count=count, path=path)
    arrived = sink.wait_for(copies * count)
    rig.settle()
    return copies * count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9)


def chain(scale):
    """Ten Triggers, each on what the one before replied; and a reply that matches itself."""
    with Rig() as rig, Api(rig.server.port) as api:
        sink = rig.sink("_steps")
        path = api.broker("b")
        types = [LOAD_TYPE, *(f"step.{number}" for number in range(1, STEPS))]
        paths = [*(f"step/{number}" for number in range(STEPS - 1)), "end"]
        steps = zip(types, paths, strict=True)
        api.triggers(
            trigger(f"step-{n}", "b", type_, sink.url + place)
            for n, (type_, place) in enumerate(steps)
        )
        api.triggers([trigger("loop", "b", "loop", f"{sink.url}loop")])
        _through_chain(rig, sink, path, 5.0)
        found = _through_chain(rig, sink, path, 30.0 * scale)
        sink.reset()
        _publish(rig, path, "loop")
        rig.settle()
        passes = sink.ask("stats")["count"]
        counted, logged = _loops_ended(rig)
    return {
        "chain_p50": found["p50_ms"],
        "chain_p99": found["p99_ms"],
        "loop_passes": passes,
        "loop_wrong": abs(passes - HOPS_MAX) + abs(counted - 1) + abs(logged - 1),
    }


def _loops_ended(rig):
    """How many loops were cut off, by the metric and by the log, once the owners have said so."""
    time.sleep(1.0)  # they write their numbers four times a second
    counted = rig.server.metrics().get('replies_dropped_total{reason="hop-limit"}', 0)
    lines = rig.server.log.read_text().splitlines()
    return counted, sum("reply-dropped" in line and "hop-limit" in line for line in lines)


def _through_chain(rig, sink, path, seconds):
    sink.reset()
    sent = rig.load("open", connections=8, rate=20, seconds=seconds, path=path)
    return sink.wait_for(sent["count"])


def ten_triggers(scale):
    """Ten Triggers of one Broker that all match."""
    with Rig() as rig, Api(rig.server.port) as api:
        sink = rig.sink()
        path = api.broker("b")
        api.triggers(trigger(f"t{n}", "b", LOAD_TYPE, f"{sink.url}{n}") for n in range(10))
        _drain_rate(rig, sink, path, 3_000, 10)
        return {"ten_triggers_rate": _drain_rate(rig, sink, path, int(20_000 * scale), 10)}


def watchers(scale):
    """1,000 watchers while objects change 100 times a second; and some that do not read."""
    with Rig() as rig, Api(rig.server.port) as api:
        api.broker("b")
        api.triggers(trigger(f"t{n}", "b", f"t{n}", rig.server.url) for n in range(CHANGED))
        before = _rss_mib(rig)
        newest = int(api.ask("GET", TRIGGERS)["metadata"]["resourceVersion"])
        with _Watching(rig, newest, WATCHERS) as watching:
            _changes(rig, 2.0)  # connections and code are warm
            changed = _changes(rig, 20.0 * scale)
            found = watching.report(changed[-1])
            open_mib = _rss_mib(rig) - before
        assert not found["ended"], found["ended"]
        told = set(found["versions"])
        figures = {
            "watch_wrong": found["differ"]
            + (not found["in_order"])
            + sum(version not in told for version in changed),
            "watch_told": len(changed) * WATCHERS,
            "watch_p50": found["p50_ms"],
            "watch_p99": found["p99_ms"],
            "watch_memory": open_mib,
        }
        return figures | _stalled(rig, api)


def _stalled(rig, api):
    """Watchers that do not read: what they cost beside the window that all share, and their end."""
    version = _large_changes(api) - 2 * STALLED  # in the window: there is much to tell each of them
    before = _rss_mib(rig)
    with _Watching(rig, version, STALLED, "--stalled") as watching:
        last = _large_changes(api)
        grown = _rss_mib(rig) - before
        found = watching.report(last)
    told = sum(n for end, n in found["ended"].items() if '"code":410' in end)
    print(f"    ({told} of {STALLED} were told so; first: {next(iter(found['ended']), '')[:200]})")
    return {"watch_stalled_410": STALLED - told, "watch_stalled_memory": grown}


class _Watching:
    """Watchers in a process of their own, of changes after *version*; a context manager."""

    def __init__(self, rig, version, count, *flags):
        words = [sys.executable, str(HERE / "_watchers.py"), str(rig.server.port), TRIGGERS]
        words += ["--version", str(version), "--count", str(count), *flags]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_exception):
        self._process.kill()
        self._process.wait()

    def report(self, last):
        """What they were told, up to the version *last*."""
        self._process.stdin.write(f"{last}\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        assert found["answered"] == {"200": found["count"]}, found["answered"]
        return found


def _changes(rig, seconds):
    """Change Triggers for so long; the versions that came of it, in their order."""
    count = int(seconds * CHANGES_PER_S)
    began_s = time.monotonic()

    def work(share):
        versions = []
        with Api(rig.server.port) as api:
            for number in range(share, count, CHANGERS):
                time.sleep(max(0.0, began_s + number / CHANGES_PER_S - time.monotonic()))
                stamp = {"metadata": {"annotations": {"sentns": str(time.monotonic_ns())}}}
                path = f"{TRIGGERS}/t{number % CHANGED}"
                found = api.ask("PATCH", path, stamp, _triggers.MERGE)
                versions.append(int(found["metadata"]["resourceVersion"]))
        return versions

    with concurrent.futures.ThreadPoolExecutor(CHANGERS) as workers:
        versions = sorted(itertools.chain.from_iterable(workers.map(work, range(CHANGERS))))
    late_s = time.monotonic() - began_s - seconds
    print(f"    ({count} changes, the last {late_s:.1f} s after it was due)", flush=True)
    return versions


def _large_changes(api):
    """Change one Trigger often; the version that came of it."""
    for number in range(LARGE_COUNT):
        large = {"metadata": {"annotations": {"large": f"{number:0{LARGE_BYTES}}"}}}
        found = api.ask("PATCH", f"{TRIGGERS}/t0", large, _triggers.MERGE)
    return int(found["metadata"]["resourceVersion"])


def resource_kills(scale):
    """kill -9 of a server and of its parts while objects change; what is wrong afterwards."""
    victims = VICTIMS * (2 if scale == 1.0 else 1)
    with tempfile.TemporaryDirectory(prefix="distributary-kills-") as folder:
        report = run_resource_kills(Path(folder), int(KILLED_CHANGES * scale), victims, KILLS_SEED)
    print(f"    {report}", flush=True)
    return {
        "resource_faults": len(report.faults) + bool(report.stop_code),
        "resource_changes": report.changes,
        "resource_broken": report.broken,
    }


def _rss_mib(rig):
    """Of the processes that a watch goes through."""
    found = [rig.server.processes(role)[0] for role in (Role.SERVE, Role.INGEST)]
    return sum(process.memory_info().rss for process in found) / 2**20
