"""Where the rooms meet for one partition: records in, matches out, outcomes written down.

Called by ``spark`` (the writer opens a ``Session`` for its partition and feeds it) and by
``server`` (retention). Hides: backfilled routes, the retry queue, the cursor, the flush order,
and what is done when something is killed. DESIGN's "Rules that keep it correct" live here.
"""

from distributary.core.engine._life import LIFE, MatchState, Step
from distributary.core.engine.limits import EngineLimits
from distributary.core.engine.ports import BackfillBudget, Blocking, Records, RouteTarget, Targets
from distributary.core.engine.tracker import Tracker

__all__ = [
    "LIFE",
    "BackfillBudget",
    "Blocking",
    "EngineLimits",
    "MatchState",
    "Records",
    "RouteTarget",
    "Step",
    "Targets",
    "Tracker",
]
