"""Where things lie in a data directory: the one place that knows the names.

::

    data/
      LOCK                        one server at a time
      state.db                    resources (control)
      credentials.key             opens the sink credentials in it, unless chosen elsewhere
      log/p0000/…                 the log (log room)
      outcome/p0000/journal       cursor and outcomes (outcome room)
      outcome/p0000/delivery.db   retries, backfills, dead letters
      outcome/p0000/routes        route table at a durable cursor (a cache, can be rebuilt)
      outcome/p0000/OWNER         locked by the process that delivers the partition
      outcome/quota.db            deliveries of counted subscriptions (all partitions)
      run/                        sockets, status pages, metric snapshots, failing routes: nothing
      to keep spark/                      Spark's checkpoint: scratch, rebuilt when damaged
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEY_FILE_NAME: Final = "credentials.key"
"""The key of the sink credentials lies there unless it is chosen elsewhere."""
SOCKET_PATH_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
"""Longest path of a Unix socket."""


@dataclass(frozen=True, slots=True)
class DataDir:
    """Paths below one data directory."""

    root: Path

    @classmethod
    def of(cls, data_dir: str) -> "DataDir":
        """The places below *data_dir*."""
        return cls(Path(data_dir))

    @property
    def log(self) -> Path:
        """Folder of the log."""
        return self.root / "log"

    @property
    def state_db(self) -> Path:
        """The resource store."""
        return self.root / "state.db"

    def key_file(self, chosen: str = "") -> Path:
        """The keys of credentials: where *chosen* says, else here."""
        return Path(chosen) if chosen else self.root / KEY_FILE_NAME

    @property
    def run(self) -> Path:
        """Sockets, status pages, snapshots of metrics."""
        return self.root / "run"

    @property
    def spark(self) -> Path:
        """Spark's scratch: checkpoint, warehouse, temporary files."""
        return self.root / "spark"

    @property
    def control_socket(self) -> Path:
        """Where the API listens; the ingest process passes requests on to it."""
        return self.run / "control.sock"

    @property
    def worker_sockets(self) -> Path:
        """Folder of the sockets between the JVM and its Python workers."""
        return self.run / "workers"

    @property
    def append_socket(self) -> Path:
        """Where the ingest process takes route records from the control process."""
        return self.run / "append.sock"

    def outcome(self, partition: int) -> Path:
        """Folder of what came of the matches of *partition*."""
        return self.root / "outcome" / f"p{partition:04d}"

    def journal(self, partition: int) -> Path:
        """Cursor and outcomes."""
        return self.outcome(partition) / "journal"

    def delivery_db(self, partition: int) -> Path:
        """Retries, backfills, dead letters."""
        return self.outcome(partition) / "delivery.db"

    @property
    def quota_db(self) -> Path:
        """Counts of deliveries, shared by all partitions."""
        return self.root / "outcome" / "quota.db"

    def routes(self, partition: int) -> Path:
        """Route table at a durable cursor."""
        return self.outcome(partition) / "routes"

    def owner_lock(self, partition: int) -> Path:
        """Locked by the one process that delivers *partition*."""
        return self.outcome(partition) / "OWNER"

    def status_page(self, partition: int) -> Path:
        """Numbers shared between processes."""
        return self.run / f"p{partition:04d}.board"

    def failing(self, partition: int) -> Path:
        """Routes whose deliveries fail, as the owner of *partition* sees them."""
        return self.run / f"failing-p{partition:04d}.json"

    def sick(self, partition: int) -> Path:
        """Why *partition* could not be owned when that was last tried."""
        return self.run / f"sick-p{partition:04d}.txt"

    @property
    def ingest_page(self) -> Path:
        """Whether the ingest process lives and its log takes events."""
        return self.run / "ingest.board"

    @property
    def live(self) -> Path:
        """Settings that may change while the server runs."""
        return self.run / "settings.json"

    @property
    def driver_page(self) -> Path:
        """Whether the driver of the pipeline lives."""
        return self.run / "driver.board"

    @property
    def sources_page(self) -> Path:
        """Whether the process of the sources lives."""
        return self.run / "sources.board"

    @property
    def seen(self) -> Path:
        """Types and sources of events, as the ingest process saw them."""
        return self.run / "seen.json"

    def meter(self, role: str) -> Path:
        """Snapshot of the counters of *role*."""
        return self.run / "metrics" / f"{role}.json"

    def meters(self) -> list[Path]:
        """Every snapshot of counters."""
        return sorted((self.run / "metrics").glob("*.json"))
