"""The driver process of the pipeline over Kafka, PostgreSQL and a Spark cluster, without a server.

One subscription receives every event at a sink in this process; a thread publishes to the topic.
Hides: what nodes of a server do, in as far as owners need it.
"""

import asyncio
import contextlib
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from distributary.core import database
from distributary.core.cluster import SharedPlaces, encode_places
from distributary.core.event import Event, record
from distributary.core.flow import Received
from distributary.core.log.kafka import KafkaAppends, KafkaRoutes, prepare_topics
from distributary.core.outcome.postgres import PostgresDeliveryReader
from distributary.core.postgres_lease import read_leases
from distributary.datadir import PARENT, DataDir
from distributary.history.columns import table
from distributary.history.local_folder import LocalFolder
from distributary.history.names import superseded
from distributary.partitions import SessionSettings
from distributary.partitions.executor import LeaseHolder, lease_holder_of
from distributary.resource import SinkRule
from distributary.server.processes.pipeline_process import PipelineStart, spark_environ
from distributary.spark import DriverSettings
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put

EVENT_S: Final = 0.02
"""Interval of events."""
WAIT_S_MAX: Final = 400.0
"""Longest wait for anything: a start takes minutes of a machine that runs much else."""


class PipelineOnCluster:
    """Runs from construction until ``close``.

    Args:
        folder: For the data directory of its node.
        shared: Log and store, both empty.
        master: Spark's.
        spark_conf: The operator's settings.
        partitions: Of the log.
    """

    def __init__(
        self,
        folder: Path,
        shared: SharedPlaces,
        master: str,
        spark_conf: dict[str, str],
        partitions: int,
    ) -> None:
        self.paths = DataDir(folder)
        self.partitions = partitions
        self.history = folder.with_name("history")
        for each in (folder, self.paths.run, folder / "logs", self.paths.spark):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._shared = shared
        self._url = database.database_url(shared.store)
        self.sent: set[str] = set()
        self.received: Counter[str] = Counter()
        self._sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._sink.serve_forever, daemon=True).start()
        self._fill()
        self._reader = database.open_reader(self._url, "leases")
        self.output = folder / "driver.log"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "distributary.server.processes.pipeline_process",
                    self._start(master),
                ],
                env={
                    **os.environ,
                    **spark_environ(spark_conf),
                    **encode_places(shared),
                    PARENT: str(os.getpid()),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._publishing = True
        self._publisher = threading.Thread(target=lambda: asyncio.run(self._publish()))
        self._publisher.start()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        received = self.received

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                received[self.headers["ce-id"]] += 1
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        return Handler

    def _fill(self) -> None:
        prepare_topics(self._shared.log, self.partitions)
        keys = Keys(self.paths.key_file())
        keys.sealing()
        store = Store(self._url, sealer=Sealer(keys))
        self.paths.internal_key.write_bytes(b"canary-of-the-internal-key-00001")
        body = {"sink": f"http://127.0.0.1:{self._sink.server_port}/", "protocol": "HTTP"}
        spec = api_subscription.parse(body, rules(SinkRule(local_allowed=True)))
        store.apply([Put("all", spec, "0" * 32)], 0)
        pending = store.pending(1)

        async def append() -> None:
            routes = KafkaRoutes(self._shared.log, self.partitions, asyncio.get_running_loop())
            await routes.append_routes([each for _, each in pending])
            await routes.close()

        asyncio.run(append())
        store.mark_appended(pending[-1][0])
        store.close()

    def _start(self, master: str) -> str:
        session = SessionSettings(
            data_dir=str(self.paths.root),
            partitions=self.partitions,
            history=str(self.history),
            history_mark=self._shared.log.prefix,
        )
        driver = DriverSettings(
            data_dir=str(self.paths.root),
            session=msgspec.json.encode(session).decode(),
            history=str(self.history),
            history_age_max_s=1e6,
            history_bytes_max=0,
            partitions=self.partitions,
            master=master,
            epoch_s=3600.0,
            drain_s=3.0,
            host="127.0.0.1",
        )
        start = PipelineStart(driver=driver, log_level="info")
        return msgspec.json.encode(start).decode()

    async def _publish(self) -> None:
        appends = KafkaAppends(self._shared.log, self.partitions, asyncio.get_running_loop())
        number = 0
        while self._publishing:
            name = f"event-{number}"
            number += 1
            event = Event({"specversion": "1.0", "id": name, "source": "/s", "type": "t"}, b"x")
            body = record.encode([event])

            def done(error: Exception | None, name: str = name) -> None:
                if error is None:
                    self.sent.add(name)

            appends.submit(Received(body=body, event_count=1, partition_key=None), done)
            await asyncio.sleep(EVENT_S)
        await appends.close()

    def wait(self, what: str, holds: Any) -> float:
        """Wait until ``holds()``; returns how long that took, seconds."""
        began_s = time.monotonic()
        while not holds():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() - began_s < WAIT_S_MAX, f"not {what}: {self.said()}"
            time.sleep(0.02)
        return time.monotonic() - began_s

    def wait_for_deliveries(self) -> float:
        """Wait until everything that was sent until now is received."""
        sent = set(self.sent)
        return self.wait("delivered", lambda: sent <= self.received.keys())

    def owners(self) -> dict[int, LeaseHolder]:
        """Who holds the leases of partitions now."""
        held = {}
        for row in read_leases(self._reader, "partition-"):
            holder = lease_holder_of(row.holder)
            if holder is not None and row.left_s > 0:
                held[int(row.name.rpartition("-")[2])] = holder
        return held

    def all_owners(self) -> dict[int, LeaseHolder]:
        """Who holds the leases, once each partition has an owner: one may be late to renew.

        All of them at one moment.
        """
        held: dict[int, LeaseHolder] = {}

        def owned() -> bool:
            held.clear()
            held.update(self.owners())
            return len(held) == self.partitions

        self.wait("owned", owned)
        return held

    def outcomes(self) -> Counter[str]:
        """Outcomes by event id: of the history's files, and of rows that none has yet."""
        tables: list[tuple[int, pa.Table]] = []
        for number in range(self.partitions):
            # What waits first: a row that is filed meanwhile is in one of the two.
            blocks = PostgresDeliveryReader(self._url, number).waiting_rows()
            tables += [(number, table(number, blocks))] if blocks else []
        folder = LocalFolder(self.history)
        files = [each.file for each in folder.files()]
        for file in set(files) - set(superseded(files)):
            with contextlib.suppress(FileNotFoundError):  # merged just now
                tables.append((file.partition, pq.read_table(folder.path(file))))
        ids = {
            (number, row["number"]): row["event_id"]
            for number, rows in tables
            for row in rows.select(["number", "event_id", "outcome"]).to_pylist()
            if row["outcome"] is not None
        }
        return Counter(ids.values())

    def said(self) -> str:
        """The end of what the driver wrote."""
        return self.output.read_text(errors="replace")[-3000:]

    def end(self) -> int:
        """Stop publishing, and the driver once all is delivered; returns its exit code."""
        self._publishing = False
        self._publisher.join()
        self.wait_for_deliveries()
        self.process.terminate()
        return self.process.wait(WAIT_S_MAX)

    def close(self) -> None:
        """End what is left of it."""
        self._publishing = False
        self._publisher.join()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._sink.shutdown()
        self._sink.server_close()
