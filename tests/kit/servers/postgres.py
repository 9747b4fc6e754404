"""PostgreSQL, as Debian ships it: a private cluster with ``fsync``, in a folder of its own."""

import contextlib
import getpass
import itertools
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from distributary.core.cluster import PostgresPlace
from kit.servers._base import PASSWORD, USER, BrokerServer, ServerNotHadError
from kit.servers._tls import Authority

ACCOUNTS: Final = ("postgres", "nobody")
"""Accounts to run it as where we are root, which it refuses; the first that exists."""

SETTINGS: Final = {
    "fsync": "on",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "jit": "off",
    "log_min_messages": "warning",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}
"""What makes it start quickly, and lets nothing be lost by ``kill -9``."""

_numbers: Final = itertools.count(1)


class Postgres(BrokerServer):
    """One PostgreSQL server on loopback; ``USER`` with ``PASSWORD`` owns everything.

    It listens on ``port`` alone, and takes TLS there. Its databases sort text as people do, by ICU,
    as servers out there may.

    Args:
        authority: Signs its certificate.
        settings: Further lines of ``postgresql.conf``.
    """

    name = "postgres"

    def __init__(self, authority: Authority | None = None, **settings: str) -> None:
        super().__init__(authority)
        self.tls_port = self.port
        self.settings = SETTINGS | settings
        self._home = self.folder / "data"

    def command(self) -> list[str]:
        """What to run; makes the cluster at the first start."""
        if not self._home.exists():
            self._make()
        lines = self.settings | {
            "port": str(self.port),
            "ssl": "on",
            "ssl_cert_file": str(self._own(self.certificate.certificate)),
            "ssl_key_file": str(self._own(self.certificate.key)),
        }
        text = "".join(f"{name} = '{value}'\n" for name, value in lines.items())
        (self._home / "postgresql.auto.conf").write_text(text)
        return [*_as_another(), str(_program("postgres")), "-D", str(self._home)]

    def _make(self) -> None:
        initdb = _program("initdb")
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.getuid() == 0:
            for path in (self.folder, secret):
                shutil.chown(path, _account())
        options = ("--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256")
        made = subprocess.run(
            [
                *(*_as_another(), str(initdb), "-D", str(self._home), *options),
                *(f"--username={USER}", f"--pwfile={secret}"),
                *("--locale-provider=icu", "--icu-locale=en"),
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
        )
        if made.returncode != 0:
            raise ServerNotHadError(f"initdb failed: {made.stderr[-500:]}")

    def _own(self, path: Path) -> Path:
        """A copy that the account of the server may read, and nobody else."""
        copy = self._home / path.name
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o600)
        if os.getuid() == 0:
            shutil.chown(copy, _account())
        return copy

    def ready(self) -> bool:
        """Whether it takes a login: after a crash it listens before it has recovered."""
        try:
            psycopg.connect(**self._login("postgres"), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def kill(self) -> None:
        """``kill -9`` of all its processes at once: each is in a group of its own."""
        if self._process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = psutil.Process(self._process.pid)
                os.kill(self._process.pid, signal.SIGSTOP)  # it starts no others meanwhile
                children = parent.children(recursive=True)
                for each in (parent, *children):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
                self._process.wait()
                psutil.wait_procs(children, timeout=10)
        super().kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = psutil.Process(self._process.pid)
                for each in (parent, *parent.children(recursive=True)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.send_signal(number)

    @contextmanager
    def connected(self, database: str = "postgres") -> Iterator[psycopg.Connection[Any]]:
        """A connection of the driver itself, each statement by itself."""
        with psycopg.connect(**self._login(database), autocommit=True) as connection:
            yield connection

    def new_database(self) -> PostgresPlace:
        """An empty database, used by nobody else. It stays: to drop one would sync all others."""
        name = f"test_{next(_numbers)}"
        with self.connected() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.place(name)

    def place(self, database: str) -> PostgresPlace:
        """Where *database* is."""
        url = f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"
        return PostgresPlace(url=url, password=PASSWORD)

    def _login(self, database: str) -> dict[str, Any]:
        where = {"host": "127.0.0.1", "port": self.port, "dbname": database}
        return where | {"user": USER, "password": PASSWORD}


class StandbyPostgres(Postgres):
    """A copy of another server, which follows it until it is promoted.

    Args:
        primary: The other one, which runs and has ``wal_level = replica``.
    """

    def __init__(self, primary: Postgres) -> None:
        super().__init__(primary.authority, **primary.settings)
        self._primary = primary
        where = make_conninfo(host="127.0.0.1", port=primary.port, user=USER, password=PASSWORD)
        self.settings["primary_conninfo"] = where.replace("\\", "\\\\").replace("'", "''")

    def _make(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self.folder, _account())
        made = subprocess.run(
            [
                *(*_as_another(), str(_program("pg_basebackup")), "-D", str(self._home)),
                *("-h", "127.0.0.1", "-p", str(self._primary.port), "-U", USER, "-w", "-R"),
                *("--checkpoint=fast", "--no-sync"),
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=os.environ | {"PGPASSWORD": PASSWORD},
        )
        if made.returncode != 0:
            raise ServerNotHadError(f"pg_basebackup failed: {made.stderr[-500:]}")

    def promote(self) -> None:
        """Have it take writes; returns when it does."""
        with self.connected() as connection:
            connection.execute("SELECT pg_promote(true, 60)")


def _program(name: str) -> Path:
    """The newest *name* on this machine.

    Raises:
        ServerNotHadError: There is none.
    """
    installed = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    found = sorted(installed, key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1]
    on_path = shutil.which(name)
    if on_path is None:
        raise ServerNotHadError(f"{name} is not here: sudo apt-get install postgresql")
    return Path(on_path)


def _account() -> str:
    for name in ACCOUNTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise ServerNotHadError(
        f"PostgreSQL refuses {getpass.getuser()}, and there is no other account"
    )


def _as_another() -> list[str]:
    """What runs a program as another account, where we are root."""
    if os.getuid() != 0:
        return []
    entry = pwd.getpwnam(_account())
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ServerNotHadError("setpriv is not here: sudo apt-get install util-linux")
    return [setpriv, f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
