"""Supervises child processes: restart with backoff, die with the parent (``PDEATHSIG``)."""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO

import msgspec
import structlog

from distributary.core.environment import CLIENT_VARIABLES, OWN_VARIABLES
from distributary.datadir import PARENT

RESTART_WAIT_S = (0.05, 0.2, 1.0, 3.0, 10.0)
"""Restart backoff of a child: short at first, since publishers wait meanwhile; longer while it
keeps ending."""
STEADY_S = 30.0
"""A child that lived this long resets its backoff."""
READ_S = 1.0
"""Longest wait for the rest of what an ended child wrote: a process that it started may hold the
pipe open, and is ended then."""
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4


def keep_memory_private() -> None:
    """Disable core files, and reading of this process's memory by others of its user.

    Memory holds secrets and events, the environment keys. Children (the JVM, Spark's workers)
    inherit the core file limit alone; the memory protection is for this process alone (Linux).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, in whatever way (Linux).

    Elsewhere children poll the process id of their parent.

    Args:
        parent: Process id of the parent, passed on by the parent.
    """
    keep_memory_private()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def program(module: str, start: msgspec.Struct) -> list[str]:
    """Program and arguments of a child that runs *module* with *start* as its argument."""
    return [sys.executable, "-m", module, msgspec.json.encode(start).decode()]


class Child:
    """One supervised child process.

    Args:
        role: Name of the process, for people.
        arguments: Program and arguments.
        line: Called with each line of its standard error.
        environ: Variables added to its environment.
        withheld: Variables of this process that it does not inherit.
        pass_fds: Descriptors that it inherits.
        ended: Called in the supervising thread with the exit code after each end; False prevents
            the restart.
        worked: Called before ``ended`` with process id and exit code: True where something else
            ended a healthy process, which then restarts at once, however often that happens.
    """

    def __init__(
        self,
        role: str,
        arguments: Sequence[str],
        *,
        line: Callable[[str], None],
        environ: Mapping[str, str] | None = None,
        withheld: Collection[str] = (),
        pass_fds: Sequence[int] = (),
        ended: Callable[[int], bool] = lambda _code: True,
        worked: Callable[[int, int], bool] = lambda _pid, _code: False,
    ) -> None:
        self.role = role
        self._arguments = list(arguments)
        self._line = line
        left_out = {*withheld, *CLIENT_VARIABLES, *OWN_VARIABLES}
        ours = {name: text for name, text in os.environ.items() if name not in left_out}
        self._environ = {**ours, **(environ or {}), PARENT: str(os.getpid())}
        self._pass_fds = tuple(pass_fds)
        self._ended = ended
        self._worked = worked
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._log = structlog.get_logger()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"watch-{role}", daemon=True)
        self.restarts = 0
        self.lines_lost = 0
        """Lines that ``line`` failed to take."""

    def start(self) -> None:
        """Start the process and the thread that supervises it."""
        self._thread.start()
        self._started.wait()

    @property
    def pid(self) -> int | None:
        """Process id; None while the process is not running."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def _watch(self) -> None:
        # Children end with the thread that started them (PR_SET_PDEATHSIG counts threads), so
        # this thread starts them and lives as long as the server.
        failures = 0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            code = self._run()
            process = self._process
            well = code is not None and process is not None and self._worked(process.pid, code)
            if self._stopping.is_set() or (code is not None and not self._ended(code)):
                return
            well = well or time.monotonic() - began_s > STEADY_S
            failures = 0 if well else failures + 1
            wait_s = RESTART_WAIT_S[min(failures, len(RESTART_WAIT_S)) - 1] if failures else 0.05
            self.restarts += 1
            self._log.error("process-ended", process=self.role, code=code, restart_in_s=wait_s)
            self._stopping.wait(wait_s)

    def _run(self) -> int | None:
        """Run the process once; returns its exit code, None where it could not be started."""
        try:
            process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environ,
                pass_fds=self._pass_fds,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            # Memory or descriptors are short for now: retried like a child that ended.
            self._log.error("process-not-started", process=self.role, error=str(error))
            self._started.set()
            return None
        self._process = process
        self._started.set()
        if self._stopping.is_set():  # ``stop`` may have looked before this process existed.
            process.terminate()
        assert process.stdout is not None
        threading.Thread(target=self._clear, args=(process,), daemon=True).start()
        with process.stdout:
            self._read(process.stdout)
        return process.wait()

    def _clear(self, process: "subprocess.Popen[str]") -> None:
        """Kill the process group of a child that was killed.

        The driver's JVM notices late, and keeps open the pipe that we read to its end: the next
        child would wait for it.
        """
        if process.wait() < 0 and not self._stopping.is_set():
            with contextlib.suppress(ProcessLookupError):  # the group is empty
                os.killpg(process.pid, signal.SIGKILL)

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            try:
                self._line(line)
            # Children end with this thread (see ``_watch``): a line that cannot be passed on must
            # not end the process that wrote it.
            except Exception:  # noqa: BLE001 - see above
                self.lines_lost += 1

    def kill(self, pid: int) -> None:
        """Kill the process *pid* and its group, if it is the current one."""
        if pid == self.pid:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.killpg(pid, signal.SIGKILL)

    def stop(self, timeout_s: float) -> int | None:
        """Terminate, wait, then kill; returns the exit code, None where it had to be killed."""
        self._stopping.set()
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):  # It ended just now.
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        self._thread.join(READ_S)
        if self._thread.is_alive():
            with contextlib.suppress(ProcessLookupError):  # nobody is left in its group
                os.killpg(process.pid, signal.SIGKILL)
            self._thread.join(READ_S)
        return code
