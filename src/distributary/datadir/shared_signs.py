"""Signs of a change of the resource store, wherever it lies.

In PostgreSQL one thread of a process reads one row for all. Imports SQLAlchemy: a receiver does so
late.
"""

import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

import sqlalchemy as sa
import structlog

from distributary.core.database import NewestChange, is_postgres
from distributary.core.errors import DistributaryError
from distributary.datadir._write_signs import WriteSigns

LOOK_S: Final = 0.25
"""Interval at which the row is read: a change is seen as soon as by the heartbeat of an owner in
the embedded form, and a process costs the database four statements a second."""
_log: Final = structlog.get_logger(__name__)
_NEVER: Final = "never"
"""No token of a change."""
LOOK_FAILED_S: Final = 1.0
"""Interval while it cannot be read."""


def signs_of(url: sa.URL, *others: Path) -> Callable[[], bool]:
    """What tells whether the store at *url* may have been written since its last call.

    The first call counts as a write. Cheap, and never waits, so it may be called on an event loop.

    Args:
        url: ``sqlite_url`` or ``database_url``.
        others: Further files of SQLite. Beside a store in PostgreSQL they are tables: a write is
            always possible then, so look at an interval.
    """
    if not is_postgres(url):
        return WriteSigns(Path(url.database or ""), *others).look
    if others:
        return lambda: True
    return SharedSigns(url).look


class SharedSigns:
    """Tells whether the store at *url* may have been changed since the last look.

    A change is seen after ``LOOK_S`` and the time of a statement; while the database cannot be
    read, nothing is.
    """

    def __init__(self, url: sa.URL) -> None:
        self._poll = _poll_of(url)
        self._seen: str | None = _NEVER

    def look(self) -> bool:
        """Whether a change since the last call is possible. The first call counts as one."""
        now = self._poll.newest
        changed, self._seen = now != self._seen, now
        return changed


class _Poll:
    """Reads the token of the newest change in a thread, for as long as anybody looks.

    Attributes:
        newest: The token that was read last; None: none was.
    """

    def __init__(self, url: sa.URL) -> None:
        self.newest: str | None = None
        thread = threading.Thread(
            target=_read_on, args=(weakref.ref(self), url), name="store-signs", daemon=True
        )
        thread.start()


def _read_on(whose: "weakref.ref[_Poll]", url: sa.URL) -> None:
    source: NewestChange | None = None
    told = ""
    pause = threading.Event()
    while True:
        wait_s = LOOK_S
        newest: str | None = None
        try:
            source = source or NewestChange(url, "resource store")
            newest = source.read()
            told = ""
        except DistributaryError:  # whoever reads the store says so
            wait_s = LOOK_FAILED_S
        except Exception as error:  # noqa: BLE001 - without it no change is seen until a restart
            wait_s = LOOK_FAILED_S
            if repr(error) != told:  # once, however often it is tried
                told = repr(error)
                _log.exception("store-signs-failed", error=told)
        poll = whose()
        if poll is None:
            break
        if newest is not None:
            poll.newest = newest
        del poll
        pause.wait(wait_s)
    if source is not None:
        source.close()


_polls: Final[weakref.WeakValueDictionary[tuple[int, sa.URL], _Poll]] = (
    weakref.WeakValueDictionary()
)
_making: Final = threading.Lock()


def _poll_of(url: sa.URL) -> _Poll:
    key = os.getpid(), url
    with _making:
        poll = _polls.get(key)
        if poll is None:
            poll = _polls[key] = _Poll(url)
    return poll
