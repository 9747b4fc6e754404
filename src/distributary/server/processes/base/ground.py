"""Sockets, descriptor limits and folders of the server, with the checks before they are used."""

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
from distributary.datadir import SOCKET_PATH_BYTES_MAX, DataDir
from distributary.protocols.amqp.engine import AVAILABLE
from distributary.server.processes.base.where import has_proxy
from distributary.server.settings import Settings

LOG_BYTES_MAX = 16 * 1024 * 1024
"""The file for lines of other programs (the JVM) is rotated at the start when it is larger."""
FILES_MAX = 16_384
"""Descriptors of a child: inbound connections, and 5,000 outbound ones of each owner."""
BACKLOG = 1024
"""Connections that the kernel queues while ingest restarts."""
AMQP_BACKLOG = 128
"""The same for the AMQP port, while the loop is busy."""
UMASK = 0o077
"""Mask of every process of the server: files are private to the user who runs it."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

WARN_S = 86_400.0
"""Seconds between two warnings about an open server: one in each day's log."""


def listen(
    host: str, port: int, *, flag: str = "--port", purpose: str = "", backlog: int = BACKLOG
) -> socket.socket:
    """Returns a listening socket.

    Args:
        host: Address or name to listen on.
        port: Port number; 0: a free one.
        flag: Option that chooses another port, for the error message.
        purpose: Purpose of the socket for the error message, after a space.
        backlog: Connections that the kernel queues before they are accepted.

    Raises:
        SettingsError: The address is unusable; the message says what to do.
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
    """Returns a listening socket for AMQP; None where *port* is None.

    Raises:
        SettingsError: The port is taken, the host is unknown, or proton is not installed.
    """
    if port is None:
        return None
    _check_proton()
    return listen(host, port, flag="--amqp-port", purpose=" for AMQP", backlog=AMQP_BACKLOG)


def check_extras(settings: Settings) -> None:
    """Check that optional packages that *settings* need are installed.

    Raises:
        SettingsError: One of them is not.
    """
    if settings.amqp_port is not None:
        _check_proton()


def _check_proton() -> None:
    if not AVAILABLE:
        raise SettingsError(
            "--amqp-port needs Qpid Proton, which is not installed."
            " Install it (pip install 'distributary[amqp]'), or leave the setting out"
        )


def auth_required(settings: Settings) -> bool:
    """Whether clients must show who they are: said, or else where the address is not loopback."""
    if settings.auth is not None:
        return settings.auth == "required"
    return not settings.no_auth and is_open(settings.host)


def is_open(host: str) -> bool:
    """Whether *host* resolves to an address that is not loopback; False for an unknown name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False  # ``listen`` reports it better
    return not all(ipaddress.ip_address(where[0]).is_loopback for *_, where in found)


async def keep_warning(settings: Settings, log: FilteringBoundLogger) -> None:
    """Warn about a server open to everybody now and daily; returns at once where it is not."""
    while not auth_required(settings) and (is_open(settings.host) or has_proxy(settings)):
        log.warning(
            "open-to-everybody",
            host=settings.host,
            public_url=settings.public_url,
            reason="auth is off: whoever reaches this server may do everything",
        )
        await asyncio.sleep(WARN_S)


def raise_file_limit() -> None:
    """Raise the descriptor limit, for children: a busy owner has more than 1,024 connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def other_log(folder: Path) -> TextIO:
    """Opens the file in *folder* for lines of other programs; rotates a large one."""
    path = folder / "spark.log"
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        shutil.move(path, path.with_suffix(".old"))
    return path.open("a", encoding="utf-8")


def check_socket_path(path: Path) -> None:
    """Check, before anything is started, that a Unix socket fits at *path*.

    Raises:
        SettingsError: The path is too long.
    """
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise SettingsError(
            f"the path of the data directory is too long by {length - SOCKET_PATH_BYTES_MAX}"
            " bytes for the sockets in it. Choose a shorter one: --data-dir"
        )


def make_folder(path: Path) -> None:
    """Create the data directory, private to its user; an existing one keeps its mode.

    Raises:
        SettingsError: It is not writable, or a restore to it did not finish.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
        unfinished = DataDir(path).restoring.exists()
        moved = DataDir(path).migrated.exists()
    except OSError as error:
        raise SettingsError(
            f"cannot write to the data directory {path}: {error.strerror or error}."
            " Make it writable, free some space, or choose another: --data-dir"
        ) from error
    if unfinished:
        raise SettingsError(
            f"a restore to the data directory {path} did not finish: delete what is in it, and"
            " restore again"
        )
    if moved:
        raise SettingsError(moved_away(path))


def moved_away(path: Path) -> str:
    """Why no server starts on a data directory whose content is elsewhere."""
    return (
        f"what {path} holds has moved to a log and a store that machines share (distributary"
        " migrate): a server here would deliver it again. Give nodes folders of their own"
    )


def make_private(path: Path) -> None:
    """Create *path*, or make it private: access to its sockets is not authenticated.

    Raises:
        SettingsError: It is open to others, and its mode cannot be changed.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    mode = path.stat().st_mode
    if mode & _OTHERS:
        try:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
        except OSError as error:
            raise SettingsError(
                f"{path} is open to other users ({stat.filemode(mode)}), who could control"
                f" the server through it. Close it: chmod 700 {path}"
            ) from error
