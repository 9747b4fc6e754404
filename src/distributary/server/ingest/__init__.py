"""The HTTP receiver: serves the public port, never waits for Spark.

Runs in the ingest process. Responds 202 to a POST to ``/events``, or to the path of a Broker or
Channel, once the events are durable; proxies every other path to the control process.
Hides HTTP: framing, limits, deadlines, pipelining, backpressure, problem details.

The log is a port (``AppendPort``): the ingest process implements it by the log's group commit and
``partition_of``.
"""

from distributary.core.log.keys import partition_of
from distributary.server.ingest._context import AppendPort, Settle
from distributary.server.ingest._counters import ACK_BOUNDS_S
from distributary.server.ingest._forwarded import TrustedProxies
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._limits import HELD_BYTES_MAX_DEFAULT, IngestSettings
from distributary.server.ingest._needs import ROWS, need_of, row_of
from distributary.server.ingest._received import partition_key, received_once
from distributary.server.ingest._received import received as received_events
from distributary.server.ingest._responses import (
    BROWSER_FIELDS,
    NOT_STORED_FIELD,
    Persistence,
    Responses,
)
from distributary.server.ingest._server import IngestServer, serve
from distributary.server.ingest._tenants import Tenants
from distributary.server.ingest._traced import PublishTracing
