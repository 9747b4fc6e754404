"""Columns of the rows of the query: its tasks make them, its driver counts them. No pyspark."""

COLUMNS = (
    "partition",
    "epoch",
    "ended",
    "live_offset",
    "committed_offset",
    "backlog",
    "records",
    "attempts",
    "outcomes",
)
SCHEMA = ", ".join(f"{name} {'int' if name == 'partition' else 'long'}" for name in COLUMNS)
"""Where a partition stands, and the records taken, the attempts and the outcomes of matches since
the row before. ``ended`` is 1 in the last row of a task. The backlog is in records, NULL where the
task owns no partition."""
COUNTS = "deliveries"
"""Name of the metrics that Spark observes on the rows of an epoch, in its progress."""
