"""The durable log: append-only and partitioned; here in files, in ``kafka`` on a topic.

What this package exports is the log in files, one for each segment, and what both share.
``indexer``, ``finder`` and ``indexed`` make and ask the index of ids; ``recalled`` reads files of
records that came back from an archive.

Callers: ``server`` opens folder, appenders and committers; ``partitions`` and the Spark sources
read; the resource store appends route records. Hides: files, recovery, damage and group commit.

Guarantees: a record whose offset was returned (or passed to a ``Done``) is on the medium. Readers
see only what is on the medium. Corrupt bytes are detected by checksum, confined to their records,
reported as ``Damage``, and never delivered.
"""

from distributary.core.log.appender import SEGMENT_BYTES, Appender
from distributary.core.log.committer import COMMIT_COUNT_MAX, Appends, GroupCommitter
from distributary.core.log.damage import Damage
from distributary.core.log.disk import SYSTEM_DISK, SystemDisk, Words, lock
from distributary.core.log.folder import (
    FORMAT_VERSION,
    PARTITIONS_MAX,
    open_folder,
    partition_dir,
    read_folder,
)
from distributary.core.log.frame import BODY_BYTES_MAX, HEADER_BYTES, encode_frame, iter_frames
from distributary.core.log.reader import Reader
from distributary.core.log.retention import Retained, retain
