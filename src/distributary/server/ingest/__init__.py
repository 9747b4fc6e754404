"""The HTTP receiver: owns the public port, never waits for Spark.

Called by ``server`` in a process of its own. A POST to ``/events`` or to the path of a Broker or
Channel is answered 202 once the events are durable; every other path is passed to the control
process.
Hides HTTP: framing, limits, deadlines, pipelining, backpressure, problem details.

The log is a port (``AppendPort``); ``server`` wires it to the log's group commit and uses
``choose_partition`` there.
"""

from distributary.server.ingest._context import AppendPort
from distributary.server.ingest._counters import ACK_BOUNDS_S, Counters
from distributary.server.ingest._event_paths import EVENTS_PATH
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._limits import IngestSettings
from distributary.server.ingest._received import choose_partition, partition_key
from distributary.server.ingest._responses import Persistence, Responses
from distributary.server.ingest._server import IngestServer, serve
