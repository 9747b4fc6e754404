"""Folders of the server: whose they are, and whether they can be used.

Called by ``_serve`` at the start.
"""

import os
import stat
from pathlib import Path

from distributary.core.errors import SettingsError
from distributary.datadir import SOCKET_PATH_BYTES_MAX

UMASK = 0o077
"""Of every process of the server: events, filters and logs are for the user who runs it."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_socket_path(path: Path) -> None:
    """Raise where the system takes no socket at *path*, before anything is started.

    Raises:
        SettingsError: It is too long.
    """
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise SettingsError(
            f"the path of the data directory is too long by {length - SOCKET_PATH_BYTES_MAX}"
            " bytes for the sockets in it. Choose a shorter one: --data-dir"
        )


def make_folder(path: Path) -> None:
    """Make the data directory, for its owner alone; one that is there keeps its mode.

    Raises:
        SettingsError: Nothing can be written there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise SettingsError(
            f"cannot write to the data directory {path}: {error.strerror or error}."
            " Make it writable, free some space, or choose another: --data-dir"
        ) from error


def make_private(path: Path) -> None:
    """Make *path*, or close it to others: whoever reaches the sockets in it is not asked again.

    Raises:
        SettingsError: It is open to others and is not ours to close.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    mode = path.stat().st_mode
    if mode & _OTHERS:
        try:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
        except OSError as error:
            raise SettingsError(
                f"{path} is open to other users ({stat.filemode(mode)}), and whoever reaches it"
                f" commands the server. Close it: chmod 700 {path}"
            ) from error
