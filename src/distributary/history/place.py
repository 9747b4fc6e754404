"""Where history lies and how much is kept."""

from dataclasses import dataclass
from pathlib import Path


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
