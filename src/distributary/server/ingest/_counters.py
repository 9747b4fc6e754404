"""Counters and gauges of the receiver.

The ingest process exports them to Prometheus. Reading needs no lock: one thread writes.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

ACK_BOUNDS_S: tuple[float, ...] = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
"""Upper bounds of the histogram's buckets, seconds; a last bucket has none."""


@dataclass(slots=True)
class Counters:
    """Counters since the start, and a few gauges.

    Attributes:
        accepted_events: Events acknowledged with 2xx, so durable.
        accepted_requests: Requests with these events.
        received_bytes: Bytes read from clients.
        answers_by_status: Responses by HTTP status, proxied ones included.
        refusals_by_code: The receiver's error responses by code of ``errors.CATALOGUE``.
        relayed_requests: Requests proxied to the control process.
        relay_failures: Those of them without a complete response.
        connections_total: Connections accepted.
        connections_refused: Connections rejected by a limit.
        connections_cut: Connections closed by a deadline (slow sender, slow reader, idle).
        connections_open: Gauge.
        appends_in_flight: Gauge: requests that wait for the log.
        relays_in_flight: Gauge; watches excepted.
        watches_in_flight: Gauge: proxied responses without end.
        held_bytes: Gauge: bodies half received, or waiting for the control process or the log; a
            record that waits counts ``RECORD_BYTES_MIN`` more.
        ack_buckets: Accepted requests by time from read to durable, one for each bound of
            ``ACK_BOUNDS_S`` and one above; not cumulative.
        ack_seconds: Sum of these times.
    """

    accepted_events: int = 0
    accepted_requests: int = 0
    received_bytes: int = 0
    answers_by_status: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    refusals_by_code: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    relayed_requests: int = 0
    relay_failures: int = 0
    connections_total: int = 0
    connections_refused: int = 0
    connections_cut: int = 0
    connections_open: int = 0
    appends_in_flight: int = 0
    relays_in_flight: int = 0
    watches_in_flight: int = 0
    held_bytes: int = 0
    ack_buckets: list[int] = field(default_factory=lambda: [0] * (len(ACK_BOUNDS_S) + 1))
    ack_seconds: float = 0.0

    def accepted(self, event_count: int, ack_s: float) -> None:
        """Count one accepted request of *event_count* events, durable after *ack_s* seconds."""
        self.accepted_events += event_count
        self.accepted_requests += 1
        self.answers_by_status[202] += 1
        self.ack_buckets[bisect_left(ACK_BOUNDS_S, ack_s)] += 1
        self.ack_seconds += ack_s

    def refused(self, code: str, status: int) -> None:
        """Count one error response with *code* of the catalogue."""
        self.refusals_by_code[code] += 1
        self.answers_by_status[status] += 1
