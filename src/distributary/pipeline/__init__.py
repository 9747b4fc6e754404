"""Where the rooms meet for one partition: records in, matches out, outcomes written down.

Called by ``spark`` (the writer opens a ``Session`` for its partition and feeds it) and by
``app`` (places, boards). Hides: lagging routes, the retry queue, the cursor, the flush order,
and what is done when something is killed. DESIGN's "Rules that keep it correct" live here.
"""

from distributary.pipeline._attempt_log import AttemptLog
from distributary.pipeline._board import Board, Phase, Word
from distributary.pipeline._live import LiveFile, LiveSettings
from distributary.pipeline._lock import OwnerLock
from distributary.pipeline._owner import Owner
from distributary.pipeline._places import SOCKET_PATH_BYTES_MAX, Places
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
from distributary.pipeline._sickness import Sickness, is_sick, sickness_of
from distributary.pipeline._surroundings import Surroundings
from distributary.pipeline._targets import DirectoryTargets
from distributary.pipeline._tracker import Tracker

__all__ = [
    "SOCKET_PATH_BYTES_MAX",
    "AttemptLog",
    "Blocking",
    "Board",
    "DirectoryTargets",
    "LagBudget",
    "LiveFile",
    "LiveSettings",
    "Owner",
    "OwnerLock",
    "Phase",
    "Places",
    "Records",
    "RouteFollower",
    "RouteHistory",
    "RouteTarget",
    "Session",
    "SessionSettings",
    "Sickness",
    "Surroundings",
    "Targets",
    "Tracker",
    "Word",
    "follow_from",
    "follow_on",
    "is_sick",
    "owner_log",
    "prepare_next",
    "save_table",
    "sickness_of",
    "stands_in",
]
