"""Interprets the setting ``history``: a folder of the data directory, another one, or none."""

from pathlib import Path
from typing import Final

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.history.place import HistorySettings
from distributary.server.settings import Settings

OFF: Final = "off"
"""Value of the setting that turns history off."""
_FILE: Final = "file:"


def history_settings(settings: Settings, paths: DataDir) -> HistorySettings:
    """Returns what the driver has to know.

    Args:
        settings: Of the server.
        paths: Paths of the data directory, absolute.

    Raises:
        SettingsError: The folder is one that the server uses for something else.
    """
    place = _place(settings.history, paths)
    return HistorySettings(
        place=place,
        elsewhere=place not in {"", str(paths.history)},
        age_max_s=settings.history_age_max_s,
        bytes_max=settings.history_bytes_max,
    )


def written_into(history: HistorySettings, paths: DataDir) -> str:
    """Returns the folder that owners write history files into; empty: they write none."""
    if not history.place:
        return ""
    return str(paths.history_outbox if history.elsewhere else paths.history)


def _place(chosen: str, paths: DataDir) -> str:
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
