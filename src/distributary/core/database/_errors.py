"""Turns exceptions of the database library and its drivers into ``StoreError``."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from distributary.core.errors import StoreAwayError, StoreError

_PASSING: Final = ("08", "25006", "25P03", "40", "53", "55", "57", "58")
"""What SQLSTATE begins with where it may be over in a moment: the connection broke, a standby was
asked, a transaction rested for too long, transactions met, resources are short, a lock is held,
somebody stops the server, the system failed."""
_DATA_EXCEPTION: Final = "22"
"""Class of SQLSTATE whose messages quote the value that was wrong."""


def store_of(engine: Engine) -> str:
    """Name of the store that *engine* was opened for."""
    store: str = engine.get_execution_options()["store"]
    return store


@contextmanager
def guard(store: str) -> Iterator[None]:
    """Turn what the library and the drivers raise into a ``StoreError``."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        # Only the driver's message: statements and values stay out of it.
        if isinstance(error, sa.exc.TimeoutError):  # all connections of this process are in use
            raise StoreAwayError(f"the {store} failed: no connection was free in time") from None
        cause = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
        if cause is None or isinstance(cause, sqlite3.Error):
            raise StoreError(f"the {store} failed: {cause or type(error).__name__}") from error
        # PostgreSQL's details quote whole rows, and a traceback would show them.
        kind = StoreAwayError if _passes(error, cause) else StoreError
        raise kind(f"the {store} failed: {_told(cause)}") from None


def _passes(error: Exception, cause: BaseException) -> bool:
    """Whether what PostgreSQL or its client library says may be over in a moment."""
    state = getattr(getattr(cause, "diag", None), "sqlstate", None)
    if state is None:  # from the client: other errors than of a connection are of what was asked
        return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    return bool(state.startswith(_PASSING))


def _told(cause: BaseException) -> str:
    """What PostgreSQL or its client library says, without values."""
    diag = getattr(cause, "diag", None)
    state, primary = getattr(diag, "sqlstate", None), getattr(diag, "message_primary", None)
    if state is None:  # from the client: where it could not connect, or how a connection broke
        lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
        return "; ".join(lines) or type(cause).__name__
    if state.startswith(_DATA_EXCEPTION):
        return f"{type(cause).__name__} ({state})"
    return f"{primary} ({state})"
