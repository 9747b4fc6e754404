"""A server, sinks and load for one group of lines; everything is a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

import _kit  # noqa: F401 - for the imports of kit
from distributary.datadir import StatusField
from kit.running_server import Role, RunningServer, total, wait_until

HERE = Path(__file__).parent
DRAIN_S_MAX = 180.0
REMARKABLE = (
    "lags_begun_total",
    "spilled_total",
    "retried_total",
    "dead_lettered_total",
    "process_restarts_total",
)


class Rig:
    """One ``serve`` in a fresh data directory and the sinks beside it; a context manager.

    ``prepare`` is called with the directory's places before the server starts.
    """

    def __init__(self, *flags, prepare=None):
        self._stack = contextlib.ExitStack()
        self._flags = flags
        self._prepare = prepare

    def __enter__(self):
        folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="distributary-bench-", ignore_cleanup_errors=True)
        )
        self.server = RunningServer(Path(folder) / "data", flags=self._flags)
        if self._prepare is not None:
            self._prepare(self.server.paths)
        began_s = time.monotonic()
        try:
            self._stack.enter_context(self.server)
        except BaseException:
            self._stack.close()
            raise
        self.start_s = time.monotonic() - began_s
        return self

    def __exit__(self, kind, *_exception):
        if kind is None:
            self._remark()
        self._stack.close()

    def _remark(self):
        """Say what happened besides: with backfills or restarts a figure means something else."""
        now = self.server.metrics()
        for name in REMARKABLE:
            if total(now, name):
                print(f"    ({name}: {total(now, name):,.0f})", flush=True)

    # -- processes beside the server ----------------------------------------------------------

    def sink(self, program="_sink"):
        """A measuring sink; see ``_sink``, and ``_steps``."""
        process = self._start([str(HERE / f"{program}.py")], stdout=subprocess.PIPE)
        return Sink(int(process.stdout.readline()))

    def bad_sink(self, *flags):
        """The URL of ``distributary listen`` with *flags*."""
        words = ["-m", "distributary.cli", "listen", "--port", "0", "--quiet", *flags]
        process = self._start(words, stderr=subprocess.PIPE)
        line = process.stderr.readline().decode()
        return line.split()[-1]

    def _start(self, words, **pipes):
        process = subprocess.Popen([sys.executable, *words], **pipes)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def load(self, mode, *, background=False, **options):
        """Run the generator; its report, or a function that waits for it."""
        words = [sys.executable, str(HERE / "_load.py"), str(self.server.port), mode]
        for name, value in options.items():
            words += [f"--{name}", str(value)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE)

        def report():
            output, _ = process.communicate()
            found = json.loads(output)
            assert not found["refused"], found
            return found

        return report if background else report()

    # -- the pipeline -------------------------------------------------------------------------

    @contextlib.contextmanager
    def stopped_pipeline(self):
        """Events are accepted, and none is read: owners are stopped (SIGSTOP).

        Workers that own nothing may end meanwhile. The successor of an owner that ended would
        read: what follows would measure something else.
        """
        processes = self._signalled(self._owners(), signal.SIGSTOP)
        needed = max(self.server.partition_count(), 1)
        assert len(processes) >= needed, processes
        try:
            yield
        finally:
            processes = self._signalled(processes, signal.SIGCONT)
        assert len(processes) >= needed, "an owner ended while it was stopped"

    @staticmethod
    def _signalled(processes, number):
        """Those of *processes* that got the signal: that have not ended."""
        alive = []
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
                alive.append(process)
        return alive

    def _owners(self):
        """The owners; where nodes share a store, no file tells who owns what."""
        return self.server.processes(Role.WRITER) or self.server.processes(Role.WORKER)

    def live_offset(self):
        """Records that the owners have looked at."""
        return sum(
            self.server.look(number, StatusField.LIVE_OFFSET)
            for number in range(self.server.partition_count())
        )

    def settle(self):
        """Wait until nothing is under way."""
        wait_until(self.server.settled, DRAIN_S_MAX, "everything settles", 0.3)

    # -- what it costs ------------------------------------------------------------------------

    def meter(self):
        """Measure CPU from now on; a function that returns it: seconds by process of the server.

        ``ended`` is what processes used that ended meanwhile. Sinks and load are no processes of
        the server.
        """
        names, (before, ended_before_s) = self._names(), self._cpu_s()

        def read():
            after, ended_s = self._cpu_s()
            known = names | self._names()
            found = dict.fromkeys([*known.values(), "other", "ended"], 0.0)
            for pid, used_s in after.items():
                found[known.get(pid, "other")] += used_s - before.get(pid, 0.0)
            gone_s = sum(used_s for pid, used_s in before.items() if pid not in after)
            found["ended"] = max(0.0, ended_s - ended_before_s - gone_s)
            return found

        return read

    def _cpu_s(self):
        """CPU seconds of every process of the server by its id, and of those that ended."""
        used, ended_s = {}, 0.0
        for process in self.server.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                used[process.pid] = times.user + times.system
                ended_s += times.children_user + times.children_system
        return used, ended_s

    def _names(self):
        """What the processes do, by their ids; several of a role are numbered."""
        names = {}
        for role in (role for role in Role if role is not Role.WRITER):
            pids = [process.pid for process in self.server.processes(role)]
            for number, pid in enumerate(pids):
                names[pid] = f"{role} {number}" if len(pids) > 1 else f"{role}"
        owners = dict(enumerate(self.server.owner_pids()))
        if not owners:
            owners = {n: each.pid for n, each in enumerate(self.server.processes(Role.WORKER))}
        return names | {pid: f"owner {partition}" for partition, pid in owners.items()}

    def pss_mib(self):
        """Memory of all processes of the server, shared pages counted once, MiB."""
        return sum(pss_kib(process.pid) for process in self.server.tree()) / 1024


def each_us(used_s, count):
    """Microseconds for each of *count* events or deliveries, by process."""
    return {name: each / count * 1e6 for name, each in used_s.items()}


def pss_kib(pid):
    """Proportional set size of a process, KiB; 0 where it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


class Sink:
    """The measuring sink at *port*."""

    def __init__(self, port):
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"

    def ask(self, path):
        with urllib.request.urlopen(f"{self.url}{path}", timeout=60) as answer:
            return json.load(answer)

    def reset(self):
        """Forget what arrived."""
        self.ask("reset")

    def wait_for(self, count):
        """The report, when *count* deliveries have arrived since the reset."""
        wait_until(
            lambda: self.ask("stats")["count"] >= count, DRAIN_S_MAX, f"{count} arrivals", 0.25
        )
        return self.ask("stats")
