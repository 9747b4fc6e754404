"""Everything that several machines would run, on the loopback of one, in one folder.

Three Kafka nodes, PostgreSQL, a standalone Spark master with two workers, and nodes of
``distributary``. Whatever goes from one member to another goes over a wire that can be cut. A node
that ends is started again, as a service manager does it.

Callers: ``scripts/cluster.py``, ``tests/cluster``, the soak run.
Hides: how members find each other.
"""

import base64
import collections
import contextlib
import http.client
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import psutil

from distributary.core.environment import CREDENTIAL_KEY_VARIABLE, STORE_PASSWORD_VARIABLE
from kit.cutting_proxy import CuttingProxy
from kit.peers import MEMBER, member_of, members
from kit.ports import free_port
from kit.running_server import RunningServer, ServerError, clean_environ, wait_until
from kit.servers.kafka_cluster import KafkaCluster
from kit.servers.postgres import Postgres
from kit.servers.spark import SECRET, SparkMaster, SparkWorker

__all__ = ["DAEMON", "EXECUTOR", "Cluster", "Node"]

NODES: Final = 2
WORKERS: Final = 2
PARTITIONS: Final = 4

RESTART_S: Final = 1.0
"""Pause before a node that has ended is started again."""

READY_S_MAX: Final = 180.0
"""Longest start of everything: half a minute on two idle cores."""

DATABASE: Final = "distributary"
PREFIX: Final = "trial"

EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
"""Main class of an executor's JVM."""

DAEMON: Final = "distributary.spark.worker_daemon"
"""Module of the process that forks an executor's Python workers, and of these."""

TRIED: Final = "Finished task"
"""In ``stderr`` in the folder of an executor: its Python has run a task, so it is warm."""

TAIL_LINES: Final = 30
"""Of each member, where executors do not become ready."""

SLOTS: Final = 3
"""Cores of a worker, in executors: a new driver starts while those of the one before end, and a
master that was started again may take one that has ended for one that runs."""

DRIVER_HOST: Final = "127.0.0.2"
"""Where executors find the driver: wires listen there at the ports that it has on 127.0.0.1."""

EXECUTOR_CONF: Final = {
    "spark.pyspark.python": sys.executable,
    "spark.authenticate.secret": SECRET,
}

Say = Callable[[str], object]


class Node(RunningServer):
    """A node, which is started again when it ends unless it is held down.

    Attributes:
        name: Its name.
        held: Whether it stays down when it ends.
        starts: How often it was started.
    """

    def __init__(self, name: str, folder: Path, config: Path, environ: Mapping[str, str]) -> None:
        super().__init__(
            folder / "data", flags=("--config", str(config)), environ={**environ, MEMBER: name}
        )
        self.name = name
        self.held = False
        self.starts = 0

    def start(self) -> None:
        """Start it; does not wait."""
        super().start()
        self.starts += 1

    def wait_back(self) -> None:
        """Wait for it to be ready, however often it is started meanwhile."""

        def ready() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.request("GET", "/readyz").status == 200
            return False

        wait_until(ready, READY_S_MAX, f"{self.name} is ready\n{self.log_tail()}")

    def leave(self) -> None:
        """Have it stop in good order; it comes back unless it is held down.

        Raises:
            ServerError: It did not end, ended with a fault, or left processes behind.
        """
        code = self.stop()
        left = [pid for pid, member in members() if member == self.name]
        if code or left:
            raise ServerError(f"{self.name} ended with {code} and left {left}\n{self.log_tail()}")

    @property
    def ended(self) -> bool:
        """Whether it was started, and has ended."""
        return self._process is not None and self._process.poll() is not None


class Cluster:
    """All members; a context manager.

    Args:
        folder: For everything that they keep.
        partitions: Of the log; each of two executors has as many task slots.
        say: Told what is being started.
        settings: More settings of the nodes.

    Attributes:
        kafka: Three nodes.
        postgres: The database.
        master: Of Spark.
        workers: Of Spark.
        nodes: Of ``distributary``.
        broker_wires: Before each Kafka node, by its number: all clients of it pass there.
        store_wire: Before PostgreSQL.
        driver_wires: Before the ports of the driver of each node.
        node_wires: Before the port that each node has for other nodes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        partitions: int = PARTITIONS,
        say: Say = lambda _text: None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self._say = say
        self._partitions = partitions
        self._settings = dict(settings or {})
        self._credential_key = base64.b64encode(secrets.token_bytes(32)).decode()
        self._stack = contextlib.ExitStack()
        self._over = threading.Event()
        with _folders_in(folder):
            self.kafka = KafkaCluster()
            self.postgres = Postgres()
            self.master = _Master()
            self.workers = [
                WiredWorker(f"worker-{number}", self.master.url, partitions * SLOTS)
                for number in range(1, WORKERS + 1)
            ]
        self.broker_wires = {
            number: CuttingProxy(("127.0.0.1", node.wired_port), port=node.wire_port)
            for number, node in self.kafka.nodes.items()
        }
        self.store_wire = CuttingProxy(("127.0.0.1", self.postgres.port))
        self.nodes: list[Node] = []
        self.driver_wires: list[CuttingProxy] = []
        self.node_wires: list[CuttingProxy] = []

    # -- beginning and end --------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start everything, and wait until events are delivered."""
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        """Kill everything."""
        self._over.set()
        for node in self.nodes:
            node.held = True
        self._stack.close()

    def _start(self) -> None:
        self._say("three brokers, PostgreSQL, and Spark's master")
        with ThreadPoolExecutor() as threads:
            ground = (self.kafka, self.postgres, self.master)
            list(threads.map(self._stack.enter_context, ground))
            for wire in (*self.broker_wires.values(), self.store_wire):
                self._stack.enter_context(wire)
            with self.postgres.connected() as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}")
            self._say("two workers")
            list(threads.map(self._stack.enter_context, self.workers))
        for number in range(1, NODES + 1):
            self.nodes.append(self._node(number))
        self._say("two nodes")
        for node in self.nodes:
            self._stack.callback(node.kill_all)
            node.start()
        for node in self.nodes:
            node.wait_ready(READY_S_MAX)
        keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._stack.callback(keeper.join)
        self._stack.callback(self._over.set)
        keeper.start()

    def _node(self, number: int) -> Node:
        name = f"node-{number}"
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        config = folder / "distributary.toml"
        chosen = self._shared() | self._own(name) | self._settings
        config.touch(mode=0o600)
        config.write_text(_toml(chosen))
        password = self.postgres.place(DATABASE).password
        environ = clean_environ() | {
            STORE_PASSWORD_VARIABLE: password,
            CREDENTIAL_KEY_VARIABLE: self._credential_key,
        }
        return Node(name, folder, config, environ)

    def _shared(self) -> dict[str, Any]:
        servers = ",".join(wire.place for wire in self.broker_wires.values())
        url = self.postgres.place(DATABASE).url
        store = url.replace(f"127.0.0.1:{self.postgres.port}", self.store_wire.place)
        return {
            "log": f"kafka://{servers}/{PREFIX}",
            "store": store,
            "partitions": self._partitions,
            "spark_master": self.master.url,
        }

    def _own(self, name: str) -> dict[str, Any]:
        """Settings of one node; starts the wires before it."""
        ports = {f"spark.{each}.port": free_port() for each in ("driver", "driver.blockManager")}
        for port in ports.values():
            wire = CuttingProxy(("127.0.0.1", port), host=DRIVER_HOST, port=port)
            self.driver_wires.append(self._stack.enter_context(wire))
        listening = free_port()
        wire = CuttingProxy(("127.0.0.1", listening), host=DRIVER_HOST, port=listening)
        self.node_wires.append(self._stack.enter_context(wire))
        conf = EXECUTOR_CONF | {
            "spark.executor.cores": str(self._partitions),
            "spark.cores.max": str(self._partitions * WORKERS),
        }
        conf |= {key: str(port) for key, port in ports.items()}
        conf |= {"spark.driver.host": DRIVER_HOST, "spark.driver.bindAddress": "127.0.0.1"}
        return {
            "node_name": name,
            "node_address": wire.place,
            "node_listen": f"127.0.0.1:{listening}",
            "spark_conf": conf,
        }

    def _keep(self) -> None:
        """Start nodes that have ended."""
        while not self._over.wait(RESTART_S):
            for node in self.nodes:
                if node.ended and not node.held and not self._over.is_set():
                    node.start()

    # -- what it says -------------------------------------------------------------------------

    @property
    def urls(self) -> list[str]:
        """Where to publish."""
        return [node.url for node in self.nodes]

    def leader(self) -> Node:
        """The node that leads; waits until one does."""
        found: list[Node] = []

        def leads() -> bool:
            holder = self.holder()
            found[:] = [node for node in self.nodes if node.name == holder]
            return bool(found)

        wait_until(leads, READY_S_MAX, "a node leads", 0.1)
        return found[0]

    def wait_whole(self, *, apart: bool = True) -> None:
        """Wait until every member is there, and knows the others.

        Args:
            apart: Also until executors lie on all workers, where two losses follow one another.
        """
        self.kafka.wait_whole()
        for node in self.nodes:
            node.wait_back()
        names = {worker.member for worker in self.workers}

        def ready() -> bool:
            found = [name for _, name in self._warm_executors()]
            there = len(found) >= WORKERS and (not apart or names <= set(found))
            return there and self.master.workers() == WORKERS

        try:
            wait_until(ready, READY_S_MAX, "executors are ready", 0.2)
        except ServerError as error:
            raise ServerError(f"{error}\n{self._said()}") from error

    def wait_anew(self) -> None:
        """Wait until all executors are others than now."""
        before = {process for process, _, _ in _executors()}

        def anew() -> bool:
            now = {process for process, _, _ in _executors()}
            return len(now) >= WORKERS and not now & before

        wait_until(anew, READY_S_MAX, "other executors run", 0.2)

    def _warm_executors(self) -> Iterator[tuple[psutil.Process, str]]:
        """The JVM and the worker of each executor whose Python runs.

        It has ended tasks, or runs owners, whose tasks end with an epoch: in hours.
        """
        owning = {jvm.pid for jvm in map(_jvm_of, self.owners()) if jvm is not None}
        for process, name, said in _executors():
            if TRIED in said or process.pid in owning:
                yield process, name

    def _said(self) -> str:
        """The last lines of all that has to do with executors."""
        said = [(f"executor on {name}", text) for _, name, text in _executors()]
        said += [(worker.member, worker.output()) for worker in self.workers]
        said += [(self.master.name, self.master.output())]
        said += [(node.name, node.log_tail()) for node in self.nodes]
        return "\n".join(f"== {who}\n{_tail(text)}" for who, text in said)

    def busy_worker(self) -> "WiredWorker":
        """The worker with most owners: Spark may have put all on one."""
        busiest = member_of(self.busy_executor().pid)
        return next(each for each in self.workers if each.member == busiest)

    def busy_executor(self) -> psutil.Process:
        """The executor with most owners, which has one; waits for it."""
        found: collections.Counter[int] = collections.Counter()

        def owns() -> bool:
            found.clear()
            found.update(jvm.pid for jvm in map(_jvm_of, self.owners()) if jvm is not None)
            return bool(found)

        wait_until(owns, READY_S_MAX, "an executor has owners", 0.2)
        return psutil.Process(found.most_common(1)[0][0])

    def owners(self) -> set[int]:
        """Process ids of those who hold the leases of partitions."""
        return set(self._holders())

    def all_owners(self) -> set[int]:
        """The same once each partition has an owner: one may be late to renew its lease."""
        held: list[int] = []

        def owned() -> bool:
            held[:] = self._holders()
            return len(held) == PARTITIONS

        wait_until(owned, READY_S_MAX, "each partition has an owner", 0.2)
        return set(held)

    def _holders(self) -> list[int]:
        with self.postgres.connected(DATABASE) as connection:
            rows = connection.execute(
                "SELECT holder FROM distributary.lease"
                " WHERE name LIKE 'partition-%' AND until > clock_timestamp()"
            ).fetchall()
        return [int(msgspec.json.decode(holder)["pid"]) for (holder,) in rows]

    def holder(self) -> str:
        """Name of the node that holds the lease of those who lead; empty: none."""
        with self.postgres.connected(DATABASE) as connection:
            row = connection.execute(
                "SELECT holder FROM distributary.lease"
                " WHERE name = 'control' AND until > clock_timestamp()"
            ).fetchone()
        return "" if row is None else str(msgspec.json.decode(row[0])[0])


def _jvm_of(owner: int) -> psutil.Process | None:
    """The executor's JVM above an owner; None: it is gone, which its owners may outlive."""
    with contextlib.suppress(psutil.Error):
        for jvm in psutil.Process(owner).parents()[1:2]:  # above the daemon
            if EXECUTOR in jvm.cmdline():
                return jvm
    return None


def _executors() -> Iterator[tuple[psutil.Process, str, str]]:
    """The JVM of each executor, its worker, and what it has said."""
    for pid, name in members():
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if EXECUTOR in process.cmdline():
                said = Path(f"/proc/{pid}/cwd/stderr").read_text(errors="replace")
                yield process, name, said


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-TAIL_LINES:])


class _Master(SparkMaster):
    """A master that knows workers and applications again after it was killed."""

    def workers(self) -> int:
        """How many it has; none until it has found again what it knew, and places executors."""
        with contextlib.suppress(OSError, http.client.HTTPException, msgspec.DecodeError):
            said = self._state()
            return int(said["aliveworkers"]) if said["status"] == "ALIVE" else 0
        return 0

    def forget(self) -> None:
        """Remove all that it keeps for another start."""
        shutil.rmtree(self._recovery, ignore_errors=True)

    def _state(self) -> Any:
        asked = http.client.HTTPConnection("127.0.0.1", self.web_port, timeout=5.0)
        with contextlib.closing(asked):
            asked.request("GET", "/json/")
            return msgspec.json.decode(asked.getresponse().read())

    @property
    def _recovery(self) -> Path:
        return self.folder / "recovery"

    def command(self) -> list[str]:
        """See ``BrokerServer``."""
        words = super().command()
        with (self.folder / "spark.properties").open("a") as conf:
            conf.write("spark.deploy.recoveryMode FILESYSTEM\n")
            conf.write(f"spark.deploy.recoveryDirectory {self._recovery}\n")
        return words


class WiredWorker(SparkWorker):
    """A worker whose executors say which worker they belong to.

    Attributes:
        member: Its name.
    """

    def __init__(self, name: str, master: str, cores: int) -> None:
        super().__init__(master, cores)
        self.member = name

    def environ(self) -> dict[str, str]:
        """Variables of its own, which its executors inherit."""
        return super().environ() | {MEMBER: self.member}


def _toml(settings: Mapping[str, Any]) -> str:
    """Settings as a file has them: plain values first, then tables of one level."""
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    lines = [f"{name} = {_value(value)}" for name, value in plain.items()]
    for name, table in settings.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]"]
            lines += [f'"{key}" = {_value(value)}' for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@contextlib.contextmanager
def _folders_in(folder: Path) -> Iterator[None]:
    """Members that are made meanwhile have their folders in *folder*."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
