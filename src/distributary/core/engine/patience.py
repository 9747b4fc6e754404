"""Whether a full lane is worth a moment's pause of the whole intake, or its route must lag.

A pause holds up every route of the partition, so it is only for a sink that is about to have
room: without it, a burst to a fast sink would read the log twice. A sink that is slower than
that lags alone (DESIGN promise 4).
"""

from collections.abc import Callable

from distributary.core.deliver import BreakerState, LaneState, Limits

DRAIN_S_MAX = 1.0
"""A lane that empties within this is worth a pause: a full one at 4,000/s or more."""
PAUSE_S = 0.02
"""Longest single pause before the lane is looked at again."""
UNPROVEN_S = 0.25
"""A lane that has not answered yet is worth a pause for this long: connections are being made."""
SHARE_MAX = 0.5
"""A sink may hold up the intake for at most this share of a second, unless it is the only one.
Whose events lie behind, and whether their sinks are idle, nobody knows before they are read; to
lag costs the one route a second look at the log."""
ROOM_SHARE = 0.25
"""A lagging route joins the live reader when its lane is no fuller than this."""
_QUEUED_MAX = Limits().queued_max


class Patience:
    """Keeps account of the pauses that each sink has cost.

    Args:
        lane: Gives the queue of a name as it stands.
        alone: True for the only sink that there is: nobody is held up by waiting for it.
    """

    def __init__(
        self, lane: Callable[[str], LaneState | None], alone: Callable[[str], bool]
    ) -> None:
        self._lane = lane
        self._alone = alone
        self._spent: dict[str, float] = {}
        self._window_s = 0.0
        self._last: tuple[str, float] | None = None

    def worth(self, uri: str, now_s: float) -> bool:
        """True where the intake should wait for the lane of *uri*; asked again after a pause."""
        lane = self._lane(uri)
        if lane is None or lane.breaker is not BreakerState.CLOSED or lane.held_s > 0.0:
            return False
        if lane.completions_per_s == 0.0:
            if lane.oldest_in_flight_s > UNPROVEN_S:
                return False
        elif lane.drain_s > DRAIN_S_MAX and (lane.paced or lane.oldest_in_flight_s > PAUSE_S):
            return False
        self._note(uri, now_s)
        return self._spent[uri] <= SHARE_MAX or self._alone(uri)

    def _note(self, uri: str, now_s: float) -> None:
        if now_s - self._window_s > 1.0:
            self._window_s = now_s
            self._spent.clear()
        spent = self._spent.get(uri, 0.0)
        if self._last is not None and self._last[0] == uri:
            spent += min(now_s - self._last[1], PAUSE_S)
        self._spent[uri] = spent
        self._last = (uri, now_s)

    def comfortable(self, uri: str) -> bool:
        """True where the lane of *uri* has room enough to join the live reader."""
        lane = self._lane(uri)
        if lane is None:
            return True
        if lane.breaker is BreakerState.HALF_OPEN and not lane.queued and not lane.in_flight:
            return True  # It waits for an attempt, and only the next event can bring one.
        return (
            lane.breaker is BreakerState.CLOSED
            and lane.held_s == 0.0
            and lane.queued <= _QUEUED_MAX * ROOM_SHARE
            and lane.drain_s < 1.0
        )
