"""What a server stands on: its port, its descriptors, its files for others' lines.

Called by ``_serve``.
"""

import resource
import shutil
import socket
from pathlib import Path
from typing import TextIO

from distributary.core.errors import SettingsError

LOG_BYTES_MAX = 16 * 1024 * 1024
"""The file of other programs' lines (the JVM's) is turned over at start when it is larger."""
FILES_MAX = 16_384
"""Descriptors that children may have: connections in, 5,000 connections out of each owner."""
BACKLOG = 1024
"""Connections that the kernel keeps while ingest is restarted."""


def listen(
    host: str, port: int, *, flag: str = "--port", purpose: str = "", backlog: int = BACKLOG
) -> socket.socket:
    """A listening socket of the server.

    Args:
        host: Address or name to listen on.
        port: 0: a free one.
        flag: What chooses another port.
        purpose: What it is for, for people, after a space.
        backlog: Connections that the kernel keeps while nobody takes them.

    Raises:
        SettingsError: It cannot be had; the message says what to do.
    """
    listener: socket.socket | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(backlog)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise SettingsError(
            f"cannot listen on {host}:{port}{purpose}: {error.strerror or error}."
            f" Stop the program that uses the port, or choose another: {flag}"
        ) from error
    listener.setblocking(False)
    return listener


def raise_file_limit() -> None:
    """Have more descriptors, for children: 1,024 is less than a busy owner's connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def other_log(folder: Path) -> TextIO:
    """The file in *folder* for lines that are none of ours."""
    path = folder / "spark.log"
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        shutil.move(path, path.with_suffix(".old"))
    return path.open("a", encoding="utf-8")
