"""All metrics: the help lines of ``/metrics``, and the rows of the reference page."""

import enum
from typing import Final, NamedTuple


class Kind(enum.StrEnum):
    """What becomes of the number of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricRow(NamedTuple):
    """A metric.

    Attributes:
        kind: Counters only rise, gauges are of now.
        help: What is counted; stands alone.
        labels: What tells its series apart.
    """

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


METRICS: Final = {
    "accepted_events_total": MetricRow(Kind.COUNTER, "Events answered 2xx: on disk"),
    "accepted_requests_total": MetricRow(Kind.COUNTER, "Publishing requests answered 2xx"),
    "answers_total": MetricRow(Kind.COUNTER, "Answers to requests", ("status",)),
    "refusals_total": MetricRow(
        Kind.COUNTER, "Answers of our own that refuse a request", ("code",)
    ),
    "appended_records_total": MetricRow(
        Kind.COUNTER, "Records appended to the log (a batch is one)", ("partition",)
    ),
    "appended_bytes_total": MetricRow(
        Kind.COUNTER, "Bytes of the bodies of records appended to the log", ("partition",)
    ),
    "commits_total": MetricRow(
        Kind.COUNTER, "Syncs of the log: requests share them", ("partition",)
    ),
    "namespace_events_total": MetricRow(
        Kind.COUNTER, "Events published; default is left out without quotas", ("namespace",)
    ),
    "namespace_event_bytes_total": MetricRow(
        Kind.COUNTER,
        "Bytes of events published, as stored or sent; default is left out without quotas",
        ("namespace",),
    ),
    "namespace_refusals_total": MetricRow(
        Kind.COUNTER, "Requests refused by a quota", ("namespace", "quota")
    ),
    "ack_seconds": MetricRow(Kind.HISTOGRAM, "Time from a request read to its events durable"),
    "append_queue_depth": MetricRow(Kind.GAUGE, "Appends that wait for their sync", ("partition",)),
    "events_read_total": MetricRow(Kind.COUNTER, "Events that the pipeline looked at"),
    "matches_total": MetricRow(Kind.COUNTER, "Matches of an event and a route"),
    "delivered_total": MetricRow(Kind.COUNTER, "Matches delivered to their sink"),
    "retried_total": MetricRow(Kind.COUNTER, "Attempts that will be made again"),
    "replies_total": MetricRow(
        Kind.COUNTER, "Events that sinks answered with, taken by a Broker or a reply's sink"
    ),
    "replies_dropped_total": MetricRow(
        Kind.COUNTER, "Events that sinks answered with and that went nowhere", ("reason",)
    ),
    "dead_lettered_total": MetricRow(
        Kind.COUNTER, "Matches that ended at a dead letter sink, or in the store", ("to",)
    ),
    "dropped_total": MetricRow(Kind.COUNTER, "Matches that ended without delivery", ("reason",)),
    "spilled_total": MetricRow(
        Kind.COUNTER, "Unfinished matches moved to rows, so that the cursor could pass"
    ),
    "attempts_held_back_seconds_total": MetricRow(
        Kind.COUNTER,
        "Seconds in which a partition began no attempt: dead letters waited for the disk",
    ),
    "lags_begun_total": MetricRow(Kind.COUNTER, "Backfills begun because a sink took no more"),
    "replays_begun_total": MetricRow(
        Kind.COUNTER, "Subscriptions and objects whose deliveries began in the past"
    ),
    "given_up_total": MetricRow(
        Kind.COUNTER, "Matches and kept dead letters that a budget ended", ("reason",)
    ),
    "redriven_total": MetricRow(
        Kind.COUNTER, "Kept dead letters that were sent again because somebody asked for it"
    ),
    "replayed_total": MetricRow(
        Kind.COUNTER, "Matches of past events that were sent because somebody asked for a replay"
    ),
    "parked_total": MetricRow(
        Kind.COUNTER, "Subscriptions that were parked because their sink answered 410"
    ),
    "lags_dropped_total": MetricRow(
        Kind.COUNTER, "Backfills that ended because their route was deleted"
    ),
    "lost_records_total": MetricRow(
        Kind.COUNTER, "Records that the pipeline met as a hole: damaged, or lost by the medium"
    ),
    "lag_lost_records_total": MetricRow(
        Kind.COUNTER, "Records that backfills met as a hole: damaged, or lost by the medium"
    ),
    "retention_failures_total": MetricRow(
        Kind.COUNTER, "Times that old segments of the log could not be deleted", ("partition",)
    ),
    "retention_failing": MetricRow(
        Kind.GAUGE,
        "1 while old segments of the log cannot be deleted: the log grows",
        ("partition",),
    ),
    "archive_late": MetricRow(
        Kind.GAUGE,
        "1 while retention waits for distributary archive: the log grows",
        ("partition",),
    ),
    "issuer_key_fetches_total": MetricRow(
        Kind.COUNTER, "Times that keys of token issuers were asked for", ("result",)
    ),
    "history_bytes": MetricRow(Kind.GAUGE, "Size of the history files"),
    "history_files": MetricRow(Kind.GAUGE, "History files"),
    "history_waiting_bytes": MetricRow(
        Kind.GAUGE, "History files on their way to the folder that the operator named"
    ),
    "history_lost_rows_total": MetricRow(
        Kind.COUNTER,
        "Rows of history given up: their folder was out of reach, or their file vanished",
    ),
    "history_deleted_rows_total": MetricRow(
        Kind.COUNTER, "Rows of history deleted by the limits of age and size", ("limit",)
    ),
    "history_merged_files_total": MetricRow(Kind.COUNTER, "History files merged into larger ones"),
    "log_damage_total": MetricRow(Kind.COUNTER, "Damaged stretches found when the log was opened"),
    "journal_damage_total": MetricRow(
        Kind.COUNTER, "Damaged stretches found when a journal of outcomes was opened"
    ),
    "snapshots_left_out_total": MetricRow(
        Kind.COUNTER, "Snapshots of counters that could not be written (a full disk)"
    ),
    "received_bytes_total": MetricRow(Kind.COUNTER, "Bytes read from publishers and API clients"),
    "relayed_requests_total": MetricRow(Kind.COUNTER, "Requests passed on to the API"),
    "relay_failures_total": MetricRow(Kind.COUNTER, "Requests passed on that got no whole answer"),
    "repeated_events_total": MetricRow(
        Kind.COUNTER, "Events answered 202 that are repeats (once_window_s)", ("partition",)
    ),
    "forwarded_requests_total": MetricRow(
        Kind.COUNTER, "Publishing requests that another receiver appended: its keys"
    ),
    "connections_total": MetricRow(Kind.COUNTER, "Connections accepted"),
    "connections_refused_total": MetricRow(Kind.COUNTER, "Connections turned away by a limit"),
    "connections_cut_total": MetricRow(Kind.COUNTER, "Connections closed by a deadline"),
    "connections_open": MetricRow(Kind.GAUGE, "Connections that are open"),
    "tls_handshake_failures_total": MetricRow(
        Kind.COUNTER, "TLS handshakes that failed", ("listener", "reason")
    ),
    "tls_handshakes_open": MetricRow(Kind.GAUGE, "TLS handshakes under way", ("listener",)),
    "tls_certificate_not_after_seconds": MetricRow(
        Kind.GAUGE, "When the certificate in use expires (Unix time)"
    ),
    "watches_in_flight": MetricRow(Kind.GAUGE, "Connections of API clients that watch objects"),
    "ingest_held_bytes": MetricRow(
        Kind.GAUGE, "Memory for bodies in use: half received, or waiting for their answer"
    ),
    "last_commit_seconds": MetricRow(
        Kind.GAUGE, "Length of the newest sync of the log", ("partition",)
    ),
    "log_accepts": MetricRow(Kind.GAUGE, "1 while the log takes events"),
    "log_reached": MetricRow(
        Kind.GAUGE, "Receivers that reach the log that nodes share; 0: no event is taken"
    ),
    "log_end_offset": MetricRow(
        Kind.GAUGE, "Offset after the last durable record of the log", ("partition",)
    ),
    "cursor_offset": MetricRow(
        Kind.GAUGE,
        "Committed offset: every match below it has an outcome or a row",
        ("partition",),
    ),
    "oldest_in_flight_seconds": MetricRow(
        Kind.GAUGE, "Age of the oldest attempt under way", ("partition",)
    ),
    "undecodable_records_total": MetricRow(
        Kind.COUNTER, "Records of events that could not be read"
    ),
    "void_rows_total": MetricRow(
        Kind.COUNTER, "Retry rows whose record the log does not hold any more"
    ),
    "delivery_latency_seconds": MetricRow(
        Kind.HISTOGRAM, "Time from an event's append to its delivery"
    ),
    "attempt_duration_seconds": MetricRow(Kind.HISTOGRAM, "Length of attempts to deliver"),
    "lag_records": MetricRow(
        Kind.GAUGE, "Records between the durable end of the log and the cursor", ("partition",)
    ),
    "in_flight": MetricRow(Kind.GAUGE, "Attempts to deliver under way", ("partition",)),
    "queued": MetricRow(Kind.GAUGE, "Tasks in destination queues", ("partition",)),
    "lagging_routes": MetricRow(Kind.GAUGE, "Routes that are being backfilled", ("partition",)),
    "waiting_retries": MetricRow(Kind.GAUGE, "Durable retry rows that wait", ("partition",)),
    "ready": MetricRow(Kind.GAUGE, "1 while everything works"),
    "nodes_live": MetricRow(
        Kind.GAUGE, "Nodes of the installation that are live, as this node sees them"
    ),
    "node_info": MetricRow(
        Kind.GAUGE, "1 with the name of this node, and whether it leads", ("node", "role")
    ),
    "partition_sick": MetricRow(
        Kind.GAUGE, "1 while the partition cannot be delivered; readiness says why", ("partition",)
    ),
    "process_restarts_total": MetricRow(
        Kind.COUNTER, "Times that a child process was started again", ("process",)
    ),
    "epoch": MetricRow(Kind.GAUGE, "Epoch that the owner of the partition serves", ("partition",)),
    "credential_refreshes_total": MetricRow(
        Kind.COUNTER, "Access tokens asked for at token endpoints", ("result",)
    ),
    "consent_questions_total": MetricRow(
        Kind.COUNTER, "HTTP sinks looked at or asked for consent", ("result",)
    ),
    "timers": MetricRow(Kind.GAUGE, "Timers that run"),
    "timer_ticks_total": MetricRow(Kind.COUNTER, "Events that timers made, durable in the log"),
    "timer_ticks_skipped_total": MetricRow(
        Kind.COUNTER, "Events that timers did not make", ("reason",)
    ),
    "lifecycle_events_total": MetricRow(
        Kind.COUNTER, "Changes of subscriptions told by events that the log has"
    ),
    "objects_reconciled_total": MetricRow(
        Kind.COUNTER, "Brokers, Triggers, Channels and Subscriptions looked at and settled"
    ),
    "objects_reconciled_again_total": MetricRow(
        Kind.COUNTER,
        "Brokers, Triggers, Channels and Subscriptions that have to be looked at again",
    ),
    "source_messages_total": MetricRow(
        Kind.COUNTER, "Messages that sources have read, by result", ("source", "result")
    ),
    "source_reading": MetricRow(
        Kind.GAUGE, "1 while a source is connected to its broker", ("source",)
    ),
    "source_unsettled": MetricRow(
        Kind.GAUGE, "Messages that a source has taken and not settled", ("source",)
    ),
    "subscription_delivered_total": MetricRow(
        Kind.COUNTER,
        "Matches of one subscription or object that were delivered",
        ("namespace", "subscription"),
    ),
    "subscription_dead_lettered_total": MetricRow(
        Kind.COUNTER,
        "Matches of one subscription or object that were dead-lettered",
        ("namespace", "subscription"),
    ),
    "subscription_dropped_total": MetricRow(
        Kind.COUNTER,
        "Matches of one subscription or object that were dropped",
        ("namespace", "subscription"),
    ),
    "subscription_attempts_failed_total": MetricRow(
        Kind.COUNTER,
        "Attempts of one subscription or object that failed",
        ("namespace", "subscription"),
    ),
    "subscription_failing": MetricRow(
        Kind.GAUGE,
        "1 while deliveries fail; for all that are summed, how many subscriptions fail",
        ("namespace", "subscription"),
    ),
    "subscription_waiting": MetricRow(
        Kind.GAUGE,
        "Durable retry rows of one subscription or object that wait",
        ("namespace", "subscription"),
    ),
    "subscriptions_ended_total": MetricRow(
        Kind.COUNTER, "Subscriptions that ended by themselves", ("reason",)
    ),
    "telemetry_sent_total": MetricRow(
        Kind.COUNTER, "Spans, metric points and log lines that a collector took", ("signal",)
    ),
    "telemetry_dropped_total": MetricRow(
        Kind.COUNTER, "Spans, metric points and log lines given up", ("signal", "reason")
    ),
}
"""Name without prefix -> its row. A test holds it against what the code counts."""

HELPS: Final = {name: row.help for name, row in METRICS.items()}
"""Name without prefix -> its help line."""
