"""When API keys were used last, as a receiver tells it to the control process: a file.

Callers: ``server.processes``. Informational: nothing depends on it, it is never synced, and the
newest uses may be lost with the process.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.files import PRIVATE_MODE, write_atomically

SAVE_S: Final = 10.0
"""Least time between two saves of a receiver: with 10,000 keys the file has 300 KB."""


def save_uses(path: Path, uses: Mapping[str, int]) -> None:
    """Write *uses* (id of a key -> the minute, wall clock, milliseconds) to *path*.

    Raises:
        OSError: Writing failed (a full disk).
    """
    write_atomically(path, msgspec.json.encode(uses), mode=PRIVATE_MODE)


def load_uses(paths: Iterable[Path]) -> dict[str, int]:
    """The latest uses in the files of *paths*; none from a missing or damaged one."""
    found: dict[str, int] = {}
    for path in paths:
        try:
            uses = msgspec.json.decode(path.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):
            continue
        for key_id, used_ms in uses.items():
            found[key_id] = max(used_ms, found.get(key_id, used_ms))
    return found
