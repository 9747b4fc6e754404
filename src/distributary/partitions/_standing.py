"""Where the owner stands: told on its board, to retention, and kept to shorten a start."""

from collections.abc import Callable

from distributary.core.deliver import Dispatcher
from distributary.core.engine.waiting import Waiting
from distributary.core.errors import StoreError
from distributary.datadir import Word
from distributary.partitions._catch_up import CatchUp
from distributary.partitions._ledger import Ledger
from distributary.partitions.routes import move_table, save_table
from distributary.partitions.surroundings import Surroundings


class Standing:
    """Tells where the owner of a partition stands; changes nothing.

    Args:
        around: Ports of the owner.
        ledger: Knows what is durable.
        dispatcher: Knows what is under way.
        rows: What waits.
        backfills: What lags.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        ledger: Ledger,
        dispatcher: Dispatcher,
        rows: Waiting,
        backfills: CatchUp,
    ) -> None:
        self._around = around
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._catch_up = backfills
        self._rows = rows
        self._saved_every_s = around.limits.routes_saved_every_s
        self._routes_saved_s = around.clock.monotonic_s()
        self._routes_pending: tuple[int, Callable[[], bytes] | None] | None = None
        self._routes_kept_seq = -1
        self._saving = False
        self._keep_from = 0
        self._keep_from_next: tuple[int, int] | None = None

    def save_routes(self, live: int) -> None:
        """Keep the route table, once the durable cursor has reached where it was taken.

        Beside the loop, and not again where nothing has changed since: then it is only noted that
        it stands further on.
        """
        if self._saving:
            return
        pending = self._routes_pending
        if pending is not None and self._ledger.durable_mark.offset >= pending[0]:
            self._routes_pending = None
            self._saving = True
            self._around.aside.run(lambda: self._save(*pending), self._saved)
            return
        now_s = self._around.clock.monotonic_s()
        if pending is None and now_s - self._routes_saved_s >= self._saved_every_s:
            self._routes_saved_s = now_s
            table = self._around.follower.table
            changed = table.last_seq != self._routes_kept_seq
            self._routes_kept_seq = table.last_seq
            self._routes_pending = (live, table.frozen() if changed else None)

    def _save(self, at_offset: int, snapshot: Callable[[], bytes] | None) -> None:
        try:
            if snapshot is None:
                move_table(self._around.routes_path, at_offset)
            else:
                save_table(self._around.routes_path, at_offset, snapshot())
        except OSError as error:
            raise StoreError(str(error)) from error

    def _saved(self, error: StoreError | None) -> None:
        self._saving = False
        if error is not None:
            # It is a cache; a full disk must not keep the board from being written, which tells
            # retention what it may delete.
            self._routes_kept_seq = -1
            self._around.report("routes-not-kept", {"error": str(error)})

    def post(self, live: int) -> None:
        """Write it on the board."""
        board = self._around.board
        dispatcher = self._dispatcher
        board[Word.LIVE_OFFSET] = live
        board[Word.WATERMARK] = self._ledger.durable_mark.offset
        self._move_keep_from()
        board[Word.KEEP_FROM] = self._keep_from
        board[Word.IN_FLIGHT] = dispatcher.in_flight
        board[Word.QUEUED] = dispatcher.queued
        board[Word.LAGGING] = len(self._catch_up)
        board[Word.WAITING] = self._rows.count
        board[Word.OLDEST_IN_FLIGHT_MS] = int(dispatcher.oldest_in_flight_s() * 1000)
        board[Word.HEARTBEAT_MS] = self._around.clock.wall_ms()

    def keep_from(self, offset: int) -> None:
        """A route begins in the past: retention must know before it looks next."""
        if self._keep_from_next is not None:
            floor, begun_round = self._keep_from_next
            self._keep_from_next = min(floor, offset), begun_round
        self._keep_from = min(self._keep_from, offset)
        self._around.board[Word.KEEP_FROM] = self._keep_from

    def _move_keep_from(self) -> None:
        """Let retention follow what is needed, once a flush has made durable that it is.

        What rows and lags need *now* says nothing: a crash goes back to the durable ones.
        """
        ledger = self._ledger
        if self._keep_from_next is not None:
            floor, begun_round = self._keep_from_next
            if ledger.durable_round <= begun_round:
                return
            self._keep_from = floor
        floors = [ledger.durable_mark.offset]
        others = (self._catch_up.floor(), self._rows.lowest_offset())
        floors.extend(floor for floor in others if floor is not None)
        self._keep_from_next = min(floors), ledger.begun_round
