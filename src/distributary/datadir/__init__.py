"""The data directory: where things lie in it, and what its processes tell one another there.

Called by every process of a server. ``DataDir`` knows the names; a ``MappedStatusPage`` is a page
of numbers that several processes see at once; ``LiveFile`` holds the settings that change while the
server runs; ``Sickness`` keeps why a partition cannot be owned.

Hides: names of files, shared memory.
"""

from distributary.datadir._layout import KEY_FILE_NAME, SOCKET_PATH_BYTES_MAX, DataDir
from distributary.datadir._live import LiveFile, LiveSettings
from distributary.datadir._sickness import Sickness, is_sick, sickness_of
from distributary.datadir._status_page import (
    ConsumerPhase,
    MappedStatusPage,
    StatusField,
    StatusPage,
)
