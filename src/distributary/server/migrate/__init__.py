"""Moves a stopped data directory to a log in Kafka and a store in PostgreSQL.

Callers: ``cli``, and nodes, which do not start before its end. Hides: the order of the steps, new
numbers of records, and what was moved already.
"""

from distributary.server.migrate._errors import MigrationError
from distributary.server.migrate._parts import FATES
from distributary.server.migrate._record import check_ended
from distributary.server.migrate._run import Moved, Step, look, migrate
