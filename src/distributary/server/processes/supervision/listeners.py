"""The sockets that a server listens on."""

import errno
import os
import socket
from pathlib import Path

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.server.processes.base import ground
from distributary.server.processes.base.where import base, scheme_of
from distributary.server.processes.supervision.probe import listen_for_health
from distributary.server.settings import Settings


class Listeners:
    """Every listening socket, opened before anything is started.

    Args:
        settings: Hosts and ports.
        paths: Paths of the data directory.

    Raises:
        SettingsError: A socket cannot be opened; none is left open.

    Attributes:
        http: Of the receivers.
        amqp: Of the Subscriptions API over AMQP; None: not configured.
        health: Of health checks; None: not configured.
        own: Unix socket by which this server reaches its own receivers.
        unix: Unix socket for proxies; None: not configured.
        stands_in: *http*, where this process responds while no receiver does; else None.
        address: Address and port of *http*.
    """

    def __init__(self, settings: Settings, paths: DataDir) -> None:
        self._all: list[socket.socket] = []
        self._settings = settings
        self._removes = True
        try:
            self.http = ground.listen(settings.host, settings.port)
            self._all.append(self.http)
            self.amqp = None
            if settings.log is None:  # else where the node leads
                self.amqp = ground.listen_for_amqp(settings.host, settings.amqp_port)
            self._all += [] if self.amqp is None else [self.amqp]
            self.health = listen_for_health(settings.host, settings.health_port)
            self._all += [] if self.health is None else [self.health]
            self.own = _listen_unix(paths.own_socket, 0o600, _OWN_REMEDY)
            self._all.append(self.own)
            self.unix = None
            if settings.listen_unix is not None:
                self.unix = _listen_unix(settings.listen_unix.absolute(), 0o666, _UNIX_REMEDY)
                self._all.append(self.unix)
        except BaseException:
            self.close()
            raise
        self.address: tuple[str, int] = self.http.getsockname()[:2]
        self.stands_in: socket.socket | None = self.http

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Address and port of each TCP socket; the first is the receivers'."""
        tcp = (self.http, self.amqp, self.health)
        return tuple(each.getsockname()[:2] for each in tcp if each is not None)

    @property
    def url(self) -> str:
        """URL of the receivers."""
        return base(*self.address, scheme_of(self._settings))

    @property
    def counts_calls(self) -> bool:
        """Whether calls of namespaces reach the control process by no receiver."""
        return self.amqp is not None

    @property
    def amqp_url(self) -> str | None:
        """URL of the AMQP port; None without one."""
        return self._url_of(self.amqp, "amqp", "amqps")

    @property
    def health_url(self) -> str | None:
        """URL of the health port; None without one."""
        return self._url_of(self.health, "http", "https")

    def _url_of(self, listener: socket.socket | None, plain: str, secure: str) -> str | None:
        if listener is None:
            return None
        host, port = listener.getsockname()[:2]
        return base(host, port, secure if scheme_of(self._settings) == "https" else plain)

    def close(self) -> None:
        """Close all of them; removes the files of Unix sockets. Idempotent."""
        while self._all:
            listener = self._all.pop()
            if listener.family == socket.AF_UNIX and self._removes:
                Path(listener.getsockname()).unlink(missing_ok=True)
            listener.close()


class LedListeners(Listeners):
    """Those of the control part of a node: its node process listens, but for AMQP.

    Args:
        settings: Hosts and ports.
        http: Socket of the receivers, for its address.
        own: Socket by which this server reaches its own receivers, likewise.

    Raises:
        SettingsError: The AMQP port cannot be opened.
    """

    def __init__(self, settings: Settings, http: socket.socket, own: socket.socket) -> None:
        self._settings = settings
        self._removes = False
        self.http, self.own = http, own
        self.unix = self.health = None
        self.amqp = ground.listen_for_amqp(settings.host, settings.amqp_port)
        self._all = [each for each in (http, own, self.amqp) if each is not None]
        self.address = http.getsockname()[:2]
        self.stands_in = None


_OWN_REMEDY = "Is another server running there? Choose another folder: --data-dir"
_UNIX_REMEDY = "Choose a short path in a folder that the server may write to: --listen-unix"


def _listen_unix(path: Path, mode: int, remedy: str) -> socket.socket:
    """Returns a listening Unix socket.

    Args:
        path: Of the socket; one that a killed server left is replaced.
        mode: Who may connect, as far as the folder lets them.
        remedy: What to do where it cannot listen.

    Raises:
        SettingsError: The path is unusable, or somebody listens there.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_left_over(path)
        listener.bind(os.fspath(path))
        path.chmod(mode)
        listener.listen(ground.BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {path}: {error.strerror or error}. {remedy}"
        ) from error
    listener.setblocking(False)
    return listener


def _remove_left_over(path: Path) -> None:
    """Remove the socket at *path* if nobody listens there; raises ``OSError`` if somebody does."""
    if not path.is_socket():
        return  # whatever else is there, ``bind`` refuses
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
