"""Interprets the setting ``history``: a folder of the data directory, another one, or none."""

from pathlib import Path
from typing import Final

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir

OFF: Final = "off"
"""Value of the setting that turns history off."""
_FILE: Final = "file:"


def written_into(place: str, paths: DataDir) -> str:
    """Returns the folder that owners write history files into; empty: they write none.

    Args:
        place: Where history lies, as ``place_of`` returns it.
        paths: Paths of the data directory, absolute.
    """
    if not place:
        return ""
    return place if place == str(paths.history) else str(paths.history_outbox)


def place_of(chosen: str, paths: DataDir) -> str:
    """Returns where history lies: an absolute path, or the URL of a folder; empty: nowhere.

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
    if not inside:
        return str(folder)
    if folder.resolve() != paths.history.resolve():
        raise SettingsError(
            f"history: the folder {folder} lies in the data directory, where only {paths.history}"
            " is for history: name another, or leave the setting out"
        )
    return str(paths.history)
