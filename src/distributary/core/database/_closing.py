"""A pool of connections that leaves none open when it is disposed of."""

import threading
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.pool import ConnectionPoolEntry


class ClosingPool(sa.QueuePool):
    """Closes a connection that is in use when the pool is disposed of as soon as it comes back.

    SQLAlchemy's own would keep it open until the garbage collector finds the pool: a thread whose
    caller was cancelled may use it longer than its store is open. The pool that takes the place of
    one that was disposed of keeps nothing either, for a thread that comes late.

    Attributes:
        keeps: Whether what comes back is kept for the next one.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.keeps = True
        # Reentrant: the garbage collector may return a connection while the lock is held.
        self._turn = threading.RLock()

    def dispose(self) -> None:
        """Close what rests now, and the others when they come back."""
        with self._turn:
            self.keeps = False
            super().dispose()

    def recreate(self) -> Self:
        """Return a pool like this one that keeps nothing."""
        made = super().recreate()
        assert isinstance(made, type(self))
        made.keeps = False
        return made

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        with self._turn:
            if not self.keeps:
                record.close()  # the entry connects anew if it is used again
            super()._do_return_conn(record)


def keep_open(engine: Engine) -> None:
    """Have the pool of *engine*, which may have been disposed of, keep what comes back."""
    assert isinstance(engine.pool, ClosingPool)
    engine.pool.keeps = True
