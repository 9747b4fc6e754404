"""Routes that begin in the past: each lags from its beginning on (decision 17)."""

from collections.abc import Callable

from distributary.core.flow import RouteRecord, encode_route
from distributary.core.outcome import LagRow
from distributary.partitions._catch_up import CatchUp
from distributary.partitions._ledger import Ledger
from distributary.partitions._standing import Standing
from distributary.partitions.surroundings import Surroundings


class Replay:
    """Begins the lags of routes that begin in the past.

    Args:
        around: Ports of the owner.
        catch_up: Its lags.
        unseen: Whether a route without a target may have one that was not read yet.
        standing: Tells retention.
        ledger: Makes lags durable.
        dropped: Called with route, first offset and end of what nobody gets: it is deleted.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        catch_up: CatchUp,
        unseen: Callable[[str], bool],
        standing: Standing,
        ledger: Ledger,
        dropped: Callable[[str, int, int], None],
    ) -> None:
        self._around = around
        self._catch_up = catch_up
        self._unseen = unseen
        self._standing = standing
        self._ledger = ledger
        self._dropped = dropped

    def begin(self, change: RouteRecord, begin_ms: int, offset: int) -> bool:
        """The route that stands from *offset* on lags from its beginning, if that lies before.

        A restart may meet the record again. Whether the lag was begun does not depend on what
        is left of it: the row of one that has ended stays until the cursor has passed this.

        Returns:
            True where that cost as much as a slice of records.
        """
        route = change.uid
        first_since = self._around.follower.first_since
        if self._catch_up.began_before(route, offset):
            return False
        first = first_since(begin_ms)
        if first >= offset:
            return True
        if self._around.targets.get(route) is None and not self._unseen(route):
            self._dropped(route, first, offset)
            return True
        self._standing.keep_from(first)
        # Retention may have cut before it could know. What it gave up is no history any more;
        # what it gives up from now on lies below.
        first = max(first, first_since(begin_ms))
        if first >= offset:
            return True
        row = LagRow(route, first, 0, first, None, encode_route(change))
        self._catch_up.add(row)
        self._ledger.put_lag(row)
        self._around.meter.add("replays_begun_total")
        self._around.report("route-replays", {"route": route, "from": first, "to": offset})
        return True
