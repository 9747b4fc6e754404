"""Sources: events that others publish at a broker, brought into the log.

Called by ``server`` (one process runs all of them) and ``cli`` (checks their tables). Hides who
reads what, the hand-over to the receiver, and when a broker is told that a message is done with:
after the log has it.
"""

from distributary.sources._source import UNSETTLED_TOTAL_MAX, Source, SourceState
from distributary.sources._tables import make_consumer, read_tables, readings, secret_variables
