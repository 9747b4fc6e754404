"""How far the log is archived, for retention: written by the job, asked before a cut.

The manifests of the archive are the truth; this file repeats what they say, so that a receiver
needs neither Spark nor the file system of the archive. Without it nothing counts as archived, and
the next job writes it again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.files import write_atomically

NOTHING: Final = 0
"""Offset to which a partition is archived that is not."""


class _Archived(msgspec.Struct, frozen=True):
    to: str
    partitions: dict[int, int]


def write_archived(path: Path, to: str, positions: Mapping[int, int]) -> None:
    """Write that the archive *to* holds each partition up to *positions*; durable on return.

    Args:
        path: ``DataDir.archived``.
        to: Where the archive lies, as the setting ``archive`` has it.
        positions: Partition -> offset of the first record that is not archived.

    Raises:
        OSError: It cannot be written.
    """
    content = msgspec.json.encode(_Archived(to, dict(positions)))
    write_atomically(path, content, durable=True, mode=0o640)


def read_archived(path: Path, to: str) -> dict[int, int]:
    """Returns how far each partition is archived in the archive *to*; empty: not known.

    Args:
        path: ``DataDir.archived``.
        to: Where the archive lies; what another one holds does not count.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Archived)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return found.partitions if found.to == to else {}
