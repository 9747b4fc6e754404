"""Chunks of the log in, records out in slices: the loop gets its turn between them."""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from distributary.core.deliver import Soon, Timers
from distributary.core.errors import DistributaryError
from distributary.core.flow import Logged
from distributary.core.log import iter_frames


class Taker(Protocol):
    """Who takes the records: the owner."""

    def offer_held(self) -> bool:
        """Hand out what is held back; False where that needs a moment's patience."""

    def take(self, logged: Logged) -> bool:
        """Take the next record; returns False to yield to the event loop."""

    def take_rest(self) -> bool:
        """A slice begins: go on with the record that was taken last; False where there is more."""

    def pass_hole(self, to_offset: int) -> None:
        """There is no record before *to_offset*."""

    def all_taken(self) -> None:
        """There is nothing more for now."""

    def fail(self, error: DistributaryError) -> None:
        """The record cannot be taken, and none behind it may be."""


class Intake:
    """What was fed and is not yet taken.

    Args:
        taker: Takes it.
        timers: For turns and pauses.
        pause_s: Length of a pause, seconds.
        at_offset: The first record that will come.
        slice_records: Records taken before the loop gets its turn.
    """

    def __init__(
        self, taker: Taker, timers: Timers, pause_s: float, *, at_offset: int, slice_records: int
    ) -> None:
        self._slice_records = slice_records
        self._taker = taker
        self._pause_s = pause_s
        self._pumping = Soon(timers, self._pump)
        self._pausing = Soon(timers, self.go_on)
        self._chunks: deque[tuple[int, bytes]] = deque()
        self._frames: Iterator[Logged] = iter(())
        self._chunk_end = at_offset
        self._stopped = False
        self.buffered_bytes = 0
        """Bytes of chunks that were fed and not yet taken."""

    def feed(self, to_offset: int, chunk: bytes) -> None:
        """Take the next *chunk* of whole frames; the record after it is *to_offset*."""
        self._chunks.append((to_offset, chunk))
        self.buffered_bytes += len(chunk)
        if not self._pumping.due and not self._pausing.due:
            self._pump()

    def stop(self) -> None:
        """Take nothing more."""
        self._stopped = True

    def go_on(self) -> None:
        """What is held back may find its place now."""
        if not self._stopped:
            self._pumping.ask()

    def _pause(self) -> None:
        self._pausing.ask(self._pause_s)

    def _pump(self) -> None:
        """Take records until there are none, a queue asks for patience, or the slice is over."""
        if self._stopped:
            return
        taker = self._taker
        try:
            if not taker.offer_held():
                self._pause()
                return
            if not taker.take_rest():
                self.go_on()
                return
            for _ in range(self._slice_records):
                if not taker.offer_held():
                    self._pause()
                    return
                logged = next(self._frames, None)
                if logged is not None:
                    if not taker.take(logged):
                        break
                elif not self._next_chunk():
                    taker.all_taken()
                    return
        except DistributaryError as error:
            taker.fail(error)
            return
        self.go_on()

    def _next_chunk(self) -> bool:
        self._taker.pass_hole(self._chunk_end)
        if not self._chunks:
            return False
        self._chunk_end, chunk = self._chunks.popleft()
        self.buffered_bytes -= len(chunk)
        self._frames = iter_frames(chunk, verify=False)  # verified when it was read
        return True
