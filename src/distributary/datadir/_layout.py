"""The layout of a data directory: all paths in it.

::

    data/
      LOCK                        one server at a time
      state.db                    resources (control)
      credentials.key             opens the sink credentials in it, unless chosen elsewhere
      internal.key                shows the receiver what the server itself publishes
      log/p0000/…                 the log (``core.log``)
      index/p0000/…               index of event ids (``core.log.indexer``; can be rebuilt)
      publishers/p0000/…          who published which event (``datadir.publishers``)
      outcome/p0000/journal       cursor and outcomes (``core.journal``)
      outcome/p0000/delivery.db   retries, backfills, dead letters
      outcome/p0000/tallies       what became of each route's matches, in numbers
      outcome/p0000/routes        route table at a durable cursor (a cache, can be rebuilt)
      outcome/p0000/OWNER         locked by the process that delivers the partition
      outcome/quota.db            deliveries of counted subscriptions (all partitions)
      history/date=…/…            history, unless it is kept elsewhere (``history``)
      outbox/date=…/…             history files on their way elsewhere
      archived.json               how far the log is archived (can be written again)
      readers/NAME.json           how far registered readers are (``datadir.readers``)
      logs/                       lines of the JVM, the audit log
      run/                        sockets, status pages, metrics, failing routes: nothing to keep
      spark/                      Spark's checkpoint: scratch, rebuilt when damaged
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEY_FILE_NAME: Final = "credentials.key"
"""Default key file of the sink credentials, in the data directory."""
PARENT: Final = "DISTRIBUTARY_PARENT"
"""Environment variable with the process id of the server, for its children and theirs."""
SOCKET_PATH_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
"""Longest path of a Unix socket."""


class _Below:
    """A path below the data directory."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, paths: "DataDir", _owner: object = None) -> Path:
        return paths.root / self._path


class _OfPartition:
    """A path below the data directory that contains the partition's number."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, paths: "DataDir", _owner: object = None) -> Callable[[int], Path]:
        return lambda partition: paths.root / self._path.format(f"p{partition:04d}")


class _OfReceiver:
    """A path below the data directory with the receiver's number; that of the first has none."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, paths: "DataDir", _owner: object = None) -> Callable[[int], Path]:
        return lambda receiver: paths.root / self._path.format(f"-{receiver}" if receiver else "")


@dataclass(frozen=True, slots=True)
class DataDir:
    """Paths below one data directory; those of a partition are functions of its number."""

    root: Path

    lock = _Below("LOCK")
    """Locked by the one server that runs."""
    log = _Below("log")
    """Folder of the log."""
    state_db = _Below("state.db")
    """The resource store."""
    internal_key = _Below("internal.key")
    """Private key of the tokens by which the server publishes at its own receiver."""
    spark = _Below("spark")
    """Spark's scratch: checkpoint, warehouse, temporary files."""
    index_folder = _Below("index")
    """Folder of the index of event ids: made again at need."""
    quota_db = _Below("outcome/quota.db")
    """Counts of deliveries, shared by all partitions."""
    history = _Below("history")
    """Folder of the history, where the operator names no other."""
    history_outbox = _Below("outbox")
    """History files that wait for transport to the folder that the operator named."""
    history_scratch = _Below("run/history")
    """Local copies of history files that are being merged."""

    publishers_folder = _Below("publishers")
    """Folder of the notes who published the events."""

    index = _OfPartition("index/{}")
    """Folder of the index of a partition."""
    publishers = _OfPartition("publishers/{}")
    """Folder of the notes who published the events of a partition."""
    outcome = _OfPartition("outcome/{}")
    """Folder of the outcomes of a partition."""
    journal = _OfPartition("outcome/{}/journal")
    """Cursor and outcomes."""
    delivery_db = _OfPartition("outcome/{}/delivery.db")
    """Retries, backfills, dead letters."""
    tallies = _OfPartition("outcome/{}/tallies")
    """What became of each route's matches, in numbers."""
    routes = _OfPartition("outcome/{}/routes")
    """Route table at a durable cursor."""
    owner_lock = _OfPartition("outcome/{}/OWNER")
    """Locked by the one process that delivers the partition."""

    archived = _Below("archived.json")
    """How far the log is archived, and where (``datadir.archived``)."""
    readers = _Below("readers")
    """Folder of the notes of registered readers."""
    archive_lock = _Below("run/archive.lock")
    """Locked by the one job that archives the log."""
    archive_scratch = _Below("run/archive")
    """Spark's files of that job."""
    recalled_folder = _Below("run/recalled")
    """Folder of what is recalled of the archive, and of the requests."""
    recalled = _OfPartition("run/recalled/{}")
    """Folder of recalled records of a partition: copies, made again at need."""
    recall_requests = _OfPartition("run/recalled/{}.json")
    """What the owner of a partition wants of the archive."""
    recall_failed = _Below("run/recalled/failed")
    """Why the archive could not be read, in words; there until it is read, or nobody asks."""
    recall_lock = _Below("run/recall.lock")
    """Locked by the one job that recalls."""
    recall_scratch = _Below("run/recall")
    """Spark's files of that job."""

    run = _Below("run")
    """Sockets, status pages, snapshots of metrics."""
    audit = _Below("logs/audit.jsonl")
    """The audit log: who changed what."""
    audit_refused = _Below("logs/audit-refused.jsonl")
    """A flood of refused changes."""
    retention_hold = _OfPartition("run/{}.hold")
    """Locked by backups while they copy the log: retention deletes nothing meanwhile."""
    restoring = _Below("RESTORING")
    """There while a restore has not finished: no server starts."""
    migrated = _Below("MIGRATED")
    """There once everything has moved to log and store that machines share: no server starts."""
    control_socket = _Below("run/control.sock")
    """Socket of the API; receivers proxy requests to it."""
    own_socket = _Below("run/own.sock")
    """The receivers' port for this server itself: replies, sources, its own Brokers."""
    append_socket = _OfReceiver("run/log{}.sock")
    """Socket of a receiver, which appends route records for the control process."""
    forward_socket = _OfReceiver("run/fwd{}.sock")
    """Socket of a receiver, which appends events that other receivers took."""
    node_counts = _Below("run/receivers.counts")
    """Connections and requests under way by receiver."""
    tenant_counts = _Below("run/tenants.counts")
    """What namespaces have used, by receiver."""
    worker_sockets = _Below("run/workers")
    """Folder of the sockets between the JVM and its Python workers."""
    live = _Below("run/settings.json")
    """Settings that may change while the server runs."""
    access = _Below("run/access.json")
    """Who may do what, for the receivers: hashes of keys, no secret."""
    asked_keys = _OfReceiver("run/asked-keys{}.json")
    """Issuers of whose tokens a receiver saw an unknown key: it asks for their newest keys."""
    key_uses = _OfReceiver("run/key-uses{}.json")
    """When API keys were used last at a receiver."""
    seen = _OfReceiver("run/seen{}.json")
    """Types and sources of events that a receiver accepted."""
    status_page = _OfPartition("run/{}.board")
    """Status page of the partition."""
    bell = _OfPartition("run/{}.bell")
    """Pipe by which a receiver wakes the owner of the partition."""
    failing = _OfPartition("run/failing-{}.json")
    """Routes whose deliveries fail, as the owner of the partition sees them."""
    sick = _OfPartition("run/sick-{}.txt")
    """Why the last attempt to own the partition failed."""
    ingest_page = _OfReceiver("run/ingest{}.board")
    """Status page of a receiver: heartbeat, and whether its part of the log accepts events."""
    driver_page = _Below("run/driver.board")
    """Status page of the pipeline's driver."""
    sources_page = _Below("run/sources.board")
    """Status page of the sources process."""

    nodes_authority = _Below("run/nodes.pem")
    """Certificate of the authority of all nodes, where nodes share log and store."""
    node_chain = _Below("run/node.pem")
    """Certificate and private key that this node shows the others, likewise."""
    node_page = _Below("run/node.board")
    """Status page of the node process, where nodes share log and store; so are the next ones."""
    node_socket = _Below("run/node.sock")
    """Socket at which a node that does not lead answers for itself."""
    leader = _Below("run/leader.json")
    """Which node leads."""
    addresses = _Below("run/addresses.json")
    """Paths of Brokers and Channels, for the receivers."""
    receivers_live = _Below("run/receivers.json")
    """Settings of the receivers that may change while they run."""
    control_settings = _Below("run/control.settings")
    """Settings of the control part of a node, which is a process of its own."""

    @classmethod
    def of(cls, data_dir: str) -> "DataDir":
        """Returns the paths below *data_dir*."""
        return cls(Path(data_dir))

    def key_file(self, chosen: str = "") -> Path:
        """Path of the credential keys: *chosen*, else the default."""
        return Path(chosen) if chosen else self.root / KEY_FILE_NAME

    def topic_index(self, identity: str, partition: int) -> Path:
        """Folder of the index of a partition of the topic *identity*, which nodes share."""
        return self.index_folder / identity / f"p{partition:04}"

    def meter(self, role: str) -> Path:
        """Path of the metric snapshot of *role*."""
        return self.run / "metrics" / f"{role}.json"

    def meters(self) -> list[Path]:
        """Paths of all metric snapshots."""
        return sorted((self.run / "metrics").glob("*.json"))
