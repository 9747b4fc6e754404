"""Where the rooms meet for one partition: records in, matches out, outcomes written down.

Called by ``spark`` (the writer opens a ``Session`` for its partition and feeds it) and by
``app`` (retention). Hides: lagging routes, the retry queue, the cursor, the flush order,
and what is done when something is killed. DESIGN's "Rules that keep it correct" live here.
"""

from distributary.pipeline._attempt_log import AttemptLog
from distributary.pipeline._lock import OwnerLock
from distributary.pipeline._owner import Owner
from distributary.pipeline._ports import Blocking, LagBudget, Records, RouteTarget, Targets
from distributary.pipeline._prepared import prepare_next, stands_in
from distributary.pipeline._routes import (
    RouteFollower,
    RouteHistory,
    follow_from,
    follow_on,
    save_table,
)
from distributary.pipeline._session import Session, SessionSettings, owner_log
from distributary.pipeline._surroundings import Surroundings
from distributary.pipeline._targets import DirectoryTargets
from distributary.pipeline._tracker import Tracker

__all__ = [
    "AttemptLog",
    "Blocking",
    "DirectoryTargets",
    "LagBudget",
    "Owner",
    "OwnerLock",
    "Records",
    "RouteFollower",
    "RouteHistory",
    "RouteTarget",
    "Session",
    "SessionSettings",
    "Surroundings",
    "Targets",
    "Tracker",
    "follow_from",
    "follow_on",
    "owner_log",
    "prepare_next",
    "save_table",
    "stands_in",
]
