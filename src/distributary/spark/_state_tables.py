"""The tables ``dead_letters`` and ``subscriptions``: what the databases of a server hold.

Called by ``format``. Hides: databases, in files or in PostgreSQL. No secret is a column: sinks are
shown without their query.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from distributary.core.database import database_url, sqlite_url
from distributary.core.event import record
from distributary.core.log import read_folder
from distributary.core.outcome import (
    EVERY_LETTER,
    DeliveryReader,
    DeliveryRowsReader,
    KeptDeadLetter,
)
from distributary.core.outcome.postgres import PostgresDeliveryReader, partitions_with_letters
from distributary.core.shown import shown_uri
from distributary.datadir import DataDir
from distributary.spark._options import FormatOptions
from distributary.spark._places import Places
from distributary.spark._schema import Column, arrow_schema
from distributary.subscriptions.store import Directory, Listed, ListedRoute

DEAD_LETTERS: Final = (
    Column("partition", "INT", "partition of the event, as in `events`"),
    Column("offset", "BIGINT", "offset of the event, as in `events`"),
    Column("index", "INT", "index of the event, as in `events`"),
    Column("number", "BIGINT", "of the dead letter in its partition; rises with time"),
    Column("uid", "STRING", "uid of the subscription, as in `subscriptions`"),
    Column("namespace", "STRING", "of the subscription; NULL: not known"),
    Column("kept", "TIMESTAMP", "since when it is kept"),
    Column("reason", "STRING", "why the delivery failed"),
    Column("sink", "STRING", "the destination that failed, without its query"),
    Column("status", "INT", "status of the last response; NULL: there was none"),
    Column("answer", "BINARY", "the first 1,024 bytes of the last response; NULL: there was none"),
    Column("event_id", "STRING", "the attribute `id`"),
    Column("event_source", "STRING", "the attribute `source`"),
    Column("event_type", "STRING", "the attribute `type`"),
    Column("data", "BINARY", "the payload byte for byte; NULL: there is none"),
)
SUBSCRIPTIONS: Final = (
    Column("uid", "STRING", "never used again: outcomes, attempts and dead letters have it"),
    Column("namespace", "STRING", "of the subscription or Trigger"),
    Column("id", "STRING", "of the subscription; for a Trigger, its kind and name"),
    Column("revision", "BIGINT", "from 1"),
    Column("source", "STRING", "of the events wanted; NULL: any, or of a Trigger"),
    Column("types", "ARRAY<STRING>", "of the events wanted; empty: any; NULL: of a Trigger"),
    Column("filters", "STRING", "its filters, as JSON; NULL: of a Trigger"),
    Column("sink", "STRING", "where events go, without the query"),
    Column("protocol", "STRING", "of the delivery; NULL: of a Trigger"),
    Column("halted", "BOOLEAN", "whether it is paused or disabled"),
)

_LETTERS_MAX: Final = 500
_LETTER_BYTES_MAX: Final = 4 << 20
"""Dead letters, and bytes of their events, that are read at once: the memory of a task."""


class DeadLetterTable:
    """A bounded read of the dead letters; pickled to executors. A task reads a partition."""

    def __init__(self, options: FormatOptions, columns: Sequence[Column]) -> None:
        self._places = options.places
        self._columns = tuple(columns)

    def plan(self) -> list[int]:
        """Returns the partitions.

        Raises:
            LogError: This folder has no log.
            StoreError: The store cannot be read now.
        """
        if self._places.store is not None:
            return partitions_with_letters(database_url(self._places.store))
        return list(range(read_folder(_data_dir(self._places).log)))

    def read(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yields the dead letters of a partition, oldest first. Runs on an executor.

        Raises:
            StoreError: They cannot be read now.
        """
        reader = self._reader(partition)
        after = -1
        while found := reader.dead_letters(EVERY_LETTER, _LETTERS_MAX, after, _LETTER_BYTES_MAX):
            yield _batch([_letter_row(partition, each) for each in found], self._columns)
            after = found[-1].id

    def _reader(self, partition: int) -> DeliveryRowsReader:
        if self._places.store is not None:
            return PostgresDeliveryReader(database_url(self._places.store), partition)
        return DeliveryReader(_data_dir(self._places).delivery_db(partition), partition)


def _data_dir(places: Places) -> DataDir:
    assert places.data_dir is not None
    return DataDir.of(str(places.data_dir))


def _letter_row(partition: int, kept: KeptDeadLetter) -> dict[str, Any]:
    letter, (event,) = kept.dead_letter, record.decode(kept.event)
    failure = letter.failure
    return {
        "partition": partition,
        "offset": letter.key.offset,
        "index": letter.key.index,
        "number": kept.id,
        "uid": letter.key.route,
        "namespace": letter.namespace,
        "kept": letter.kept_ms * 1000,
        "reason": failure.reason,
        "sink": shown_uri(failure.dest),
        "status": failure.code,
        "answer": None if failure.data is None else base64.b64decode(failure.data),
        "event_id": event.text("id"),
        "event_source": event.text("source"),
        "event_type": event.text("type"),
        "data": event.data,
    }


class SubscriptionTable:
    """A bounded read of the live subscriptions and routes of Triggers: one task."""

    def __init__(self, options: FormatOptions, columns: Sequence[Column]) -> None:
        self._places = options.places
        self._columns = tuple(columns)

    def plan(self) -> list[int]:
        """Returns the one task."""
        return [0]

    def read(self, _task: int) -> Iterator[pa.RecordBatch]:
        """Yields the subscriptions. Runs on an executor.

        Raises:
            StoreError: There is no store, or a newer version wrote it.
        """
        directory = Directory(self._url())
        try:
            directory.refresh()
            rows = [
                _subscription_row(uid, listed, halted=uid in directory.halted())
                for uid in sorted(directory.uids())
                if (listed := directory.get(uid)) is not None
            ]
        finally:
            directory.close()
        if rows:
            yield _batch(rows, self._columns)

    def _url(self) -> sa.URL:
        if self._places.store is not None:
            return database_url(self._places.store)
        return sqlite_url(_data_dir(self._places).state_db)


def _subscription_row(uid: str, listed: Listed | ListedRoute, *, halted: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"uid": uid, "revision": listed.revision, "halted": halted}
    if isinstance(listed, ListedRoute):
        settings = listed.settings
        sink = shown_uri(settings.sink.uri)
        return row | {"namespace": settings.namespace, "id": settings.name, "sink": sink}
    spec = listed.spec
    return row | {
        "namespace": listed.namespace,
        "id": listed.id,
        "source": spec.source,
        "types": list(spec.types),
        "filters": json.dumps(spec.filters, ensure_ascii=False),
        "sink": shown_uri(spec.sink),
        "protocol": str(spec.protocol),
    }


def _batch(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> pa.RecordBatch:
    schema = arrow_schema(columns)
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema
    )
