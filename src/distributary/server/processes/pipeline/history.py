"""Interprets the setting ``history``: a folder of the data directory, another one, or none."""

from pathlib import Path
from typing import Final

from distributary.core.cluster import log_servers
from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server.settings import Settings, own_name

OFF: Final = "off"
"""Value of the setting that turns history off."""
_FILE: Final = "file:"


def is_own(place: str, paths: DataDir) -> bool:
    """Whether history lies in the data directory, as ``place_of`` returns it."""
    return place == str(paths.history)


def written_into(place: str, paths: DataDir, *, shared: bool) -> str:
    """Returns the folder that owners write history files into; empty: they write none.

    Args:
        place: Where history lies, as ``place_of`` returns it.
        paths: Paths of the data directory, absolute.
        shared: Whether nodes share the log: owners may run on any machine, which has the folder
            *place* and not the outbox of a node.
    """
    if not place or is_own(place, paths):
        return place
    return place if shared and ":/" not in place else str(paths.history_outbox)


def marked_by(place: str, paths: DataDir, settings: Settings) -> str:
    """Returns what marks the folder that owners on other machines write into; empty: nothing does.

    One folder for all is marked by the log, and what is of one node by the node too: machines have
    folders of the same name.
    """
    if settings.log is None or not place:
        return ""
    _, prefix = log_servers(settings.log)
    of_all = ":/" not in place and not is_own(place, paths)
    return prefix if of_all else f"{prefix} at {own_name(settings)}"


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
