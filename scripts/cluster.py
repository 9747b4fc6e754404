"""A cluster on this machine, with a demo on it: ``make cluster`` and ``make cluster-stop``.

    python scripts/cluster.py start|stop

Three Kafka nodes, PostgreSQL, a Spark master with two workers, and two nodes of ``distributary``,
all on the loopback, with what they keep in ``build/cluster``. It runs until it is stopped. A
publisher sends events to both nodes, and two subscribers get those that they asked for.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

FOLDER = ROOT / "build" / "cluster"

MARK = "TESTS_CLUSTER"
"""Environment variable of every process of the cluster: its folder."""

READY = "ready: "
"""What the line begins with that says that everything runs."""

RATE_PER_S = 20.0
START_S_MAX = 300.0
STOP_S_MAX = 60.0


def main(arguments: list[str]) -> int:
    """Start, stop, or be the process that all others descend from."""
    if arguments == ["start"]:
        return _start()
    if arguments == ["stop"]:
        return _stop()
    if arguments == ["run"]:
        _run()
        return 0
    print(__doc__, file=sys.stderr)
    return 2


def _start() -> int:
    if _members():
        print(f"A cluster runs already; what it prints: {FOLDER / 'cluster.log'}")
        print("Stop it: make cluster-stop")
        return 1
    shutil.rmtree(FOLDER, ignore_errors=True)
    # Where we are root, PostgreSQL runs as another account, which has to reach its own folder.
    FOLDER.mkdir(mode=0o711 if os.getuid() == 0 else 0o700, parents=True)
    log = FOLDER / "cluster.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, "run"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {MARK: str(FOLDER), "PYTHONUNBUFFERED": "1"},
        )
    for line in _lines(log, process):
        print(line.removeprefix(READY))
        if line.startswith(READY):
            print("Stop it: make cluster-stop")
            return 0
    print(f"The cluster did not start: {log}", file=sys.stderr)
    _stop(remove=False)
    return 1


def _lines(log: Path, process: subprocess.Popen[bytes]) -> Iterator[str]:
    """What *process* writes, line by line, until it ends or it takes too long."""
    deadline_s = time.monotonic() + START_S_MAX
    with log.open() as text:
        begun = ""
        while time.monotonic() < deadline_s:
            begun += text.readline()
            if begun.endswith("\n"):
                yield begun[:-1]
                begun = ""
            elif process.poll() is None:
                time.sleep(0.1)
            else:
                return


def _stop(*, remove: bool = True) -> int:
    members = _members()
    if not members:
        print("No cluster runs.")
    for process in members:
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[-1:] == ["run"]:
                process.terminate()
                process.wait(STOP_S_MAX)
    for process in _members():  # what a killed cluster has left
        with contextlib.suppress(psutil.Error):
            process.kill()
    if remove:
        shutil.rmtree(FOLDER, ignore_errors=True)
    if members:
        print("The cluster is gone, with all that it kept.")
    return 0


def _members() -> list[psutil.Process]:
    """Every process of the cluster."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == str(FOLDER):
                found.append(process)
    return found


def _run() -> None:
    from distributary.cli._behaviour import Behaviour  # noqa: PLC0415 - start and stop are quick
    from kit.cluster.cluster import Cluster  # noqa: PLC0415 - as above
    from kit.traffic import Traffic  # noqa: PLC0415 - as above

    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())

    def say(text: str) -> None:
        print(f"==> {text}", flush=True)

    sinks = {"orders": Behaviour(), "paid": Behaviour()}
    demo = FOLDER / "demo"
    demo.mkdir()
    with Cluster(FOLDER, say=say) as cluster, Traffic(demo, sinks) as traffic:
        say("a publisher, and two subscribers")
        node = cluster.nodes[0]
        node.subscribe(traffic.sinks["orders"].url)
        paid = [{"exact": {"type": "com.example.paid"}}]
        node.subscribe(traffic.sinks["paid"].url, filters=paid)
        traffic.publish(cluster.urls, _event, RATE_PER_S)
        while not over.is_set() and not traffic.sinks["paid"].taken:
            over.wait(0.1)
        for line in _guide(cluster):
            print(line)
        print(READY + "events flow: 20/s, of which each tenth is paid", flush=True)
        over.wait()


def _guide(cluster: Any) -> list[str]:
    urls = " and ".join(cluster.urls)
    return [
        f"Nodes:    {urls}",
        f"Console:  {cluster.urls[0]}/console/",
        f"Status:   {sys.executable} -m distributary.cli status --url {cluster.urls[0]}",
        f"Spark:    {cluster.master.url}",
        f"Kafka:    {','.join(cluster.kafka.servers)}",
        f"Database: {cluster.postgres.place('distributary').url}",
        f"Folder:   {cluster.folder}",
    ]


def _event(number: int) -> Any:
    from distributary.core.event import Event  # noqa: PLC0415 - start and stop are quick

    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": f"order-{number}",
        "source": "/shop",
        "type": "com.example.paid" if number % 10 == 0 else "com.example.order",
        "datacontenttype": "application/json",
    }
    return Event(attributes, b'{"order": %d}' % number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
