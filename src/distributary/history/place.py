"""Where history lies and how much is kept; for ``server`` and the pipeline's driver."""

from pathlib import Path
from typing import Final

import msgspec

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir

OFF: Final = "off"
"""Value of the setting ``history`` that turns history off."""
_FILE: Final = "file:"


class HistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of what is done with history files; sent to the driver as JSON.

    Attributes:
        place: An absolute path, or the URL of a folder; empty: no history is kept.
        age_max_s: Age above which files are deleted, seconds.
        bytes_max: Size of all files above which the oldest are deleted; 0: unlimited.
    """

    place: str = ""
    age_max_s: float = 7 * 86400.0
    bytes_max: int = 1 << 30

    @property
    def local(self) -> Path | None:
        """The folder, if ``place`` is a path of this machine."""
        return None if not self.place or ":/" in self.place else Path(self.place)


def place_of(chosen: str, paths: DataDir) -> str:
    """Returns ``HistorySettings.place`` for the setting ``history``.

    Args:
        chosen: The setting: empty, ``off``, a path, or a URL.
        paths: Paths of the data directory, absolute.

    Raises:
        SettingsError: The folder is one that the server uses for something else.
    """
    if chosen == OFF:
        return ""
    if not chosen:
        return str(paths.history)
    path = "/" + chosen[len(_FILE) :].lstrip("/") if chosen.startswith(_FILE) else chosen
    if ":/" in path:
        return path
    folder = Path(path).expanduser().absolute()
    inside = folder.resolve().is_relative_to(paths.root.resolve())
    if inside and folder.resolve() != paths.history.resolve():
        raise SettingsError(
            f"history: the folder {folder} lies in the data directory, where only {paths.history}"
            " is for history: name another, or leave the setting out"
        )
    return str(folder)


def written_into(place: str, paths: DataDir) -> str:
    """Returns the folder that the owners write history files into; empty: none is written.

    Args:
        place: ``HistorySettings.place``.
        paths: Paths of the data directory, absolute.
    """
    if not place:
        return ""
    here = place == str(paths.history)
    return str(paths.history if here else paths.history_outbox)
