"""Limits of the public port, each with its reason, and those that an operator may set.

``net.http1.limits`` bounds what parsing a request may cost. Names of sizes end in ``_bytes_max``,
of waits in ``_s``.
"""

from dataclasses import dataclass, field

from distributary.core.quotas import QuotaTable

BODY_BYTES_MAX_DEFAULT = 1024 * 1024
"""Body of a request: CloudEvents asks for 64 KiB an event; 1 MiB leaves room for batches."""

HEAD_DEADLINE_S = 10.0
"""From the first byte of a request to the end of its header: stops slowloris attacks."""

BODY_DEADLINE_S = 30.0
"""From the end of the header to the end of the body."""

BODY_RATE_BYTES_PER_S_MIN = 1024
"""Least average rate of a body since its start."""

BODY_RATE_GRACE_S = 5.0
"""The rate counts only after this: retransmissions of a lost packet take a few seconds."""

IDLE_S = 60.0
"""Idle time between two requests: longer than common client pools keep connections."""

FIRST_BYTE_S = 10.0
"""Time for the first byte of a new connection: some clients connect ahead of time, and silent
connections are a way to exhaust a port."""

REQUESTS_PER_CONNECTION_MAX = 10_000
"""The last response then closes: a balancer can spread clients again, and leaks stay bounded."""

PIPELINED_MAX = 64
"""Requests of one connection that wait for a response; reading pauses beyond. Twice a busy
connection's share of a group commit, and small enough that one client fills no queue."""

RELAY_BUFFER_BYTES_MAX = 64 * 1024
"""Bytes of later requests buffered while one is proxied; reading pauses beyond."""

RELAYS_MAX = 512
"""Concurrent requests to the control process, watches excepted: each is short, and clients retry
a refused one."""

HELD_BYTES_MAX_DEFAULT = 128 * 1024 * 1024
"""Bodies in memory over all connections, half received, waiting for the log or for the control
process, divided among the receivers; beyond, 503. Without it 2,000 clients with bodies of 1 MiB
would hold 2 GiB. Beside other namespaces one may have half, and a quarter once half are taken."""

RECORD_BYTES_MIN = 1024
"""A record that waits for the log counts for so much of that, and its body: its response, its place
in a queue, what it calls back. A usual request takes 650 bytes, an event whose id is looked for
(``once``) 1.8 KiB. So one budget bounds their number too: 65,000 events of 1 KB, two seconds of the
rated load and some more."""

PROBES_MAX = 32
"""Concurrent requests of a receiver to the paths of health: nothing else may take their place, or a
probe would end a server that is only busy."""

STRANGERS_MAX = 32
"""Concurrent requests of a receiver by nobody, to paths that are open to all: who reads nothing of
the response holds one for a while, and must not hold those of people who are known."""

STRANGER_BODY_BYTES_MAX = 4 * 1024
"""Largest body of nobody's request: a consent has some hundred bytes."""

WATCHES_PERCENT_MAX = 60
"""Share of ``connections_max`` that may be open watches: 1,200 by default. The rest is for
publishers and for requests that end."""

OBJECT_BODY_BYTES_MAX = 2 * 1024 * 1024
"""Body of a request of the Kubernetes API: an object of 1 MiB with the white space of its file, as
``knative.apiserver.machinery`` accepts it. A larger limit for events applies here too."""

RELAY_HEAD_DEADLINE_S = 30.0
"""Longest wait for the header of the control process's response; then 503."""

HEALTH_DEADLINE_S = 1.5
"""The same for a health check: with the precision of ``SWEEP_S`` it gets a response within 3 s
although the control process hangs."""

HEALTH_PATHS = frozenset({b"/healthz", b"/readyz"})
"""Paths of health checks."""

WRITE_STALL_S = 30.0
"""A client that reads nothing of its response for this long is disconnected: it holds memory."""

LINGER_S = 2.0
"""Time to read on after an error response that leaves bytes unread: closing at once would reset
the connection and discard the response."""

LINGER_BYTES_MAX = 4 * 1024 * 1024
"""Bytes discarded while lingering; then the connection is aborted."""

SWEEP_S = 1.0
"""Interval and so precision of deadlines: one sweep of all connections replaces a timer for each
request."""

RETRY_AFTER_S = 1
"""``Retry-After`` of a 503: a full queue is empty again within a second, or it is not ours."""


HOSTS_PASSED_MAX = 1_024
"""Cached spellings of ``Host`` that are ours: one a client program as a rule, some for each port;
beyond, the cache is cleared."""

HOSTS_TOLD_MAX = 64
"""Refused names that are logged: publishers use few, strangers may invent any number."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Limits of the public port that an operator may set.

    Attributes:
        body_bytes_max: Largest body of one request, after de-chunking.
        batch_events_max: Events in one batch; a larger one is a malformed request.
        connections_max: Open connections; one more closes the longest idle one, or gets 503 where
            none is idle. 2,000 keeps the worst case of buffers below 256 MiB and the file table
            small.
        connections_per_address_max: Open connections of one client address, loopback excepted;
            None: no such limit.
        held_bytes_max: Bodies in memory over all connections: see ``HELD_BYTES_MAX_DEFAULT``.
        quotas: What each namespace may use, over all receivers.
    """

    body_bytes_max: int = BODY_BYTES_MAX_DEFAULT
    batch_events_max: int = 1_000
    connections_max: int = 2_000
    connections_per_address_max: int | None = 200
    held_bytes_max: int = HELD_BYTES_MAX_DEFAULT
    quotas: QuotaTable = field(default_factory=QuotaTable)

    @property
    def watches_max(self) -> int:
        """Most open watches."""
        return self.connections_max * WATCHES_PERCENT_MAX // 100

    def __post_init__(self) -> None:
        """Assert valid limits: settings are checked where they are read."""
        assert self.body_bytes_max >= 1
        assert self.connections_max >= 1
        assert self.connections_per_address_max is None or self.connections_per_address_max >= 1
        assert self.held_bytes_max >= self.body_bytes_max
