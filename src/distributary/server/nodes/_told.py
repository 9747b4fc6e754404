"""How the leading node knows that all others serve what it has changed."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from distributary.core.errors import DistributaryError, LogUnavailableError
from distributary.core.postgres_nodes import LIVE_S
from distributary.server.nodes._rows import NodeRow, Nodes, live

LOOK_S: Final = 0.1
"""Interval of looks at the table of nodes while somebody waits: nodes look twice a second."""

WAIT_S_MAX: Final = LIVE_S + 2.0
"""Longest wait for all nodes: one that gives no sign of life is dead before."""

STOP_S: Final = 2.0
"""Longest wait for the thread at the stop: a question to the database that is under way."""


class Told:
    """Tells all nodes who may do what, and waits for what they serve. ``publish`` never blocks.

    Args:
        nodes: The table of nodes; for this object's thread and ``served``, which takes turns.
        addresses: Returns the number of the newest addresses; asks the database.
        log: Takes lines for people.

    Attributes:
        told_s_max: See ``AccessBoard``.
        look_s: See ``AccessBoard``.
    """

    told_s_max = WAIT_S_MAX
    look_s = LOOK_S

    def __init__(self, nodes: Nodes, addresses: Callable[[], int], log: Any) -> None:
        self._nodes = nodes
        self._addresses = addresses
        self._log = log
        self._turn = threading.Lock()
        self._pending: tuple[int, bytes] | None = None
        self._waited = 0
        self._served: list[int] = [0]
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="told", daemon=True)
        self._thread.start()

    def newest(self) -> int:
        """See ``AccessBoard.newest``: a former leader may have told it, by another clock."""
        with self._turn:
            return self._nodes.access_number()

    def publish(self, number: int, snapshot: bytes) -> None:
        """See ``AccessBoard.publish``; goes on trying until a newer one takes its place."""
        self._pending = number, snapshot
        self._waited = number
        self._wake.set()

    def numbers(self) -> list[int]:
        """See ``AccessBoard.numbers``; as the last look found them."""
        return self._served

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(LOOK_S if min(self._served) < self._waited else None)
            self._wake.clear()
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - said below: the thread goes on
                if isinstance(error, DistributaryError):
                    self._log.warning("access-not-told", reason=str(error))
                else:  # without this thread no key would ever be revoked again, in silence
                    self._log.exception("bug", where="told")
                self._served = [0]
                self._wake.wait(LOOK_S)

    def _look(self) -> None:
        with self._turn:
            pending = self._pending
            if pending is not None:
                self._nodes.publish_access(*pending)
                if self._pending is pending:
                    self._pending = None
            rows = self._nodes.rows()
        self._served = [row.sign.access for row in live(rows)] or [self._waited]

    def _rows(self) -> tuple[NodeRow, ...]:
        with self._turn:
            return self._nodes.rows()

    async def look_again(self) -> None:
        """Return once every living node serves the addresses that the store has now.

        Raises:
            LogUnavailableError: They could not be asked, or one serves older ones still.
        """
        try:
            newest = await asyncio.to_thread(self._addresses)
            async with asyncio.timeout(WAIT_S_MAX):
                while True:
                    rows = await asyncio.to_thread(self._rows)
                    late = [row for row in live(rows) if row.sign.addresses < newest]
                    if not late:
                        return
                    await asyncio.sleep(LOOK_S)
        except TimeoutError as error:
            raise LogUnavailableError("a node does not take new addresses") from error
        except DistributaryError as error:
            raise LogUnavailableError(str(error)) from error

    def close(self) -> None:
        """End the thread."""
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_S)
        self._nodes.close()
