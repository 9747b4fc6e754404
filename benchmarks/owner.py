"""CPU of the owner of a partition for each delivery, without Spark: log, match, send, outcome.

    python benchmarks/owner.py [ROUNDS] [SRC ...]

One process owns a partition with a backlog of 1 KB events and drains it to a sink in another
process. Runs each folder of sources in turn, in processes of their own, two owners at a time, and
prints the lowest CPU time of a delivery in microseconds, by thread and by kind of load, beside the
bare exchange of the same run. ``--measure "1 match, no network"`` measures one owner whose sinks
answer in its own process, ``--measure "1 match, history"`` one that writes a history; both may be
asked for, in this order. Compare versions in one run, since the machine moves.
"""

import asyncio
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import _exchange
import _kit  # noqa: F401 - for the imports of kit
from distributary.core.clock import SystemClock
from distributary.core.event import binary
from distributary.core.flow import RecordKind
from distributary.core.log import Appender
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.net import Connector
from distributary.partitions import PartitionSession, SessionSettings
from kit.filled_data import fill

BODY = b'{"reading": 21.5, "unit": "C", "pad": "' + b"x" * 983 + b'"}'
LINES = (
    b"ce-specversion: 1.0\r\n",
    b"ce-source: /sensors/tn-1234567\r\n",
    b"ce-type: com.example.reading\r\n",
    b"ce-subject: abc\r\n",
    b"ce-id: %d\r\n",
    b"ce-sentns: 123456789012345\r\n",
    b"content-type: application/json\r\n",
)
ANSWER = _exchange.ANSWER
SINK = Path(__file__).with_name("_exchange.py")
KINDS = {"1 match": (1, 1), "10 match": (10, 10), "1 of 1,000": (1_000, 1)}
"""Routes, and how many of them match; each has a sink of its own."""
NO_NETWORK = ", no network"
"""Suffix of a kind whose answers come from the process itself: what is left is ours."""
HISTORY = ", history"
"""Last suffix of a kind that records attempts, and writes them to files."""
DELIVERIES = 100_000
EVENTS_MAX = 2_500
"""Of several matches: so few fit into the queues of all sinks, and no route is backfilled."""
OWNERS = 2
"""At the same time, as many as the machine has cores: it is busy, as for the bare exchange."""
COMMIT = 64
"""Events in one commit of the log."""
TRIES = 5
PARTS = 5
"""Parts of the events of one match, each published once the one before is delivered."""
WAIT_S_MAX = 300.0
THREADS = {"owner": "loop", "flush": "flush", "aside": "files"}


def main():
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2])))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    here = str(Path(__file__).resolve().parents[1] / "src")
    sources = sys.argv[2:] or [here]
    unit_us = min(_exchange.measure(2.0)["cpu_us"] for _ in range(2))
    print(f"bare exchange: {unit_us:.1f} us of CPU, both ends")
    for kind in KINDS:
        lowest = [{} for _ in sources]
        for _ in range(rounds):
            for found, source in zip(lowest, sources, strict=True):
                figures = measured(kind, source)
                if not found or figures["all"] < found["all"]:
                    found.update(figures)
        for part in lowest[0]:
            line = "".join(f"{found[part]:10.2f}" for found in lowest)
            units = "".join(f"{found[part] / unit_us:8.2f}" for found in lowest)
            print(f"{kind:12}{part:10}{line}{units} units", flush=True)


def measured(kind, source):
    """Mean of what owners with the version in *source* measure at the same time.

    Measured again where a sink fell behind: with backfills the figures mean something else.
    """
    for _ in range(TRIES):
        found = _measured_once(kind, source)
        if all(found):
            return {part: sum(figures[part] for figures in found) / OWNERS for part in found[0]}
    raise AssertionError(f"backfills in each of {TRIES} runs")


def _measured_once(kind, source):
    command = [sys.executable, __file__, "--measure", kind]
    environment = os.environ | {"PYTHONPATH": source}
    owners = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(OWNERS)
    ]
    return [json.loads(owner.communicate()[0]) for owner in owners]


def measure(kind):
    """Microseconds of CPU a delivery: all, in the kernel, and of the threads that count.

    None: a route was backfilled.
    """
    loads, history = kind.removesuffix(HISTORY), kind.endswith(HISTORY)
    routes, matching = KINDS[loads.removesuffix(NO_NETWORK)]
    with (
        tempfile.TemporaryDirectory(prefix="distributary-bench-") as folder,
        subprocess.Popen([sys.executable, SINK, "answer"], stdout=subprocess.PIPE) as sink,
    ):
        try:
            port = int(sink.stdout.readline())
            if loads.endswith(NO_NETWORK):
                Connector.open = _answer_here
            paths = DataDir(Path(folder) / "data")
            fill(paths, routes, 1, lambda n: _subscription(n, matching, port))
            return _drain(paths, matching, str(Path(folder) / "history") if history else "")
        finally:
            sink.kill()


class _Wire(asyncio.Transport):
    """Answers every request in the next turn of the loop."""

    def __init__(self, connection):
        super().__init__({"peername": ("127.0.0.1", 80)})
        self._call_soon = asyncio.get_running_loop().call_soon
        self._answer = connection.data_received

    def write(self, _data):
        self._call_soon(self._answer, ANSWER)

    def is_closing(self):
        return False

    def abort(self):
        pass


async def _answer_here(_connector, _endpoint, make):
    connection = make()
    connection.connection_made(_Wire(connection))


def _subscription(number, matching, port):
    wanted = "com.example.reading" if number < matching else f"com.example.other{number}"
    return {
        "sink": f"http://127.0.0.1:{port}/{number}",
        "protocol": "HTTP",
        "filters": [{"exact": {"type": wanted}}],
    }


def _publish(appender, count):
    """Append *count* events; the record after them."""
    for first in range(0, count, COMMIT):
        appender.append(
            [
                (RecordKind.EVENTS, binary.encode((b"".join(LINES) % number,), BODY))
                for number in range(first, min(first + COMMIT, count))
            ]
        )
    return appender.next_offset


def _drain(paths, matching, history):
    """Own the partition until its log has been delivered, one part of it after the other."""
    appender = Appender.open(paths.log, 0, clock=SystemClock())
    if history:
        importlib.import_module("pandas")  # Arrow would, beside the loop; workers have it already
    settings = SessionSettings(data_dir=str(paths.root), log_level="error", history=history)
    session = PartitionSession(0, 1, settings)
    status_page = MappedStatusPage(paths.status_page(0))
    until_s = time.monotonic() + WAIT_S_MAX

    def deliver(count):
        """Publish so many events, and wait until they are delivered; False: with backfills."""
        end = _publish(appender, count)
        while status_page[StatusField.COMMITTED_OFFSET] < end:
            assert time.monotonic() < until_s
            if status_page[StatusField.BACKFILLING]:
                return False
            time.sleep(0.02)
        return True

    part = EVENTS_MAX if matching > 1 else DELIVERIES // PARTS
    try:
        if not deliver(part):  # until connections stand, and code is warm
            return None
        before, rounds = _cpu(), max(1, DELIVERIES // (part * matching))
        if not all(deliver(part) for _ in range(rounds)):
            return None
        after, deliveries = _cpu(), rounds * part * matching
    finally:
        session.close(orderly=True)
        status_page.close()
        appender.close()
    return {name: (after[name] - before[name]) / deliveries * 1e6 for name in after}


def _cpu():
    """Seconds of CPU of this process so far, by part; without the main thread, which publishes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    main = resource.getrusage(resource.RUSAGE_THREAD)
    found = {
        "all": used.ru_utime + used.ru_stime - main.ru_utime - main.ru_stime,
        "kernel": used.ru_stime - main.ru_stime,
    }
    found |= dict.fromkeys(THREADS.values(), 0.0)
    for thread in threading.enumerate():
        name = thread.name.partition("-")[0]
        if name in THREADS:
            schedstat = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
            found[THREADS[name]] += int(schedstat.split()[0]) / 1e9
    return found


if __name__ == "__main__":
    main()
