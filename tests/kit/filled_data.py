"""Fills a data directory with many subscriptions in store and log, as a server leaves it.

Callers: tests and benchmarks that need many routes without creating them by a server one by one.
Hides: that a change is written to the store first, then to every partition.
"""

from collections.abc import Callable, Mapping
from typing import Any

from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.core.flow import RecordKind
from distributary.core.log import SEGMENT_BYTES, Appender, open_folder
from distributary.datadir import DataDir
from distributary.resource import SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put

__all__ = ["fill"]

BATCH = 1_000
"""Subscriptions made in one transaction, as many as one request of a client makes."""


def fill(
    paths: DataDir,
    count: int,
    partitions: int,
    body: Callable[[int], Mapping[str, Any]],
    *,
    segment_bytes: int = SEGMENT_BYTES,
) -> None:
    """Make a data directory with *count* subscriptions; ``body(n)`` is what the n-th asks for."""
    for folder in (paths.root, paths.run, paths.root / "logs"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    checked = rules(SinkRule(local_allowed=True))
    store = Store(sqlite_url(paths.state_db))
    open_folder(paths.log, partitions)
    appenders = [
        Appender.open(paths.log, n, clock=SystemClock(), segment_bytes=segment_bytes)
        for n in range(partitions)
    ]
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        store.apply(
            [
                Put(f"filled-{n:07d}", api_subscription.parse(dict(body(n)), checked), f"{n:032x}")
                for n in numbers
            ],
            0,
        )
        pending = store.pending(BATCH)
        for appender in appenders:
            appender.append([(RecordKind.ROUTE, record) for _, record in pending])
        store.mark_appended(pending[-1][0])
    for appender in appenders:
        appender.close()
    store.close()
