"""Finds the repeats among the records of a partition, where a window is switched on.

Without a window nothing here runs. The live path takes each record into its own window, on the
loop. Backfills and replays begin below: what the live path knows it tells them; what is older still
they take into windows of their own, beside the loop. A reader that begins where nobody knows looks
back over one window first.

Retries read what was delivered once, and so was no repeat: they need none of it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from distributary.core.clock import Clock
from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Logged
from distributary.core.log.repeats import Stretch, look_back, passed_over
from distributary.core.log.taken import OnceLimits
from distributary.core.meter import Meter
from distributary.partitions.ports import Records

STRETCHES_MAX: Final = 32
"""Stretches whose repeats are remembered: some bytes each, without a window."""
WINDOWS_MAX: Final = 2
"""Windows beside that of the live path, each as large. Readers at more places take turns, and each
turn begins with a look back."""
AHEAD_RECORDS: Final = 65_536
"""Records that a turn knows beforehand where readers take turns: so a look back is for a thousand
chunks, not for one."""
UNUSED_S: Final = 60.0
"""How long a window stays that nobody reads on with."""
TOLD_S: Final = 1.0
"""A look back that took longer is told of."""

Report = Callable[[str, dict[str, object]], None]


class Once:
    """The repeats of one partition. ``begin`` comes first.

    Args:
        limits: Bounds of the window.
        make_records: Opens a reader of the partition.
        clock: Monotonic.
        meter: Counts the repeats of the live path.
        report: Takes an info line for people: (event, fields). From any thread.
    """

    _live: Stretch

    def __init__(
        self,
        limits: OnceLimits,
        make_records: Callable[[], Records],
        *,
        clock: Clock,
        meter: Meter,
        report: Report,
    ) -> None:
        self.limits = limits
        self._make_records = make_records
        self._clock = clock
        self._meter = meter
        self._report = report
        self._lock = threading.Lock()  # of what follows, which is never the live path's
        self._stretches: list[Stretch] = []  # the last was used last
        self._over: list[object] = []  # parts of windows that are to be freed
        self._used_s = float("-inf")
        self._closed = False

    # -- the live path -------------------------------------------------------------------------

    def begin(self, cursor: int, kept: Stretch | None = None) -> None:
        """Get to know what the live path needs from *cursor* on; blocks for a look back.

        Args:
            cursor: Of its first record.
            kept: What ``end`` returned in this process, for this partition and these limits.

        Raises:
            LogUnavailableError: The log cannot be read now.
        """
        records = self._opened()
        try:
            end = records.durable_end()
            if kept is None or not kept.first <= cursor or end < max(kept.end, cursor):
                kept = None
            elif kept.end < cursor and cursor - kept.end <= self.limits.count_max:
                for logged in records.read(kept.end, cursor):
                    kept.take(logged)
                kept.pass_to(cursor)
            if kept is None or kept.end < cursor:
                kept = self._looked_back(records, cursor)
        finally:
            records.close()
        self._live = kept

    def judged(self, logged: Logged) -> Logged:
        """The next record of the live path, as it passes on: a repeat is none that it delivers."""
        live, offset = self._live, logged.offset
        # Below the end: what the window of an owner before has taken, or is below the cursor.
        if offset < live.end:
            return passed_over(logged) if live.repeats(offset) else logged
        if not live.take(logged):
            return logged
        self._meter.add("repeated_events_total")
        return passed_over(logged)

    def stop(self) -> None:
        """End a look back under way, which raises, and let none begin. For any thread.

        A million ids take some seconds, and the next owner waits for the partition.
        """
        self._closed = True

    def end(self) -> Stretch:
        """Stop; returns what the next owner of the partition in this process begins with."""
        self.stop()
        self._stretches = []  # without the lock: a look back may wait for the log under it
        return self._live

    # -- readers of what is older --------------------------------------------------------------

    def judge(self, records: Iterable[Logged], from_offset: int) -> Iterator[Logged]:
        """Yields *records* as ``judged`` does; blocks for look backs. For any thread.

        Args:
            records: All that there are from *from_offset* on, in order.
            from_offset: Where they begin.

        Raises:
            LogUnavailableError: The log cannot be read now.
        """
        at = from_offset
        for logged in records:
            yield passed_over(logged) if self._repeats(logged, at) else logged
            at = logged.offset + 1

    def _repeats(self, logged: Logged, at: int) -> bool:
        """Whether *logged*, the first record from *at* on, is a repeat."""
        known = self._live.repeats(logged.offset)
        if known is not None:
            return known
        with self._lock:
            self._used_s = self._clock.monotonic_s()
            for stretch in reversed(self._stretches):
                known = stretch.repeats(logged.offset)
                if known is not None:
                    return known
            stretch = self._reached(at)
            known = stretch.repeats(logged.offset)
            return stretch.take(logged) if known is None else known

    def _reached(self, at: int) -> Stretch:
        """A stretch that goes on at *at*; makes one where there is none."""
        stretches = self._stretches  # ``end`` puts other ones in their place
        for stretch in stretches:
            if stretch.end == at and stretch.window is not None:
                stretches.remove(stretch)
                stretches.append(stretch)
                return stretch
        records = self._opened()
        try:
            made = self._looked_back(records, at)
            windows = [each for each in stretches if each.window is not None]
            if len(windows) >= WINDOWS_MAX:
                self._over += windows[0].give_up()
                self._know_ahead(made, records)
        finally:
            records.close()
        stretches.append(made)
        del stretches[:-STRETCHES_MAX]
        return made

    def _opened(self) -> "_Breakable":
        return _Breakable(self._make_records(), lambda: self._closed)

    def _know_ahead(self, stretch: Stretch, records: "_Breakable") -> None:
        limit = min(stretch.end + AHEAD_RECORDS, self._live.first, records.durable_end())
        for logged in records.read(stretch.end, limit):
            stretch.take(logged)
        stretch.pass_to(limit)

    def _looked_back(self, records: "_Breakable", at: int) -> Stretch:
        began_s = self._clock.monotonic_s()

        def tell(read: int, left: int) -> None:
            self._report("once-window-reading", {"at": at, "read": read, "left": left})

        window = look_back(records, at, self.limits, tell)
        took_s = self._clock.monotonic_s() - began_s
        if took_s >= TOLD_S:
            fields: dict[str, object] = {"at": at, "ids": len(window), "seconds": round(took_s, 1)}
            self._report("once-window-read", fields)
        return Stretch(window)

    def tick(self) -> None:
        """Free windows that nobody has read on with of late, a part a tick. Never waits."""
        if self._over:
            self._over.pop()
        elif self._stretches and self._lock.acquire(blocking=False):
            try:
                if self._clock.monotonic_s() - self._used_s >= UNUSED_S:
                    for stretch in self._stretches:
                        self._over += stretch.give_up()
            finally:
                self._lock.release()


class _Breakable:
    """Records of a partition, whose reading raises once *over* says so."""

    def __init__(self, records: Records, over: Callable[[], bool]) -> None:
        self.start, self.durable_end = records.start, records.durable_end
        self.offset_at, self.close = records.offset_at, records.close
        self._read = records.read
        self._over = over

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """See ``Records``.

        Raises:
            LogUnavailableError: It is over.
        """
        for logged in self._read(from_offset, to_offset):
            if self._over():
                raise LogUnavailableError("the partition is let go of")
            yield logged
