"""Decides what becomes of every match of one partition: inputs as calls, effects by one port.

``partitions`` provides the inputs and carries out the effects; the simulation does the same. Hides:
backfills, retry rows, reservations, replies, and how far the cursor may advance. Imports no clock,
no loop and no store. Implements DESIGN's "Rules that keep it correct".
"""

from distributary.core.engine._life import LIFE, MatchState, Step
from distributary.core.engine.limits import EngineLimits
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.tracker import Tracker
