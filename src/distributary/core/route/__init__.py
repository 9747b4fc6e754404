"""Routing: which routes an event matches. Pure.

Called by ``partitions`` (applies the route records in log order), ``core.engine`` (matches every
event) and retention (takes the snapshot at a cut). Hides how routes are indexed and what a snapshot
looks like. Knows nothing of sinks and policies: they are not in the log (DESIGN rule 4).
"""

from distributary.core.route._index import IndexMatcher
from distributary.core.route._matcher import BlindMatcher, Matcher, WalkMatcher
from distributary.core.route._table import (
    SNAPSHOT_FORMAT,
    SNAPSHOT_HEADING_BYTES,
    RouteTable,
    snapshot_seq,
)
