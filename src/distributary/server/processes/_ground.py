"""What a server stands on: its ports and who reaches them, its descriptors, its folders.

Called by ``_serve``.
"""

import asyncio
import ipaddress
import os
import resource
import shutil
import socket
import stat
from pathlib import Path
from typing import TextIO

from structlog.typing import FilteringBoundLogger

from distributary.core.errors import SettingsError
from distributary.datadir import SOCKET_PATH_BYTES_MAX
from distributary.protocols.amqp.engine import AVAILABLE
from distributary.server.settings import Settings

LOG_BYTES_MAX = 16 * 1024 * 1024
"""The file of other programs' lines (the JVM's) is turned over at start when it is larger."""
FILES_MAX = 16_384
"""Descriptors that children may have: connections in, 5,000 connections out of each owner."""
BACKLOG = 1024
"""Connections that the kernel keeps while ingest is restarted."""
AMQP_BACKLOG = 128
"""The same of the port for AMQP, while the loop is busy."""
UMASK = 0o077
"""Of every process of the server: events, filters and logs are for the user who runs it."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

WARN_S = 86_400.0
"""Between two warnings of an open port: one in each day's log, whoever looks at which."""


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


def listen_for_amqp(host: str, port: int | None) -> socket.socket | None:
    """A socket bound for clients that speak AMQP; None where *port* is: nobody asked for it.

    Raises:
        SettingsError: The port is taken, the host is unknown, or proton is not installed.
    """
    if port is None:
        return None
    if not AVAILABLE:
        raise SettingsError(
            "--amqp-port needs Qpid Proton, which is not installed."
            " Install it (pip install 'distributary[amqp]'), or leave the setting out"
        )
    return listen(host, port, flag="--amqp-port", purpose=" for AMQP", backlog=AMQP_BACKLOG)


def check_open(settings: Settings) -> None:
    """Refuse an address that is not loopback, where nobody said that this is meant.

    Raises:
        SettingsError: Says how to say so.
    """
    if settings.no_auth or not is_open(settings.host):
        return
    raise SettingsError(
        f"--host {settings.host} is reached from outside of this machine, and nobody is asked who"
        " they are: whoever reaches it may publish, and read and change every subscription."
        " Listen on 127.0.0.1 behind something that asks; or, where everybody who reaches the"
        " address may do all that, say so: --no-auth (no_auth = true)"
    )


def is_open(host: str) -> bool:
    """Whether *host* names an address that is not loopback; a name that nobody knows does not."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False  # whoever listens says so better
    return not all(ipaddress.ip_address(where[0]).is_loopback for *_, where in found)


async def keep_warning(host: str, log: FilteringBoundLogger) -> None:
    """Warn of an open port now and each day; never ends where *host* is one."""
    while is_open(host):
        log.warning(
            "open-to-everybody",
            host=host,
            reason="no_auth is set: whoever reaches this address may do everything",
        )
        await asyncio.sleep(WARN_S)


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
