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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEY_FILE_NAME: Final = "credentials.key"
"""The key of the sink credentials lies there unless it is chosen elsewhere."""
SOCKET_PATH_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
"""Longest path of a Unix socket."""


class _Below:
    """A path below the data directory."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, paths: "DataDir", _owner: object = None) -> Path:
        return paths.root / self._path


class _OfPartition:
    """A path below the data directory for each partition, whose number stands in it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, paths: "DataDir", _owner: object = None) -> Callable[[int], Path]:
        return lambda partition: paths.root / self._path.format(f"p{partition:04d}")


@dataclass(frozen=True, slots=True)
class DataDir:
    """Paths below one data directory; those of a partition take its number."""

    root: Path

    log = _Below("log")
    """Folder of the log."""
    state_db = _Below("state.db")
    """The resource store."""
    spark = _Below("spark")
    """Spark's scratch: checkpoint, warehouse, temporary files."""
    quota_db = _Below("outcome/quota.db")
    """Counts of deliveries, shared by all partitions."""

    outcome = _OfPartition("outcome/{}")
    """Folder of what came of the matches of a partition."""
    journal = _OfPartition("outcome/{}/journal")
    """Cursor and outcomes."""
    delivery_db = _OfPartition("outcome/{}/delivery.db")
    """Retries, backfills, dead letters."""
    routes = _OfPartition("outcome/{}/routes")
    """Route table at a durable cursor."""
    owner_lock = _OfPartition("outcome/{}/OWNER")
    """Locked by the one process that delivers the partition."""

    run = _Below("run")
    """Sockets, status pages, snapshots of metrics."""
    control_socket = _Below("run/control.sock")
    """Where the API listens; the ingest process passes requests on to it."""
    append_socket = _Below("run/append.sock")
    """Where the ingest process takes route records from the control process."""
    worker_sockets = _Below("run/workers")
    """Folder of the sockets between the JVM and its Python workers."""
    live = _Below("run/settings.json")
    """Settings that may change while the server runs."""
    seen = _Below("run/seen.json")
    """Types and sources of events, as the ingest process saw them."""
    status_page = _OfPartition("run/{}.board")
    """Numbers shared between processes."""
    failing = _OfPartition("run/failing-{}.json")
    """Routes whose deliveries fail, as the owner of the partition sees them."""
    sick = _OfPartition("run/sick-{}.txt")
    """Why the partition could not be owned when that was last tried."""
    ingest_page = _Below("run/ingest.board")
    """Whether the ingest process lives and its log takes events."""
    driver_page = _Below("run/driver.board")
    """Whether the driver of the pipeline lives."""
    sources_page = _Below("run/sources.board")
    """Whether the process of the sources lives."""

    @classmethod
    def of(cls, data_dir: str) -> "DataDir":
        """The places below *data_dir*."""
        return cls(Path(data_dir))

    def key_file(self, chosen: str = "") -> Path:
        """The keys of credentials: where *chosen* says, else here."""
        return Path(chosen) if chosen else self.root / KEY_FILE_NAME

    def meter(self, role: str) -> Path:
        """Snapshot of the counters of *role*."""
        return self.run / "metrics" / f"{role}.json"

    def meters(self) -> list[Path]:
        """Every snapshot of counters."""
        return sorted((self.run / "metrics").glob("*.json"))
