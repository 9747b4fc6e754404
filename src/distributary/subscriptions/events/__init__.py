"""Where is my event: finds accepted events, and tells what became of each.

Called by ``http``. Hides the log, its index and the history.
"""

from distributary.subscriptions.events._cursor import position_text, read_position
from distributary.subscriptions.events._query import EventQuery, FoundEvent
from distributary.subscriptions.events._service import AskedRoute, EventPlaces, Events
from distributary.subscriptions.events._way import EventWay, Match
