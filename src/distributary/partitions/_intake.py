"""Splits chunks of the log into records, processed in slices between turns of the event loop."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from distributary.core.deliver import Soon, Timers
from distributary.core.errors import DistributaryError
from distributary.core.flow import Logged
from distributary.core.log import iter_frames


class Taker(Protocol):
    """The receiver of records: the partition consumer."""

    def offer_held(self) -> bool:
        """Dispatch held tasks; False to pause the intake."""

    def take(self, logged: Logged) -> bool:
        """Process the next record; False to yield to the event loop."""

    def take_rest(self) -> bool:
        """Continue the last record at the start of a slice; False where more of it is left."""

    def pass_hole(self, to_offset: int) -> None:
        """Pass a hole: there is no record before *to_offset*."""

    def all_taken(self) -> None:
        """Handle the end of the fed records, for now."""

    def fail(self, error: DistributaryError) -> None:
        """Stop: the record cannot be processed, and so none after it may be."""


class Intake:
    """The queue of chunks fed but not yet processed.

    Args:
        taker: Receives the records.
        timers: For turns and pauses.
        pause_s: Length of a pause, seconds.
        at_offset: Offset of the first record.
        slice_records: Records between two turns of the loop.
        judged: Returns a record as the receiver gets it; None: as it is.
    """

    def __init__(
        self,
        taker: Taker,
        timers: Timers,
        pause_s: float,
        *,
        at_offset: int,
        slice_records: int,
        judged: Callable[[Logged], Logged] | None = None,
    ) -> None:
        self._judged = judged
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
        """Bytes of chunks fed but not yet processed."""

    def feed(self, to_offset: int, chunk: bytes) -> None:
        """Enqueue the next *chunk* of whole frames; the record after it is *to_offset*."""
        self._chunks.append((to_offset, chunk))
        self.buffered_bytes += len(chunk)
        if not self._pumping.due and not self._pausing.due:
            self._pump()

    def stop(self) -> None:
        """Process nothing more."""
        self._stopped = True

    def go_on(self) -> None:
        """Resume after a pause: a queue may have space now."""
        if not self._stopped:
            self._pumping.ask()

    def _pause(self) -> None:
        self._pausing.ask(self._pause_s)

    def _pump(self) -> None:
        """Process records until there are none, a queue asks for a pause, or the slice is over."""
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
        frames = iter_frames(chunk, verify=False)  # verified when it was read
        self._frames = frames if self._judged is None else map(self._judged, frames)
        return True
