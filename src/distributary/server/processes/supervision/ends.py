"""Exit codes of child processes: which failures a restart may mend, and which end the server."""

import errno
from collections.abc import Callable

import structlog

from distributary.core.errors import (
    DistributaryError,
    LogDamagedError,
    LogFormatError,
    SettingsError,
)

EXIT_CANNOT_RUN = 78
"""Exit code: the process cannot run, and no restart would change that (``EX_CONFIG``)."""
EXIT_DISK_FULL = 73
"""Exit code: the disk was too full for the start (``EX_CANTCREAT``). It ends a server that is
starting; a running one retries, since deliveries continue and may free space."""

_LASTING = {
    errno.EACCES: "let the server's user read and write it",
    errno.EPERM: "let the server's user read and write it",
    errno.EROFS: "mount it for writing",
    errno.ENOTDIR: "a file stands where a folder should",
    errno.EISDIR: "a folder stands where a file should",
    errno.EADDRINUSE: "stop the program that uses it, or choose another",
}
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def exit_code(error: BaseException, otherwise: int) -> int:
    """Returns the exit code of a child whose start failed with *error*."""
    if isinstance(error, (LogFormatError, LogDamagedError, SettingsError)):
        return EXIT_CANNOT_RUN
    number = _errno(error)
    if number in _LASTING:
        return EXIT_CANNOT_RUN
    return EXIT_DISK_FULL if number in _FULL else otherwise


def ends_the_server(role: str, code: int, *, ran: bool) -> bool:
    """Whether the end of the child *role* with *code* ends the server.

    A pipeline that has delivered always restarts: what it needs may come back (a Spark cluster
    that is being restarted), and events are accepted meanwhile.

    Args:
        role: Role of the child.
        code: Its exit code.
        ran: Whether it has worked since the server's start.
    """
    if code == EXIT_CANNOT_RUN:
        return role != "pipeline" or not ran
    return code == EXIT_DISK_FULL and role == "ingest" and not ran


def _errno(error: BaseException | None) -> int:
    """The ``errno`` at the root of *error*; 0: none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        error = error.__cause__
    return 0


def starting(run: Callable[[], int], otherwise: int) -> int:
    """Call *run*, a child's whole work; returns its exit code. Logs a failure.

    Raises:
        OSError: A restart may mend it; the traceback shows where it happened.
    """
    try:
        return run()
    except (DistributaryError, OSError) as error:
        code = exit_code(error, otherwise)
        if isinstance(error, OSError) and code == otherwise:
            raise
        advice = _LASTING.get(_errno(error)) if isinstance(error, OSError) else None
        structlog.get_logger().error(
            "cannot-start", code=getattr(error, "code", None), reason=str(error), advice=advice
        )
        return code
