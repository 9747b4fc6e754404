"""A ``distributary serve`` in processes of its own: started, asked, killed in parts, stopped.

Callers: end-to-end and crash tests, benchmarks, the soak run. Hides: the command line, which
process does what, and waiting. Needs Linux (``/proc``) and ``psutil``, an extra of developers.
"""

import contextlib
import enum
import http.client
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec
import psutil

from distributary.core.errors import DistributaryError
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from kit.ports import free_port

__all__ = [
    "Answer",
    "Role",
    "RunningServer",
    "ServerError",
    "clean_environ",
    "samples",
    "total",
    "wait_until",
]

READY_S_MAX = 120.0
"""Longest wait for readiness: 78 s were seen on two busy cores, most of it the JVM."""

STOP_S_MAX = 60.0
"""Longest wait for an orderly stop: drain time, the stop of the query, and the JVM's end."""

REQUEST_S_MAX = 30.0
"""Longest wait for one answer."""

LOOK_S = 0.05
"""Pause between two looks at something that is waited for."""

_METRIC = re.compile(r"^([A-Za-z_:][\w:]*)(\{[^}]*\})? (\S+)$")


class ServerError(DistributaryError):
    """The server did not do what was waited for; the message holds the end of its log."""


class Role(enum.StrEnum):
    """The processes of a server, as things that can be killed."""

    SERVE = "serve"
    """The parent of all: lock, socket, API."""
    INGEST = "ingest"
    """The front door and the appending of the log."""
    DRIVER = "driver"
    """The Python half of Spark's driver."""
    JVM = "jvm"
    DAEMON = "daemon"
    """The process that forks the owners."""
    WRITER = "writer"
    """A Python worker that owns a partition."""
    WORKER = "worker"
    """Any Python worker: where nodes share a store, no file tells which of them owns what."""
    INDEX = "index"
    """What makes the index of ids."""


_PROGRAMS: Final = {Role.INGEST: "ingest", Role.DRIVER: "pipeline", Role.INDEX: "index"}


class Answer(NamedTuple):
    """An answer of the server.

    Attributes:
        status: Of the answer.
        headers: Last value of each, names in lower case.
        body: Whole.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; raises if it is none."""
        return msgspec.json.decode(self.body)


_Seen = TypeVar("_Seen")


def wait_until(
    holds: Callable[[], bool], timeout_s: float, what: str, look_s: float = LOOK_S
) -> float:
    """Wait until *holds*; the seconds that it took.

    Raises:
        ServerError: It did not hold within *timeout_s*: so long that something hangs.
    """
    began_s = time.monotonic()
    while not holds():
        if time.monotonic() - began_s > timeout_s:
            raise ServerError(f"waited {timeout_s:g} s in vain: {what}")
        time.sleep(look_s)
    return time.monotonic() - began_s


def once_still(
    look: Callable[[], _Seen], timeout_s: float, what: str, still_s: float = 2.0
) -> _Seen:
    """What *look* returns, once that has not changed for *still_s*; statuses lag by a second.

    Raises:
        ServerError: It changes still after *timeout_s*.
    """
    seen = look()

    def still() -> bool:
        nonlocal seen
        before = seen
        time.sleep(still_s)
        seen = look()
        return seen == before

    wait_until(still, timeout_s, what)
    return seen


class RunningServer:
    """One server on a data directory; ``start`` may be called again after it ended.

    Args:
        data_dir: Its data directory; a log of its output is kept beside it.
        flags: More flags of ``serve``.
        environ: Its environment; None: ours without ``DISTRIBUTARY_*``.
        tls: How to reach it by TLS, which *flags* switch on; None: in plain HTTP.
        launcher: Program and arguments that become the server: what to run is appended.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        flags: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir
        self.paths = DataDir(data_dir)
        self.port = free_port()
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self.tls = tls
        self.log = data_dir.with_name(data_dir.name + ".log")
        self._flags = list(flags)
        self._launcher = tuple(launcher)
        self._environ = dict(environ if environ is not None else clean_environ())
        self._process: subprocess.Popen[bytes] | None = None

    # -- beginning and end --------------------------------------------------------------------

    def start(self) -> None:
        """Start it; does not wait."""
        command = [*self._launcher, sys.executable, "-m", "distributary.cli", "serve"]
        command += ["--data-dir", str(self.data_dir), "--port", str(self.port), *self._flags]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environ,
            )

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill_all()

    @property
    def pid(self) -> int:
        """Process id of ``serve``."""
        assert self._process is not None
        return self._process.pid

    def wait_ready(self, timeout_s: float = READY_S_MAX) -> float:
        """Wait for ``GET /readyz`` to answer 200; the seconds that it took."""

        def ready() -> bool:
            if self._process is None or self._process.poll() is not None:
                raise ServerError(f"the server ended.\n{self.log_tail()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.request("GET", "/readyz").status == 200
            return False

        try:
            return wait_until(ready, timeout_s, "the server is ready")
        except ServerError as error:
            raise ServerError(f"{error}\n{self.log_tail()}") from error

    def stop(self, timeout_s: float = STOP_S_MAX) -> int:
        """Ask it to stop (SIGTERM) and wait; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ServerError(f"the server did not stop.\n{self.log_tail()}") from None

    def wait(self, timeout_s: float) -> int:
        """Wait for it to end by itself; its exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill_all(self) -> None:
        """Kill every process of it at once, and reap the first."""
        if self._process is None:
            return
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])

    # -- its processes ------------------------------------------------------------------------

    def tree(self) -> list[psutil.Process]:
        """Every process of it that is alive, ``serve`` first."""
        try:
            first = psutil.Process(self.pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def processes(self, role: Role) -> list[psutil.Process]:
        """The processes that do *role* now, by process id."""
        if role is Role.SERVE:
            return self.tree()[:1]
        if role is Role.WRITER:
            return self._owners()
        found = [process for process in self.tree()[1:] if self._does(process, role)]
        return sorted(found, key=lambda process: process.pid)

    def _does(self, process: psutil.Process, role: Role) -> bool:
        try:
            words = process.cmdline()
            if role is Role.JVM:
                return bool(words) and words[0].endswith("java")
            if role in _PROGRAMS:
                return f"distributary.server.processes.{_PROGRAMS[role]}_process" in words
            if role is Role.WORKER:
                return _forks(words) and _forks(psutil.Process(process.ppid()).cmdline())
            assert role is Role.DAEMON
            return _forks(words) and not _forks(psutil.Process(process.ppid()).cmdline())
        except psutil.Error:
            return False  # It ended while we looked.

    def _owners(self) -> list[psutil.Process]:
        """The owners that run, by process id: they may have outlived their daemon and the JVM."""
        found = []
        for pid in set(self.owner_pids()):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if _forks(process.cmdline()):
                    found.append(process)
        return sorted(found, key=lambda process: process.pid)

    def owner_pids(self) -> list[int]:
        """Process ids of the owners, in the order of the partitions."""
        return [self.look(number, StatusField.PID) for number in range(self.partition_count())]

    def kill(self, role: Role, number: int = 0) -> int:
        """Kill the process of *role* (the *number*-th, wrapping around); its process id.

        Raises:
            ServerError: There is none now.
        """
        found = self.processes(role)
        if not found:
            raise ServerError(f"no {role} is running")
        chosen = found[number % len(found)]
        os.kill(chosen.pid, signal.SIGKILL)
        return chosen.pid

    # -- what it says -------------------------------------------------------------------------

    def partition_count(self) -> int:
        """Partitions of its log; 0 before it was made."""
        return sum(1 for _ in self.paths.log.glob("p[0-9]*"))

    def look(self, partition: int, word: StatusField) -> int:
        """A number of a partition's status page."""
        status_page = MappedStatusPage(self.paths.status_page(partition))
        try:
            return status_page[word]
        finally:
            status_page.close()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request on a connection of its own.

        Raises:
            OSError, http.client.HTTPException: No answer came.
        """
        connection = self.connection()
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, fields, answer.read())
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        """A connection to it, not opened yet."""
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_S_MAX)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=REQUEST_S_MAX, context=self.tls
        )

    def subscribe(self, sink: str, **members: Any) -> str:
        """Create a subscription; its id. *members* are more members of the object."""
        body = msgspec.json.encode({"sink": sink, "protocol": "HTTP", **members})
        fields = {"content-type": "application/json"}
        answer = self.request("POST", "/subscriptions", body, fields)
        if answer.status != 201:
            raise ServerError(f"subscribing was answered {answer.status}: {answer.body!r}")
        name: str = answer.json()["id"]
        return name

    def metrics(self) -> dict[str, float]:
        """Every number of ``GET /metrics`` by name with labels, without our prefix."""
        return dict(samples(self.request("GET", "/metrics").body.decode()))

    def metric(self, name: str) -> float:
        """The sum of the metric *name* over its labels; 0 where there is none."""
        return total(self.metrics(), name)

    def settled(self) -> bool:
        """True when every accepted event has come to its end, by the numbers of the server."""
        now = self.metrics()
        waiting = ("lag_records", "in_flight", "queued", "lagging_routes", "waiting_retries")
        return now.get("ready") == 1 and not any(total(now, name) for name in waiting)


def _forks(words: Sequence[str]) -> bool:
    """Whether *words* are the command line of Spark's Python daemon, which its workers keep."""
    return "distributary.spark.worker_daemon" in words


def total(metrics: Mapping[str, float], name: str) -> float:
    """The sum of the metric *name* over its labels."""
    return sum(value for key, value in metrics.items() if key.partition("{")[0] == name)


def samples(text: str) -> Iterator[tuple[str, float]]:
    """Every number of *text*, metrics as Prometheus reads them, by name without our prefix."""
    for line in text.splitlines():
        found = _METRIC.match(line)
        if found:
            name = found[1].removeprefix("distributary_")
            yield name + (found[2] or ""), float(found[3])


def clean_environ() -> dict[str, str]:
    """Our environment without settings of ``serve``; places in ``PYTHONPATH`` made absolute."""
    environ = {name: text for name, text in os.environ.items() if "DISTRIBUTARY_" not in name}
    if "PYTHONPATH" in environ:
        paths = environ["PYTHONPATH"].split(os.pathsep)
        environ["PYTHONPATH"] = os.pathsep.join(str(Path(place).resolve()) for place in paths)
    return environ
