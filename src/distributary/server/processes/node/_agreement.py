"""Has the resource store go on after the route changes of the log, where the store has gone back.

A database that is restored, or served by a standby without the newest commits, lacks changes whose
records the log has. The node that leads looks for them before it makes its first change. It notes
in the store up to which offsets it has looked, so that the next one reads a minute of the log.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from distributary.core.cluster import KafkaPlace
from distributary.core.database import StorePlace, StoreWriter, is_over
from distributary.core.errors import DistributaryError
from distributary.core.flow import RecordKind, RouteRecord, decode_route
from distributary.core.log.kafka import KafkaEnds, KafkaRecords, MemorySnapshots
from distributary.partitions.notes import AGREED, ROUTES, Notes, put_beside
from distributary.partitions.routes import routes_at_of
from distributary.subscriptions.store import lost

LOOK_S: Final = 0.5
"""Interval of looks at whether the store is still what this process knows."""

NOTED_S: Final = 60.0
"""Interval of notes: the next leader reads what was published since, some seconds at most."""

READERS: Final = 8
"""Partitions that are read at a time."""

STORE: Final = "resource store"
"""Name of the store in messages."""


class Agreement:
    """Of one leader. For the event loop.

    Args:
        log: The log.
        store: The store, with the generation of the leader.
        partitions: How many partitions are in use.
        lines: Takes lines for people.
        end: Ends this process at once.
    """

    def __init__(
        self,
        log: KafkaPlace,
        store: StorePlace,
        partitions: int,
        lines: Any,
        end: Callable[[], None],
    ) -> None:
        self._log = log
        self._store = store
        self._partitions = partitions
        self._lines = lines
        self._end = end
        self._agreed = threading.Event()

    async def agree(self) -> None:
        """See ``RouteAppender.agree``."""
        await asyncio.to_thread(self._agree)

    async def follow(self) -> None:
        """Note what is agreed, and end this process once it must stop."""
        due_s = NOTED_S
        while True:
            await asyncio.sleep(LOOK_S)
            if is_over(self._store):
                # Everything that this process holds in memory may be of lost changes.
                self._lines.error("store-went-back", reason="the control part starts anew")
                self._end()
                return
            due_s -= LOOK_S
            if due_s <= 0 and self._agreed.is_set():
                due_s = NOTED_S
                try:
                    await asyncio.to_thread(self._note)
                except DistributaryError as error:  # the next leader reads more of the log
                    self._lines.warning("agreement-not-noted", reason=str(error))

    def _agree(self) -> None:
        ends = self._ends()
        with self._changing() as connection:
            mine = lost.newest_change(connection)
        found = self._changes_after(mine, ends)
        with self._changing() as connection:
            undone = lost.go_on_after(connection, found)
            put_beside(connection, AGREED, msgspec.json.encode(ends))
        if found:
            newest = max(record.seq for record in found)
            self._lines.error(
                "route-changes-undone", through_seq=mine, newest_seq=newest, routes=undone
            )
        self._agreed.set()

    def _note(self) -> None:
        # The ends come first: the store has every change below them.
        ends = self._ends()
        with self._changing() as connection:
            put_beside(connection, AGREED, msgspec.json.encode(ends))

    def _ends(self) -> list[int]:
        return KafkaEnds(self._log).read(self._partitions)

    @contextmanager
    def _changing(self) -> Iterator[Any]:
        writer = StoreWriter(self._store.url, STORE, leader=self._store.leader)
        try:
            with writer.changing() as connection:
                yield connection
        finally:
            writer.close()

    def _changes_after(self, seq: int, ends: list[int]) -> list[RouteRecord]:
        """The changes in the log with a number above *seq*, of all partitions."""
        notes = Notes(self._store.url)
        noted = notes.get(AGREED)
        starts: list[int] = [] if noted is None else msgspec.json.decode(noted, type=list[int])

        def read(partition: int) -> list[RouteRecord]:
            start = starts[partition] if partition < len(starts) else 0
            told = None if start else notes.get(f"{ROUTES}{partition}")
            at = None if told is None else routes_at_of(told)
            start = start if at is None else at.offset
            if start >= ends[partition]:
                return []
            records = KafkaRecords(self._log, partition, MemorySnapshots())
            try:
                logged = records.kinds(start, ends[partition], RecordKind.ROUTE)
                changes = [decode_route(each.body) for each in logged]
            finally:
                records.close()
            return [change for change in changes if change.seq > seq]

        with ThreadPoolExecutor(READERS) as readers:
            return [
                change
                for changes in readers.map(read, range(self._partitions))
                for change in changes
            ]
