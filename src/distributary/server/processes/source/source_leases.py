"""Runs each source at one node at a time: by leases in the store that nodes share.

Every node runs a sources process, and each source has a lease. A process that runs sources holds
one more, by which the others know that it does. A node stops a source in the last second of its
lease, where it has not been renewed; a thread ends the process where the loop does not get there.
A node at which a source cannot be started leaves it to the others for a while, and does not say
meanwhile that it runs sources: they take what is free, and give it none.
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import sqlalchemy as sa
import structlog

from distributary.core import database
from distributary.core.clock import boot_s
from distributary.core.errors import DistributaryError, FencedError, LogLockedError, StoreError
from distributary.core.periodic import keep_turning
from distributary.core.postgres_lease import LeaseRow, PostgresLease, read_leases
from distributary.server.nodes import Leader
from distributary.sources import Step, next_step

SOURCE: Final = "source/"
RUNNER: Final = "sources-at/"
"""What names of leases begin with: of sources, and of nodes that run some."""

TURN_S: Final = 1.0
"""Interval of looks at the leases: one statement a second and node."""

LOOK_S: Final = 0.1
"""Interval of looks at the clock: a lease lapses one second before it ends."""

LAPSED_DRAIN_S: Final = 0.3
"""Longest wait for requests under way when a lease lapses: what is not settled by then is read
again by the next node."""

FAILED_S: Final = 5.0
"""First pause of a source that could not be started at a node: others take it within a turn or two.
Each further failure doubles it."""

FAILED_S_MAX: Final = 300.0
"""Longest such pause. After it, nodes with more sources give that node some again; what it still
cannot start is read by nobody for a second or two."""

EXIT_LAPSED: Final = 79
"""Exit code: a lease has run out, and the event loop had not stopped its source."""


class HeldLease(Protocol):
    """A lease of a source, held; see ``PostgresLease``."""

    @property
    def lapsing(self) -> bool:
        """Whether what it permits must end now."""

    def check(self) -> None:
        """Raises ``FencedError`` once it has run out."""

    def release(self) -> None:
        """Let the next one have it; may block."""


class LeaseTable(Protocol):
    """The leases of sources, which nodes share. Every call may block."""

    def read(self) -> Sequence[LeaseRow]:
        """All whose names begin with ``SOURCE`` or ``RUNNER``.

        Raises:
            StoreError: They cannot be read now.
        """

    def take(self, name: str) -> HeldLease:
        """Take the lease *name*, without waiting for its holder.

        Raises:
            LogLockedError: Another node holds it.
            StoreError: The database cannot be asked now.
        """


class PostgresSourceLeases:
    """``LeaseTable`` in PostgreSQL.

    Args:
        url: ``database_url``.
        node: Name of this node.
    """

    def __init__(self, url: sa.URL, node: str) -> None:
        self._url = url
        self._reader = database.open_reader(url, "leases")
        self._holder = Leader(name=node, generation=1).holder()

    def read(self) -> Sequence[LeaseRow]:
        """See ``LeaseTable.read``."""
        return [*read_leases(self._reader, SOURCE), *read_leases(self._reader, RUNNER)]

    def take(self, name: str) -> HeldLease:
        """See ``LeaseTable.take``."""
        return PostgresLease(self._url, name, holder=self._holder)


class Runs(Protocol):
    """A source that runs; see ``sources.Source``."""

    def start(self) -> None:
        """Begin to read."""

    def stop(self, drain_s: float) -> Awaitable[None]:
        """End: settle what is under way, for *drain_s* at most, and disconnect."""


class SourceLeases:
    """Runs sources while this node holds their leases. For one event loop.

    Args:
        table: The leases.
        node: Name of this node.
        names: Of all sources.
        make: Returns a source by its name, not started.
        ended: Called with the name of a source that has been stopped.
        fenced: Called in a thread where a source runs beyond its lease; ends the process.
        now_s: A clock that no one sets.
    """

    def __init__(
        self,
        table: LeaseTable,
        node: str,
        names: Sequence[str],
        make: Callable[[str], Runs],
        *,
        ended: Callable[[str], None],
        fenced: Callable[[], None] = lambda: os._exit(EXIT_LAPSED),
        now_s: Callable[[], float] = boot_s,
    ) -> None:
        self._table = table
        self._node = node
        self._names = tuple(names)
        self._make = make
        self._ended = ended
        self._fenced = fenced
        self._now_s = now_s
        # Source -> when it is tried here again, and the pause before that.
        self._failed: dict[str, tuple[float, float]] = {}
        self._runner: HeldLease | None = None
        self._held: dict[str, tuple[HeldLease, Runs]] = {}
        self._turning = asyncio.Lock()
        self._log: Any = structlog.get_logger()
        self._trouble = False
        self._unseen = False
        self._over = threading.Event()
        self._pause = threading.Event()

    @property
    def running(self) -> list[str]:
        """Names of the sources that run here."""
        return list(self._held)

    async def follow(self) -> None:
        """Take, run and give sources; never returns."""
        threading.Thread(target=self._guard, name="source-leases", daemon=True).start()
        await asyncio.gather(
            keep_turning(self._watch, "lapsing-sources"),
            keep_turning(self._turn_again, "source-leases"),
        )

    async def _turn_again(self) -> float:
        try:
            await self.turn()
        except DistributaryError as error:
            if not self._trouble:
                self._log.warning("sources-alone", reason=str(error))
            self._trouble = True
        else:
            self._trouble = False
        return TURN_S

    async def _watch(self) -> float:
        await self.drop_lapsing()
        return LOOK_S

    def _guard(self) -> None:
        """End the process where a source runs beyond its lease: the loop hangs, or has slept."""
        while True:
            self._pause.wait(LOOK_S)
            for lease, _ in tuple(self._held.values()):
                try:
                    lease.check()
                except FencedError:
                    self._fenced()

    async def turn(self) -> None:
        """Look at the leases once, and take or give what is due.

        Raises:
            StoreError: The database cannot be asked now.
        """
        async with self._turning:
            if self._over.is_set():
                return
            left = self._left_to_others()
            if left or self._runner is None or self._runner.lapsing:
                await self._run_for_others_to_see(seen=not left)
            rows = [row for row in await asyncio.to_thread(self._table.read) if row.left_s > 0]
            step = self._step([name for name in self._names if name not in left], rows)
            for name in step.give:
                await self._end(name, LAPSED_DRAIN_S)
                self._log.info("source-given", source=name)
            for name in step.take:
                if not self._over.is_set():
                    await self._take(name)

    def _left_to_others(self) -> set[str]:
        """Sources that could not be started here a while ago."""
        now_s = self._now_s()
        return {name for name, (again_s, _) in self._failed.items() if now_s < again_s}

    async def _run_for_others_to_see(self, *, seen: bool) -> None:
        former, self._runner = self._runner, None
        if former is not None:
            await asyncio.to_thread(former.release)
        if not seen:
            return
        try:
            self._runner = await asyncio.to_thread(self._table.take, RUNNER + self._node)
        except LogLockedError:
            return  # a process before this one: it runs out
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - the sources that are read here do not need it
            if not self._unseen:
                self._log.warning("sources-unseen", why=f"{type(error).__name__}: {error}")
            self._unseen = True
            return
        self._unseen = False

    def _step(self, names: Sequence[str], rows: Sequence[LeaseRow]) -> Step:
        held = {
            row.name.removeprefix(SOURCE): Leader.of_holder(row.holder, row.generation).name
            for row in rows
            if row.name.startswith(SOURCE)
        }
        runners = {row.name.removeprefix(RUNNER) for row in rows if row.name.startswith(RUNNER)}
        counts = Counter(held.values())
        # What a process before this one held is nobody's who runs: it has to run out.
        own = dict.fromkeys(self._held, self._node)
        others = {name: node for name, node in held.items() if name not in own}
        others = {name: "" if node == self._node else node for name, node in others.items()}
        numbers = {each: counts[each] for each in runners} | {self._node: len(own)}
        return next_step(names, others | own, numbers, self._node)

    async def _take(self, name: str) -> None:
        try:
            lease = await asyncio.to_thread(self._table.take, SOURCE + name)
        except LogLockedError:
            return  # another node was first
        except StoreError:
            raise
        # No thread for the lease, for example.
        except Exception as error:  # noqa: BLE001 - the sources behind it do not wait for this one
            self._leave(name, error)
            return
        try:
            source = self._make(name)
            source.start()
        except Exception as error:  # noqa: BLE001 - the lease renews itself, for nobody
            self._ended(name)
            await asyncio.to_thread(lease.release)
            self._leave(name, error)
            return
        self._held[name] = lease, source
        self._failed.pop(name, None)
        self._log.info("source-taken", source=name)

    def _leave(self, name: str, error: Exception) -> None:
        """Leave the source *name*, which cannot be started here, to other nodes for a while."""
        _, before_s = self._failed.get(name, (0.0, FAILED_S / 2))
        pause_s = min(2 * before_s, FAILED_S_MAX)
        self._failed[name] = self._now_s() + pause_s, pause_s
        why = f"{type(error).__name__}: {error}"
        self._log.error(
            "source-cannot-start", source=name, why=why, again_in_s=pause_s, exc_info=error
        )

    async def drop_lapsing(self) -> None:
        """Stop the sources whose leases are about to run out."""
        for name, (lease, _) in tuple(self._held.items()):
            if lease.lapsing:
                self._log.warning("source-lapsed", source=name)
                await self._end(name, LAPSED_DRAIN_S)

    async def _end(self, name: str, drain_s: float) -> None:
        """Stop the source *name*, then let another node have it."""
        found = self._held.get(name)
        if found is None:
            return
        lease, source = found
        await source.stop(drain_s)
        if self._held.pop(name, None) is not None:
            self._ended(name)
            await asyncio.to_thread(lease.release)

    async def stop(self, drain_s: float) -> None:
        """Stop all sources, and let other nodes have them; takes none any more."""
        self._over.set()
        async with self._turning:  # a lease that is just being taken is released below
            await asyncio.gather(*(self._end(name, drain_s) for name in tuple(self._held)))
            if self._runner is not None:
                await asyncio.to_thread(self._runner.release)
