"""Which ends of a child no restart mends."""

import errno
import os

import pytest

from distributary.core.errors import (
    LogDamagedError,
    LogFormatError,
    LogLockedError,
    LogUnavailableError,
)
from distributary.server.processes import _start
from distributary.server.processes.supervision.ends import (
    EXIT_CANNOT_RUN,
    EXIT_DISK_FULL,
    ends_the_server,
    exit_code,
    starting,
)
from distributary.server.settings import Settings

OTHERWISE = 72


def _of(number: int) -> OSError:
    return OSError(number, os.strerror(number), "/data/log")


def _in_the_log(number: int) -> LogUnavailableError:
    error = LogUnavailableError("cannot open the log")
    error.__cause__ = _of(number)
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (_of(errno.EACCES), EXIT_CANNOT_RUN),
        (_of(errno.EROFS), EXIT_CANNOT_RUN),
        (_in_the_log(errno.EACCES), EXIT_CANNOT_RUN),
        (LogFormatError("newer"), EXIT_CANNOT_RUN),
        (LogDamagedError("FORMAT"), EXIT_CANNOT_RUN),
        (_of(errno.ENOSPC), EXIT_DISK_FULL),
        (_in_the_log(errno.EDQUOT), EXIT_DISK_FULL),
        (_in_the_log(errno.EIO), OTHERWISE),
        (_of(errno.EMFILE), OTHERWISE),
        (LogLockedError("the one before it has not ended yet"), OTHERWISE),
    ],
)
def test_what_no_restart_mends_has_a_code_of_its_own(error, code):
    """What a moment or another process may mend has not."""
    assert exit_code(error, OTHERWISE) == code


def test_a_child_that_cannot_start_says_so_in_one_line(capsys):
    """The reason and what to do; no trace."""

    def run() -> int:
        raise _of(errno.EACCES)

    assert starting(run, OTHERWISE) == EXIT_CANNOT_RUN
    said = capsys.readouterr()
    assert "cannot-start" in said.out + said.err
    assert "/data/log" in said.out + said.err


def test_what_may_be_a_bug_keeps_its_trace():
    """The line alone would not say where it was."""

    def run() -> int:
        raise _of(errno.EMFILE)

    with pytest.raises(OSError, match="open files"):
        starting(run, OTHERWISE)


@pytest.mark.parametrize(
    ("role", "code", "ran", "ends"),
    [
        ("ingest", EXIT_CANNOT_RUN, False, True),
        ("ingest", EXIT_CANNOT_RUN, True, True),
        ("ingest", EXIT_DISK_FULL, False, True),
        ("ingest", EXIT_DISK_FULL, True, False),
        ("ingest", OTHERWISE, False, False),
        ("pipeline", EXIT_CANNOT_RUN, False, True),
        ("pipeline", EXIT_CANNOT_RUN, True, False),
        ("pipeline", EXIT_DISK_FULL, False, False),
        ("pipeline", OTHERWISE, True, False),
    ],
)
def test_a_pipeline_that_has_delivered_does_not_end_the_server(role, code, ran, ends):
    """A Spark cluster may come back, and publishers go on; a log that cannot be used does not."""
    assert ends_the_server(role, code, ran=ran) is ends


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EMFILE, 1), (errno.ENOSPC, EXIT_DISK_FULL), (errno.EACCES, 78)]
)
def test_the_disk_and_the_system_never_end_a_server_as_wrong_settings_do(
    number, code, tmp_path, monkeypatch, capfd
):
    """A supervisor that leaves a server with wrong settings down starts this one again."""

    def fails(*_):
        raise _of(number)

    monkeypatch.setattr(_start, "shared_places", fails)
    monkeypatch.setattr(os, "umask", lambda _mask: 0)  # of the tests' process
    assert _start.serve(Settings(data_dir=tmp_path)) == code
    assert "/data/log" in capfd.readouterr().err
