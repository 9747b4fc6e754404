"""Which node leads: the one that holds the lease ``control``.

Pure but for the lease that it is given, and asked a few times a second by whoever starts and ends
the control part.

A lease that has run out and that nobody has taken is still its holder's: once the database is back,
it renews it within half a second, and goes on with what it has. So the others, who could not ask
the database either, wait a moment before they take one.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Protocol

from distributary.core.errors import DistributaryError, LogLockedError

CONTROL: Final = "control"
"""Name of the lease."""

TAKE_S: Final = 1.0
"""Longest interval at which a node that does not lead looks at the lease: one small query a second
and node. It looks when the lease runs out, too: with one of 6 s the next node leads 4 to 6 s after
the leader was lost."""

AGAIN_S: Final = 0.1
"""Shortest interval of looks, at the end of a lease."""

PATIENCE_S: Final = 2.0
"""How long a node that could not ask the database leaves a lease that has run out to its holder,
who tries twice a second and needs a connection first."""

LATE_S: Final = 3.0
"""A lease with less left was not renewed in time: it has four seconds or more otherwise."""

LATELY_S: Final = 60.0
"""How long a leader that was late counts as one that may be lost. On machines so busy that it is
late again and again, what is started ahead each time would make them busier."""

LOOK_S: Final = 0.1
"""Interval of looks at the lease while what it permits is being stopped."""


class Mandate(Protocol):
    """The lease, held: the right to lead.

    Attributes:
        generation: Higher than that of every earlier leader.
    """

    generation: int

    @property
    def until_s(self) -> float:
        """When the holder must have ended, by ``boot_s``, unless it is renewed."""

    @property
    def lapsing(self) -> bool:
        """Whether the holder must end what it does now; cheap, asks nobody.

        It may go on once a renewal has come through.
        """

    @property
    def lost(self) -> bool:
        """Whether another node has taken it: this one is not renewed any more. Asks nobody."""

    def release(self) -> None:
        """Let the next one lead; may block."""


class Election:
    """Whether this node leads.

    ``due``, ``resign`` and ``close`` never block and belong to the event loop; ``take``, and what
    ``resign`` and ``close`` return, may block, and belong in a thread.

    Args:
        take: Takes the lease, without waiting for its holder.
        left_s: Returns how long the lease holds, seconds; 0 or less: nobody holds it.
        now_s: A clock that no one sets.
    """

    def __init__(
        self, take: Callable[[], Mandate], left_s: Callable[[], float], now_s: Callable[[], float]
    ) -> None:
        self._take = take
        self._left_s = left_s
        self._now_s = now_s
        self._due_s = float("-inf")
        self._steady_s: float | None = float("-inf")
        self._mandate: Mandate | None = None
        self._gate = threading.Lock()
        self._closed = False
        self._late_s = float("-inf")
        self.followed = False
        """Whether another node led at the last look."""

    @property
    def mandate(self) -> Mandate | None:
        """What this node leads by; None: it does not lead."""
        return self._mandate

    @property
    def late(self) -> bool:
        """Whether the leader had not renewed its lease in time, at a look in ``LATELY_S``."""
        return self._now_s() - self._late_s < LATELY_S

    @property
    def due(self) -> bool:
        """Whether it is time to ``take``."""
        return self._mandate is None and self._now_s() >= self._due_s

    @property
    def may_act(self) -> bool:
        """Whether this node leads, and its control part may run now."""
        return self._mandate is not None and not self._mandate.lapsing

    @property
    def over(self) -> bool:
        """Whether another node leads in place of this one."""
        return self._mandate is not None and self._mandate.lost

    def take(self) -> Mandate | None:
        """Look at the lease, and lead if it is free; returns the mandate on success."""
        began_s = self._now_s()
        self._due_s = began_s + TAKE_S
        self.followed = False
        try:
            left_s = self._left_s()
            if self._steady_s is None:
                self._steady_s = self._now_s()
            steady = self._now_s() - self._steady_s >= PATIENCE_S
            if steady and 0 < left_s < LATE_S:
                self._late_s = self._now_s()
            self.followed = left_s > 0
            if self.followed:
                self._due_s = began_s + min(TAKE_S, max(left_s, AGAIN_S))
            elif not steady:
                self._due_s = began_s + AGAIN_S
            else:
                self._hold(self._take())
        except LogLockedError:
            pass  # another node took it meanwhile
        except DistributaryError:
            self._steady_s = None
        return self._mandate

    def _hold(self, mandate: Mandate) -> None:
        with self._gate:
            closed = self._closed
            if not closed:
                self._mandate = mandate
        if closed:
            mandate.release()

    def close(self) -> Callable[[], None]:
        """Lead never again, else as ``resign``.

        A ``take`` that goes on in a thread gives back what it gets: nobody ends it with its caller.
        """
        with self._gate:
            self._closed = True
        return self.resign()

    def resign(self, pause_s: float = TAKE_S) -> Callable[[], None]:
        """Lead no more, and do not look for *pause_s*; returns what lets the next one lead at once.

        Call that when the control part has ended: it may block.
        """
        mandate, self._mandate = self._mandate, None
        self._due_s = self._now_s() + pause_s  # others first
        return (lambda: None) if mandate is None else mandate.release


async def stop_led(
    stop: Callable[[], object], election: Election, tell: Callable[[float], None]
) -> None:
    """Stop what runs by the lease; it may go on meanwhile for as long as the lease is renewed.

    Args:
        stop: Stops it, in a thread; returns once it has ended.
        election: Of the node, which has not resigned.
        tell: Tells it until when it may go on, by the holder's clock.
    """
    stopping = asyncio.create_task(asyncio.to_thread(stop))
    while not stopping.done():
        if election.mandate is not None:
            tell(election.mandate.until_s)
        await asyncio.wait((stopping,), timeout=LOOK_S)
    await stopping
