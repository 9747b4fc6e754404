"""Routes that begin in the past: each is backfilled from its beginning on (decision 17)."""

from collections.abc import Callable

from distributary.core.flow import RouteRecord, encode_route
from distributary.core.outcome import BackfillRow
from distributary.partitions._backfills import PartitionBackfills
from distributary.partitions._flusher import Flusher
from distributary.partitions._progress import Progress
from distributary.partitions.context import PartitionContext


class Replay:
    """Begins the backfills of routes that begin in the past.

    Args:
        context: Ports of the owner.
        backfills: Its backfills.
        unseen: Whether a route without a target may have one that was not read yet.
        standing: Tells retention.
        flusher: Makes backfills durable.
        dropped: Called with route, first offset and end of what nobody gets: it is deleted.
    """

    def __init__(
        self,
        context: PartitionContext,
        *,
        backfills: PartitionBackfills,
        unseen: Callable[[str], bool],
        standing: Progress,
        flusher: Flusher,
        dropped: Callable[[str, int, int], None],
    ) -> None:
        self._context = context
        self._backfills = backfills
        self._unseen = unseen
        self._standing = standing
        self._flusher = flusher
        self._dropped = dropped

    def begin(self, change: RouteRecord, begin_ms: int, offset: int) -> bool:
        """Backfill the route that stands from *offset* on from its beginning, if that lies before.

        A restart may meet the record again. Whether the backfill was begun does not depend on what
        is left of it: the row of one that has ended stays until the cursor has passed this.

        Returns:
            True where that cost as much as a slice of records.
        """
        route = change.uid
        first_since = self._context.follower.first_since
        if self._backfills.began_before(route, offset):
            return False
        first = first_since(begin_ms)
        if first >= offset:
            return True
        if self._context.targets.get(route) is None and not self._unseen(route):
            self._dropped(route, first, offset)
            return True
        self._standing.keep_from(first)
        # Retention may have cut before it could know. What it gave up is no history any more;
        # what it gives up from now on lies below.
        first = max(first, first_since(begin_ms))
        if first >= offset:
            return True
        row = BackfillRow(route, first, 0, first, None, encode_route(change))
        self._backfills.add(row)
        self._flusher.put_backfill(row)
        self._context.meter.add("replays_begun_total")
        self._context.report("route-replays", {"route": route, "from": first, "to": offset})
        return True
