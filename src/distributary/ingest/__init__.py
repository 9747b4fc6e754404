"""The HTTP receiver: owns the public port, never waits for Spark.

Called by ``app`` in a process of its own. A POST to ``/events`` or to the path of a Broker or
Channel is answered 202 once the events are durable; every other path is passed to the control
process.
Hides HTTP: framing, limits, deadlines, pipelining, backpressure, problem details.

The log is a port (``Appends``); ``app`` wires it to the log's group commit and uses
``choose_partition`` there.
"""

from distributary.ingest._addresses import EVENTS_PATH
from distributary.ingest._answers import Answers, Persistence
from distributary.ingest._counters import ACK_BOUNDS_S, Counters
from distributary.ingest._desk import Appends
from distributary.ingest._guard import Guard
from distributary.ingest._limits import BODY_BYTES_MAX_DEFAULT, IngestSettings
from distributary.ingest._partition import choose_partition, partition_key
from distributary.ingest._seen import SEEN_CHARS_MAX, SEEN_NAMES_MAX, Seen, SeenNames, load_seen
from distributary.ingest._server import Server, serve

__all__ = [
    "ACK_BOUNDS_S",
    "BODY_BYTES_MAX_DEFAULT",
    "EVENTS_PATH",
    "SEEN_CHARS_MAX",
    "SEEN_NAMES_MAX",
    "Answers",
    "Appends",
    "Counters",
    "Guard",
    "IngestSettings",
    "Persistence",
    "Seen",
    "SeenNames",
    "Server",
    "choose_partition",
    "load_seen",
    "partition_key",
    "serve",
]
