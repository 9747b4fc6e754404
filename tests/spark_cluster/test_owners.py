"""Owners on the executors of a standalone cluster: deliveries, secrets, and kills of each part."""

import base64
import contextlib
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from distributary.core.cluster import KafkaPlace, SharedPlaces
from distributary.partitions.executor import LeaseHolder
from kit.cluster.cluster import DAEMON
from kit.ports import free_port
from kit.servers._base import PASSWORD, USER
from kit.servers.kafka import Kafka
from kit.servers.pipeline_on_cluster import PipelineOnCluster
from kit.servers.postgres import Postgres
from kit.servers.spark import SECRET, SparkMaster, SparkWorker

PARTITIONS = 2


class World(NamedTuple):
    """All of it."""

    pipeline: PipelineOnCluster
    master: SparkMaster
    workers: list[SparkWorker]
    event_log: Path
    ui: str


@pytest.fixture(scope="module")
def world(
    kafka: Kafka, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A master, two workers with two slots each, and a pipeline on them that delivers."""
    folder = tmp_path_factory.mktemp("cluster")
    event_log = folder / "events"
    event_log.mkdir()
    shared = SharedPlaces(
        log=KafkaPlace(
            servers=(f"127.0.0.1:{kafka.port}",),
            prefix=f"spark-{os.getpid()}",
            sasl_mechanism="PLAIN",
            user=USER,
            password=PASSWORD,
        ),
        store=postgres.new_database(),
    )
    port = free_port()
    conf = {
        "spark.authenticate.secret": SECRET,
        "spark.pyspark.python": sys.executable,
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_log.as_uri(),
    }
    with SparkMaster() as master:
        workers = [SparkWorker(master.url, 2) for _ in range(2)]
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(SparkWorker.start, workers))
            pipeline = PipelineOnCluster(folder / "node", shared, master.url, conf, PARTITIONS)
            try:
                pipeline.wait("begun", lambda: len(pipeline.received) > 0)
                pipeline.wait_for_deliveries()
                yield World(pipeline, master, workers, event_log, f"http://127.0.0.1:{port}")
            finally:
                pipeline.close()
        finally:
            for worker in workers:
                worker.__exit__(None, None, None)


def _secrets(world: World) -> list[bytes]:
    keys = world.pipeline.paths.key_file().read_text().split()
    internal = world.pipeline.paths.internal_key.read_bytes()
    texts = [PASSWORD, SECRET, *keys, base64.b64encode(internal).decode(), internal.decode()]
    return [text.encode() for text in texts]


def test_no_secret_stands_where_spark_shows_things(world: World) -> None:
    """Neither in its settings and plans by its API and pages, its event log, nor any argument."""
    application = world.pipeline.all_owners()[0].application
    api = f"{world.ui}/api/v1/applications/{application}"
    shown = b""
    for url in (
        f"{api}/environment",
        f"{api}/jobs",
        f"{api}/stages?details=true",
        f"{api}/sql?details=true&planDescription=true",
        f"{world.ui}/environment/",
        f"{world.ui}/StreamingQuery/",
    ):
        with urllib.request.urlopen(url, timeout=60) as answer:
            shown += answer.read()
    assert b"spark.authenticate.secret" in shown  # it looked at the right pages
    assert b"mapInArrow" in shown or b"MapInArrow" in shown
    logged = b"".join(path.read_bytes() for path in world.event_log.rglob("*") if path.is_file())
    assert application.encode() in logged
    arguments = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments += path.read_bytes()
        except OSError:  # it has ended
            continue
    assert b"CoarseGrainedExecutorBackend" in arguments
    for place in (shown, logged, arguments):
        assert [secret for secret in _secrets(world) if secret in place] == []


def test_history_of_executors_lies_in_the_folder_that_all_share(world: World) -> None:
    """Files appear there while deliveries go on."""
    pipeline = world.pipeline
    pipeline.wait("history", lambda: any(pipeline.history.glob("date=*/*.parquet")))


def _executor(holder: LeaseHolder) -> int:
    """Process id of the JVM above a Python worker: the daemon is between them."""

    def parent(pid: int) -> int:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])

    return parent(parent(holder.pid))


def test_partitions_of_a_killed_executor_move(world: World) -> None:
    """They deliver until tasks elsewhere ask for the partitions: no lease has to run out."""
    pipeline = world.pipeline
    before = pipeline.all_owners()
    os.kill(_executor(before[0]), signal.SIGKILL)

    def moved() -> bool:
        now = pipeline.owners()
        gone = before[0].executor
        return len(now) == PARTITIONS and all(each.executor != gone for each in now.values())

    pipeline.wait("moved", moved)
    pipeline.wait_for_deliveries()
    # The executor that Spark has started in its place is made ready, though no partition is there.
    application = before[0].application
    pipeline.wait("ready", lambda: len(_ready(application)) == len(world.workers))


def _ready(application: str) -> list[int]:
    """Process ids of the executors of *application* that have started their Python."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if application in words and any(
                DAEMON in child.cmdline() for child in process.children()
            ):
                found.append(process.pid)
    return found


def test_a_killed_worker_process_costs_its_partition_a_moment(world: World) -> None:
    """A Python worker that dies in the middle: its task is repeated, in another process."""
    pipeline = world.pipeline
    before = pipeline.all_owners()
    os.kill(before[1].pid, signal.SIGKILL)
    pipeline.wait(
        "taken again",
        lambda: (now := pipeline.owners().get(1)) is not None and now.pid != before[1].pid,
    )
    pipeline.wait_for_deliveries()


def test_a_killed_worker_of_spark_loses_its_executor_alone(world: World) -> None:
    """The other one has slots for all."""
    pipeline = world.pipeline
    pipeline.all_owners()
    world.workers[1].kill()
    pipeline.wait_for_deliveries()
    pipeline.all_owners()
    pipeline.wait_for_deliveries()


def test_deliveries_go_on_without_the_master_and_nothing_is_lost(world: World) -> None:
    """The master only gives out executors. At the end all is delivered, and the driver ends.

    The history has one outcome of each event, whatever was killed before.
    """
    pipeline = world.pipeline
    world.master.kill()
    for _ in range(3):
        pipeline.wait_for_deliveries()
    assert pipeline.end() == 0, pipeline.said()
    assert pipeline.sent - pipeline.received.keys() == set()
    outcomes = pipeline.outcomes()
    assert pipeline.sent - outcomes.keys() == set()
    assert {id_ for id_, count in outcomes.items() if count > 1} == set()
    assert pipeline.sent
