"""Where history lies and how much is kept; and the mark of a folder that machines share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distributary.core.errors import StoreError
from distributary.core.files import write_atomically

MARK_NAME: Final = ".server"
"""File in a folder that owners on several machines write into: whose it is."""

NOT_SHARED: Final = (
    "this machine has no such folder, or another one of its name; set history to a folder that all"
    " machines share, under one path"
)


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Settings of what is done with history files.

    Attributes:
        place: An absolute path, or the URL of a folder; empty: no history is kept.
        elsewhere: Whether owners write into the outbox, and files are moved from there.
        age_max_s: Age above which files are deleted, seconds.
        bytes_max: Size of all files above which the oldest are deleted; 0: unlimited.
    """

    place: str = ""
    elsewhere: bool = False
    age_max_s: float = 7 * 86400.0
    bytes_max: int = 1 << 30

    @property
    def local(self) -> Path | None:
        """The folder, if ``place`` is a path of this machine."""
        return None if not self.place or ":/" in self.place else Path(self.place)


def mark(folder: Path, by: str, *, replace: bool) -> None:
    """Mark *folder*, which is made at need, so that owners on other machines know it.

    Args:
        folder: That owners write into.
        by: The mark.
        replace: Whether another mark is replaced: the folder is this node's own.

    Raises:
        OSError: It cannot be written.
        StoreError: It is the folder of another server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MARK_NAME
    found = path.read_text("utf-8").strip() if path.exists() else ""
    if found == by:
        return
    if found and not replace:
        raise StoreError(f"{folder} is the folder of another server ({found}): name another one")
    write_atomically(path, f"{by}\n".encode(), durable=True, contended=True)


def is_marked(folder: Path, by: str) -> bool:
    """Whether *folder* has the mark *by*; not where it cannot be read."""
    try:
        return (folder / MARK_NAME).read_text("utf-8").strip() == by
    except (OSError, UnicodeDecodeError):
        return False
