"""How whoever runs a server reaches it without a key: the private socket in its data directory."""

import os
from pathlib import Path

from distributary.core.errors import SettingsError
from distributary.datadir import SOCKET_PATH_BYTES_MAX, DataDir


def private_socket_of(data_dir: Path) -> str:
    """Path of the socket of the server that runs on *data_dir*.

    Raises:
        SettingsError: It is too long for a socket.
    """
    path = str(DataDir(data_dir.absolute()).control_socket)
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        path = os.path.relpath(path)
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        raise SettingsError(f"--data-dir: {data_dir} is too long for a socket: go there first")
    return path
