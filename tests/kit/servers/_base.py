"""What the servers of all protocols share: ports, a process, its end and its beginning again."""

import abc
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kit.ports import free_port
from kit.servers._tls import Authority, Certificate

USER: Final = "tester"
PASSWORD: Final = "correct horse: battery/staple"  # noqa: S105 - of servers that live for a test
"""Who may log in at every server, with characters that a URI or a header could garble."""

START_S_MAX: Final = 60.0
"""Longest time until a server takes connections: those on a JVM take ten seconds, and the machine
may be busy."""

STOP_S_MAX: Final = 20.0


class ServerNotHadError(Exception):
    """A server cannot be had on this machine; the message says why and how to change that."""


class BrokerServer(abc.ABC):
    """One broker as a process of its own, in a folder of its own.

    As a context manager it starts, and is gone with its folder at the end. ``kill`` and ``start``
    leave its data in place.

    Attributes:
        name: For people and for the names of files.
        folder: What it keeps.
        authority: Who signed its certificate.
        certificate: Of its TLS listener; for ``localhost`` and 127.0.0.1.
        port: Plain listener; ``USER`` may log in with ``PASSWORD``, nobody without.
        tls_port: TLS listener, the same otherwise.
    """

    name: str

    def __init__(self, authority: Authority | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"distributary-{self.name}-"))
        self.authority = authority or Authority(self.folder / "tls")
        self.certificate: Certificate = self.authority.server(f"{self.name}-server")
        self.port = free_port()
        self.tls_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the server, which runs."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @abc.abstractmethod
    def command(self) -> list[str]:
        """What to run; writes whatever configuration it needs into ``folder``.

        Raises:
            ServerNotHadError: The program is not on this machine and cannot be fetched.
        """

    def environ(self) -> dict[str, str]:
        """Variables of its own."""
        return {}

    def ready(self) -> bool:
        """Whether it takes clients; by default: whether both ports take connections."""
        return all(_listens(port) for port in (self.port, self.tls_port))

    def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            ServerNotHadError: See ``command``.
            RuntimeError: It ended at once or did not become ready; with the end of its output.
        """
        assert self._process is None, f"{self.name} runs already"
        command = self.command()
        with (self.folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environ()},
                cwd=self.folder,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + START_S_MAX
        while not self.ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline_s:
                state = "did not become ready" if code is None else f"ended with {code}"
                text = f"{self.name} {state}: {self.output()[-2000:]}"
                self.kill()
                raise RuntimeError(text)
            time.sleep(0.05)

    def output(self) -> str:
        """What it printed so far."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "output.log").read_text(errors="replace")
        return ""

    def kill(self) -> None:
        """``kill -9`` of it and everything it started."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Have it fall silent with its connections open (SIGSTOP), before this returns."""
        self._signal(signal.SIGSTOP)
        if self._process is not None:  # else its threads go on for a moment
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Undo ``pause``."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for each in (number, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, each)
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                continue
            break
        # Its children may outlive it for a moment: who starts it again must not meet them.
        deadline_s = time.monotonic() + STOP_S_MAX
        while any(map(_listens, (self.port, self.tls_port))) and time.monotonic() < deadline_s:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.02)

    def __enter__(self) -> Self:
        """Start it."""
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5):
            return True
    except OSError:
        return False
