"""What becomes of the matches of one partition: inputs come in, effects go out by one port.

``partitions`` brings the inputs and does what it is asked for; the simulation does the same. Hides:
backfills, rows that wait, reservations, replies, and how far the cursor may go. Imports no clock,
no loop and no store. DESIGN's "Rules that keep it correct" live here.
"""

from distributary.core.engine._life import LIFE, MatchState, Step
from distributary.core.engine.limits import EngineLimits
from distributary.core.engine.ports import RouteTarget, Targets
from distributary.core.engine.tracker import Tracker
