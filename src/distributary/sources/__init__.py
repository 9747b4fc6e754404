"""Sources: consume messages of a broker and publish them to the log.

Called by ``server`` (one process runs all sources; settings check their tables). Hides the
consumers, the requests to the receiver, and acknowledgement: only after the log has the event.
"""

from distributary.sources._source import UNSETTLED_TOTAL_MAX, Source, SourceState
from distributary.sources._spread import Step, next_step
from distributary.sources._tables import make_consumer, read_tables, readings, secret_variables
