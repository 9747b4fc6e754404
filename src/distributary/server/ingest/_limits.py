"""Limits of the public port, each with its reason, and the settings an operator may turn.

Callers: the other modules of this room; ``server`` builds ``IngestSettings``. Hides nothing: the
numbers are the interface. What a request may cost to read is bounded in ``http1.limits``. Names of
sizes end in ``_bytes_max``, of waits in ``_s``.
"""

from dataclasses import dataclass

BODY_BYTES_MAX_DEFAULT = 1024 * 1024
"""Body of a request: CloudEvents asks for 64 KiB an event; 1 MiB leaves room for batches."""

HEAD_DEADLINE_S = 10.0
"""From the first byte of a request to the end of its header: stops slow header senders."""

BODY_DEADLINE_S = 30.0
"""From the end of the header to the end of the body."""

BODY_RATE_BYTES_PER_S_MIN = 1024
"""Slowest body that is waited for, on average since its start."""

BODY_RATE_GRACE_S = 5.0
"""The rate counts only after this: a lost packet and its repetitions take a few seconds."""

IDLE_S = 60.0
"""A connection between two requests: longer than common client pools keep theirs."""

FIRST_BYTE_S = 10.0
"""A new connection without a byte: a client connects because it has something to say, and some
open one ahead of time; connections that never speak are how a port is filled."""

REQUESTS_PER_CONNECTION_MAX = 10_000
"""Then the answer says close: lets a balancer spread clients again and bounds any leak."""

PIPELINED_MAX = 64
"""Requests of one connection that wait for an answer; reading pauses beyond. Twice a group
commit's share of a busy connection, and small enough that one client fills no queue."""

RELAY_BUFFER_BYTES_MAX = 64 * 1024
"""Bytes of later requests kept while one is passed on; reading pauses beyond."""

RELAYS_MAX = 512
"""Requests passed to the control process at a time, watches excepted: each is over in a moment,
and one that is refused comes again."""

WATCHES_PERCENT_MAX = 60
"""Connections that may be open watches, of all that may be open: 1,200 unless told otherwise. What
is left is for those who publish, and for requests that end."""

OBJECT_BODY_BYTES_MAX = 2 * 1024 * 1024
"""Body of a request of the Kubernetes API: an object of 1 MiB with the white space of its file, as
``knative.apiserver.machinery`` takes it. A larger limit for events counts here too."""

RELAY_HEAD_DEADLINE_S = 30.0
"""Wait for the header of the control process's answer; then 503."""

HEALTH_DEADLINE_S = 1.5
"""The same for a question after health: with the precision of ``SWEEP_S`` it is answered within 3 s
although the control process hangs."""

HEALTH_PATHS = frozenset({b"/healthz", b"/readyz"})
"""Questions after health."""

WRITE_STALL_S = 30.0
"""A client that takes none of its answer for this long is cut off: it holds our memory."""

LINGER_S = 2.0
"""After a refusal that leaves bytes unread we read on this long, so that the answer arrives
(closing at once would reset the connection and take the answer along)."""

LINGER_BYTES_MAX = 4 * 1024 * 1024
"""Bytes thrown away while lingering; then the connection is cut."""

SWEEP_S = 1.0
"""One look at all connections a second replaces a timer for each request; deadlines are
therefore kept with this precision."""

RETRY_AFTER_S = 1
"""``Retry-After`` of a 503: a full queue is empty again within a second, or it is not ours."""


HOSTS_PASSED_MAX = 1_024
"""Spellings of our own ``Host`` that are known: one a client program as a rule, some for each port;
beyond, all are looked at anew."""

HOSTS_TOLD_MAX = 64
"""Refused names that are logged: what publishers use are few, what strangers make up has no end."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """What an operator may turn on the public port.

    Attributes:
        body_bytes_max: Largest body of one request, after de-chunking.
        batch_events_max: Events in one batch; a larger one is a malformed request.
        connections_max: Open connections; for one more the one that is idle for longest is
            closed, and where none is idle it is answered 503. 2,000 keeps the worst case of
            buffers below 256 MiB and the file table small.
        connections_per_address_max: Open connections of one client address, loopback excepted;
            None: no such limit.
        appends_max: Events requests that wait for the log; one more is answered 503. Two
            seconds of the rated load.
        held_bytes_max: Bodies in memory, half received, waiting for the log or for an answer of
            the control process, over all connections; beyond, 503. Keeps 2,000 clients with
            1 MiB bodies from 2 GiB.
    """

    body_bytes_max: int = BODY_BYTES_MAX_DEFAULT
    batch_events_max: int = 1_000
    connections_max: int = 2_000
    connections_per_address_max: int | None = 200
    appends_max: int = 50_000
    held_bytes_max: int = 128 * 1024 * 1024

    @property
    def watches_max(self) -> int:
        """Watches that may be open at a time."""
        return self.connections_max * WATCHES_PERCENT_MAX // 100

    def __post_init__(self) -> None:
        """Settings are checked where they are read; a number below 1 here is a bug."""
        assert self.body_bytes_max >= 1
        assert self.connections_max >= 1
        assert self.connections_per_address_max is None or self.connections_per_address_max >= 1
        assert self.appends_max >= 1
        assert self.held_bytes_max >= self.body_bytes_max
