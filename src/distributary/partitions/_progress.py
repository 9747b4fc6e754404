"""Publishes progress: status page, retention floor, route-table cache."""

from collections.abc import Callable

from distributary.core.deliver import Dispatcher
from distributary.core.engine.backfills import Backfills
from distributary.core.engine.retry_rows import RetryRows
from distributary.core.errors import StoreError
from distributary.datadir import StatusField
from distributary.partitions._flusher import Flusher
from distributary.partitions.context import PartitionContext
from distributary.partitions.routes import move_table, save_table


class Progress:
    """Publishes the progress of a partition consumer.

    Args:
        context: Ports of the consumer.
        flusher: Gives the durable cursor.
        dispatcher: Gives attempts under way and queued tasks.
        rows: Waiting retry rows.
        backfills: Backfills under way.
        replays_from: Returns the lowest record that replays still need; None: they need none.
    """

    def __init__(
        self,
        context: PartitionContext,
        *,
        flusher: Flusher,
        dispatcher: Dispatcher,
        rows: RetryRows,
        backfills: Backfills,
        replays_from: Callable[[], int | None],
    ) -> None:
        self._context = context
        self._flusher = flusher
        self._dispatcher = dispatcher
        self._backfills = backfills
        self._rows = rows
        self._saved_every_s = context.limits.routes_saved_every_s
        self._routes_saved_s = context.clock.monotonic_s()
        self._routes_pending: tuple[int, Callable[[], bytes] | None] | None = None
        self._routes_kept_seq = -1
        self._saving = False
        self._keep_from = 0
        self._replays_from = replays_from
        self._keep_from_next: tuple[int, int] | None = None

    def save_routes(self, live: int) -> None:
        """Cache the route table once the durable cursor has reached the snapshot's offset.

        Runs in a thread. An unchanged table is not written again, only its offset.
        """
        if self._saving:
            return
        pending = self._routes_pending
        if pending is not None and self._flusher.durable_mark.offset >= pending[0]:
            self._routes_pending = None
            self._saving = True
            self._context.aside.run(lambda: self._save(*pending), self._saved)
            return
        now_s = self._context.clock.monotonic_s()
        if pending is None and now_s - self._routes_saved_s >= self._saved_every_s:
            self._routes_saved_s = now_s
            table = self._context.follower.table
            changed = table.last_seq != self._routes_kept_seq
            self._routes_kept_seq = table.last_seq
            self._routes_pending = (live, table.frozen() if changed else None)

    def _save(self, at_offset: int, snapshot: Callable[[], bytes] | None) -> None:
        try:
            if snapshot is None:
                move_table(self._context.routes_path, at_offset)
            else:
                save_table(self._context.routes_path, at_offset, snapshot())
        except OSError as error:
            raise StoreError(str(error)) from error

    def _saved(self, error: StoreError | None) -> None:
        self._saving = False
        if error is not None:
            # It is a cache; a full disk must not keep the status page from being written, which
            # tells retention what it may delete.
            self._routes_kept_seq = -1
            self._context.warn("routes-not-kept", {"error": str(error)})

    def post(self, live: int) -> None:
        """Write the progress to the status page."""
        status_page = self._context.status_page
        dispatcher = self._dispatcher
        status_page[StatusField.LIVE_OFFSET] = live
        status_page[StatusField.COMMITTED_OFFSET] = self._flusher.durable_mark.offset
        self._move_keep_from()
        status_page[StatusField.KEEP_FROM] = self._keep_from
        status_page[StatusField.IN_FLIGHT] = dispatcher.in_flight
        status_page[StatusField.QUEUED] = dispatcher.queued
        status_page[StatusField.BACKFILLING] = len(self._backfills)
        status_page[StatusField.WAITING] = self._rows.count
        status_page[StatusField.OLDEST_IN_FLIGHT_MS] = int(dispatcher.oldest_in_flight_s() * 1000)
        status_page[StatusField.HEARTBEAT_MS] = self._context.clock.wall_ms()

    def keep_from(self, offset: int) -> None:
        """Lower the retention floor at once, for a route that begins in the past."""
        if self._keep_from_next is not None:
            floor, begun_round = self._keep_from_next
            self._keep_from_next = min(floor, offset), begun_round
        self._keep_from = min(self._keep_from, offset)
        self._context.status_page[StatusField.KEEP_FROM] = self._keep_from

    def _move_keep_from(self) -> None:
        """Raise the retention floor, once a flush has made it durable.

        The current needs of rows and backfills do not count: a crash goes back to the durable ones.
        """
        flusher = self._flusher
        if self._keep_from_next is not None:
            floor, begun_round = self._keep_from_next
            if flusher.durable_round <= begun_round:
                return
            self._keep_from = floor
        floors = [flusher.durable_mark.offset]
        others = (self._backfills.floor(), self._rows.lowest_offset(), self._replays_from())
        floors.extend(floor for floor in others if floor is not None)
        self._keep_from_next = min(floors), flusher.begun_round
