"""Where the rooms meet for one partition: records in, matches out, outcomes written down.

Called by ``spark`` (the writer opens a ``Session`` for its partition and feeds it) and by
``app`` (retention). Hides: lagging routes, the retry queue, the cursor, the flush order,
and what is done when something is killed. DESIGN's "Rules that keep it correct" live here.
"""

from distributary.core.engine._life import LIFE, MatchState, Step
from distributary.core.engine._limits import EngineLimits
from distributary.core.engine._tracker import Tracker
from distributary.core.engine.attempt_log import AttemptLog
from distributary.core.engine.owner import Owner
from distributary.core.engine.ports import Blocking, LagBudget, Records, RouteTarget, Targets
from distributary.core.engine.routes import (
    RouteFollower,
    RouteHistory,
    follow_from,
    follow_on,
    save_table,
)
from distributary.core.engine.surroundings import Surroundings

__all__ = [
    "LIFE",
    "AttemptLog",
    "Blocking",
    "EngineLimits",
    "LagBudget",
    "MatchState",
    "Owner",
    "Records",
    "RouteFollower",
    "RouteHistory",
    "RouteTarget",
    "Step",
    "Surroundings",
    "Targets",
    "Tracker",
    "follow_from",
    "follow_on",
    "save_table",
]
