"""The data directory: its paths, and the files by which its processes exchange state.

``DataDir`` holds the paths; a ``MappedStatusPage`` is a page of numbers in shared memory;
``NodeCounts`` is what the receivers count together; ``LiveFile`` holds the settings that change
while the server runs; ``Sickness`` records why a partition cannot be owned.

Hides: names of files, shared memory.
"""

from distributary.datadir._bell import Bell
from distributary.datadir._hold import holding_retention, unless_held
from distributary.datadir._internal_key import keep_internal_key, read_internal_key
from distributary.datadir._layout import KEY_FILE_NAME, PARENT, SOCKET_PATH_BYTES_MAX, DataDir
from distributary.datadir._live import LiveFile, LiveSettings
from distributary.datadir._node_counts import (
    NamedCount,
    NodeCount,
    NodeCounts,
    make_node_counts,
)
from distributary.datadir._node_use import NodeUse
from distributary.datadir._polled_file import PolledFile
from distributary.datadir._sickness import Sickness, is_sick, sickness_of
from distributary.datadir._status_page import (
    MappedStatusPage,
    Phase,
    StatusField,
    StatusPage,
)
from distributary.datadir._tenant_counts import TenantCounts, Used, make_tenant_counts
from distributary.datadir._write_signs import WriteSigns
