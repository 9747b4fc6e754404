"""The lines of pauses: kills of each process, rollovers among 100,000 routes, a sick partition."""

import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import _kit  # noqa: F401 - for the imports of kit
from _rig import Rig
from distributary.cli._behaviour import Behaviour
from distributary.core.event import Event
from distributary.datadir import DataDir, StatusField
from kit.filled_data import fill
from kit.running_server import Role, RunningServer, wait_until
from kit.traffic import Traffic

RATE_PER_S = 100.0
KILLS = 10
PARTITIONS = 2
RECOVER_S_MAX = 180.0
STEADY_S = 3.0
"""Deliveries that went on for so long go on."""
HOLE_S = 0.1
"""A shorter time without a delivery is no pause: an event a partition comes every 20 ms."""
ROUTES = 100_000
HAND_OVERS = 5
HAND_OVER_PER_S = 1_000.0
EPOCH_S = 10.0
AROUND_S = 1.0
"""Time before and after a hand-over that counts as part of it."""
LEVEL = 'log_level = "{}"\n'
LEVELS = ("debug", "info")
OWNERS = 20
LEAK_ROUTES = 50_000

KEYS = tuple(
    next(key for key in "abcdefgh" if zlib.crc32(key.encode()) % PARTITIONS == number)
    for number in range(PARTITIONS)
)
"""A partition key for each partition."""
ROLES = (Role.WRITER, Role.DAEMON, Role.JVM, Role.DRIVER)


def kills(scale):
    """From kill -9 to the next delivery (ingest: the next 202) at 100 events/s, 10 of each."""
    count = max(1, int(KILLS * scale))
    figures = {}
    with tempfile.TemporaryDirectory(
        prefix="distributary-bench-", ignore_cleanup_errors=True
    ) as folder:
        server = RunningServer(Path(folder) / "data")
        with Traffic(Path(folder), {"sink": Behaviour()}) as traffic, server:
            server.subscribe(traffic.sinks["sink"].url)
            traffic.publish(server.url, _event, RATE_PER_S)
            time.sleep(STEADY_S)
            for role in ROLES:
                found = [_pause(server, traffic, role, number) for number in range(count)]
                figures |= _told(role, found)
            found = [_refusals(server, traffic) for _ in range(count)]
            figures |= _told(Role.INGEST, found)
            traffic.finish()
    return figures


def _told(role, found):
    print(f"    {role}: {' '.join(f'{pause_s:.2f}' for pause_s in found)} s", flush=True)
    return {f"kill_{role}": statistics.median(found), f"kill_{role}_worst": max(found)}


def _event(number):
    """Events take turns among the partitions."""
    attributes = {
        "specversion": "1.0",
        "id": str(number),
        "source": "/pauses",
        "type": "t",
        "partitionkey": KEYS[number % PARTITIONS],
    }
    return Event(attributes, b"x" * 100)


def _pause(server, traffic, role, number):
    """Seconds from the kill of a process of *role* until every partition delivers again."""
    server.wait_ready(RECOVER_S_MAX)
    time.sleep(STEADY_S)
    if role is Role.DAEMON and not server.processes(role):
        # Owners do without it; Spark starts another one for the next worker.
        server.kill(Role.WRITER)
        wait_until(lambda: server.processes(role), RECOVER_S_MAX, "a daemon")
        server.wait_ready(RECOVER_S_MAX)
        time.sleep(STEADY_S)
    before = {process.pid for process in server.processes(role)}
    killed = server.kill(role, number)
    at_s = time.monotonic()
    wait_until(
        lambda: (
            (
                role is Role.DAEMON
                or any(process.pid not in before for process in server.processes(role))
            )
            and killed not in {process.pid for process in server.processes(role)}
        ),
        RECOVER_S_MAX,
        f"a new {role}",
    )
    ends = [0.0]

    def goes_on():
        ends[:] = [_last_hole(traffic, which, at_s) for which in range(PARTITIONS)]
        return max(ends) < time.monotonic() - STEADY_S

    wait_until(goes_on, RECOVER_S_MAX, f"deliveries go on after a kill of {role}", 0.2)
    return max(0.0, max(ends) - at_s)


def _last_hole(traffic, partition, since_s):
    """When the last pause of *partition* since then ended; now, if it lasts."""
    now_s = time.monotonic()
    taken = dict(traffic.sinks["sink"].taken)
    times = sorted(
        at_s
        for name, at_s in taken.items()
        if at_s >= since_s and int(name) % PARTITIONS == partition
    )
    times = [since_s, *times, now_s]
    holes = [later for earlier, later in itertools.pairwise(times) if later - earlier > HOLE_S]
    return holes[-1] if holes else since_s


def _refusals(server, traffic):
    """Seconds from the kill of the ingest process until an event sent after it is acknowledged."""
    server.wait_ready(RECOVER_S_MAX)
    time.sleep(STEADY_S)
    at_s = time.monotonic()
    server.kill(Role.INGEST)
    first = traffic.begun
    acked = traffic.acked
    times = []

    def any_acked():
        times[:] = [acked[n] for n in range(first, traffic.begun) if n in acked]
        return bool(times)

    wait_until(any_acked, RECOVER_S_MAX, "an event is accepted", 0.01)
    return min(times) - at_s


def rollover(scale):
    """What rollovers and newer settings add to the gaps between deliveries, at 1,000 events/s."""
    figures = _hand_overs(0, "hand_over")
    return figures | _hand_overs(int(ROUTES * scale), "hand_over_many")


def _hand_overs(routes, name):
    """Both with *routes* of another type each: milliseconds, median and worst."""
    with tempfile.TemporaryDirectory(
        prefix="distributary-bench-", ignore_cleanup_errors=True
    ) as folder:
        config = Path(folder) / "settings.toml"
        config.write_text(LEVEL.format("info"))
        flags = ("--epoch-s", f"{EPOCH_S:g}s", "--config", str(config))
        server = RunningServer(Path(folder) / "data", flags=flags)
        if routes:
            fill(server.paths, routes, PARTITIONS, _asks)
        with Traffic(Path(folder), {"sink": Behaviour()}) as traffic:
            try:
                server.start()
                start_s = server.wait_ready(600.0)
                server.subscribe(traffic.sinks["sink"].url, filters=[{"exact": {"type": "t"}}])
                wait_until(server.settled, 600.0, "all routes are known", 0.5)
                traffic.publish(server.url, _event, HAND_OVER_PER_S)
                for _ in range(2):  # where the routes stand is kept by then
                    _one_rollover(server)
                rollovers = [_added(traffic, _one_rollover(server)) for _ in range(HAND_OVERS)]
                settings = [
                    _added(traffic, _newer_settings(server, config, number))
                    for number in range(HAND_OVERS)
                ]
                traffic.finish()
                memory = sum(process.memory_info().rss for process in server.tree()) / 2**20
            finally:
                server.kill_all()
    print(
        f"    {routes:,} routes: start {start_s:.1f} s, memory {memory:,.0f} MiB (RSS)", flush=True
    )
    figures = {}
    for which, found in ((name, rollovers), (f"{name}_settings", settings)):
        print(f"    {which}: {' '.join(f'{added_ms:.0f}' for added_ms in found)} ms", flush=True)
        figures |= {which: statistics.median(found), f"{which}_worst": max(found)}
    return figures


def _asks(number):
    return {
        "sink": f"http://127.0.0.1:9/{number}",
        "protocol": "HTTP",
        "filters": [{"exact": {"type": f"com.example.t{number}"}}],
    }


def _one_rollover(server):
    """Wait for a rollover; when it began and ended, with the time that Spark takes around it."""
    epochs = [server.look(number, StatusField.EPOCH) for number in range(PARTITIONS)]
    wait_until(
        lambda: all(
            server.look(number, StatusField.EPOCH) > epoch for number, epoch in enumerate(epochs)
        ),
        RECOVER_S_MAX,
        "a rollover",
        0.02,
    )
    ended_s = time.monotonic()
    time.sleep(STEADY_S)
    return ended_s - AROUND_S, ended_s + AROUND_S


def _newer_settings(server, config, number):
    """Change a setting of the owners; when it was changed, and when all had it."""
    time.sleep(STEADY_S)
    before = _settings(server)
    began_s = time.monotonic()
    config.write_text(LEVEL.format(LEVELS[number % 2]))
    os.kill(server.pid, signal.SIGHUP)
    wait_until(
        lambda: all(now != then for now, then in zip(_settings(server), before, strict=True)),
        RECOVER_S_MAX,
        "owners with newer settings",
        0.02,
    )
    time.sleep(AROUND_S)
    return began_s, time.monotonic()


def _settings(server):
    """Number of the settings of each owner."""
    return [server.look(number, StatusField.SETTINGS) for number in range(PARTITIONS)]


def _added(traffic, span):
    """By how much the longest gap within *span* exceeds the longest one of as long a time before.

    Gaps between deliveries of a partition, milliseconds, at least 0.
    """
    begin_s, end_s = span
    taken = dict(traffic.sinks["sink"].taken)
    added = 0.0
    for partition in range(PARTITIONS):
        times = sorted(at_s for name, at_s in taken.items() if int(name) % PARTITIONS == partition)
        usual_s = _longest(times, 2 * begin_s - end_s, begin_s)
        added = max(added, _longest(times, begin_s, end_s) - usual_s)
    return added * 1000


def _longest(times, begin_s, end_s):
    within = [begin_s, *(at_s for at_s in times if begin_s <= at_s < end_s), end_s]
    return max(later - earlier for earlier, later in itertools.pairwise(within))


def leak(scale):
    """Memory of a worker after 20 rollovers, 50,000 routes; growth since the third."""
    with tempfile.TemporaryDirectory(
        prefix="distributary-bench-", ignore_cleanup_errors=True
    ) as folder:
        paths = DataDir(Path(folder) / "data")
        fill(paths, int(LEAK_ROUTES * scale), 1, _asks)
        words = [sys.executable, str(Path(__file__).with_name("_owners.py")), str(paths.root)]
        output = subprocess.run([*words, str(OWNERS)], capture_output=True, check=True).stdout
    return {"hand_over_growth": float(output)}


def sick(scale):
    """The p99 of one partition, while the other is well, and while it cannot be delivered."""
    with Rig("--partitions", str(PARTITIONS)) as rig:
        sink = rig.sink()
        rig.server.subscribe(sink.url)
        rig.load("closed", connections=64, count=30_000)
        rig.settle()
        seconds = 20 * scale
        before = _p99_of(rig, sink, seconds)
        store = rig.server.paths.delivery_db(1)
        kept = store.read_bytes()
        store.write_bytes(b"this is no database" * 100)
        for name in ("-wal", "-shm"):
            store.with_name(store.name + name).unlink(missing_ok=True)
        os.kill(rig.server.owner_pids()[1], signal.SIGKILL)
        wait_until(
            lambda: bool(rig.server.look(1, StatusField.FAILURES)),
            RECOVER_S_MAX,
            "partition 1 is sick",
        )
        time.sleep(STEADY_S)
        during = _p99_of(rig, sink, seconds)
        store.write_bytes(kept)
        rig.server.wait_ready(RECOVER_S_MAX)
        rig.settle()
    return {
        "sick_before": before,
        "sick_during": during,
        "sick_growth": 100.0 * (during / before - 1.0),
    }


def _p99_of(rig, sink, seconds):
    sink.reset()
    sent = rig.load("open", connections=64, rate=500, seconds=seconds, key=KEYS[0])
    return sink.wait_for(sent["count"])["p99_ms"]
