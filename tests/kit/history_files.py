"""Writes history files as an owner does, for tests of who reads them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.history.columns import SCHEMA
from distributary.history.names import HistoryFile

DELIVERED = {"decision": "delivered", "status": 204, "outcome": "delivered"}
RETRIED = {"decision": "retry", "status": 503}
DEAD = {"decision": "dead-letter", "status": 503, "outcome": "dead-lettered"}


def row(number: int, time_s: float, subscription: str = "orders", **values: Any) -> dict[str, Any]:
    """Returns the row *number*, of the event with this id; *values* are further columns."""
    return {
        "number": number,
        "time": datetime.fromtimestamp(time_s, UTC),
        "partition": 0,
        "offset": number,
        "index": 0,
        "event_id": f"id-{number}",
        "event_source": "/shop",
        "event_type": "com.example.order",
        "namespace": "default",
        "subscription": subscription,
        "uid": f"uid-of-{subscription}",
        "revision": 1,
        "stage": "event",
        "attempt": 1,
        "duration": 0.01,
        **values,
    }


def write_rows(folder: Path, *rows: dict[str, Any]) -> HistoryFile:
    """Write *rows*, of one partition and day with numbers that follow one another, as one file."""
    first, last = rows[0], rows[-1]
    file = HistoryFile(
        str(first["time"].date()), first["partition"], first["number"], last["number"] + 1
    )
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), path, compression="zstd")
    return file
