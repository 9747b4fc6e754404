"""Ends of a child process that no restart mends, and how a child says so.

Called by the children's entries, and by ``_serve``, which ends with them.
"""

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
"""Exit code: there was no space for what a start needs (``EX_CANTCREAT``). It ends a server that
is starting; one that has run tries again, since deliveries go on and space may come back."""

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
    """The exit code of a child that *error* ended at its start."""
    if isinstance(error, (LogFormatError, LogDamagedError, SettingsError)):
        return EXIT_CANNOT_RUN
    number = _errno(error)
    if number in _LASTING:
        return EXIT_CANNOT_RUN
    return EXIT_DISK_FULL if number in _FULL else otherwise


def ends_the_server(role: str, code: int, *, ran: bool) -> bool:
    """Whether the end of the child *role* with *code* ends the server.

    A pipeline that has delivered is started again whatever it says: what it needs may come back (a
    Spark cluster that is being restarted), and events are taken meanwhile.

    Args:
        role: Of the child.
        code: Its exit code.
        ran: It has worked since the server's start.
    """
    if code == EXIT_CANNOT_RUN:
        return role != "pipeline" or not ran
    return code == EXIT_DISK_FULL and role == "ingest" and not ran


def _errno(error: BaseException | None) -> int:
    """The system's number of the error at the root of *error*."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        error = error.__cause__
    return 0


def starting(run: Callable[[], int], otherwise: int) -> int:
    """The exit code of *run*, the whole of a child; its failure becomes a line and a code.

    Raises:
        OSError: Another start may mend it; the trace tells where it was.
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
