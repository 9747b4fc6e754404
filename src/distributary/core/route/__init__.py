"""Routing: finds the routes that match an event. Pure.

Called by ``partitions`` (applies the route records in log order), ``core.engine`` (matches every
event) and retention (takes the snapshot at a cut). Hides the index and the format of a snapshot.
Knows no sinks and policies: they are not in the log (DESIGN rule 4, route records).
"""

from distributary.core.route._index import IndexMatcher
from distributary.core.route._matcher import BlindMatcher, Matcher, WalkMatcher
from distributary.core.route._table import (
    SNAPSHOT_FORMAT,
    SNAPSHOT_HEADING_BYTES,
    RouteTable,
    snapshot_seq,
)
