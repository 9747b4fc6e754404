"""Tallies in a file of slots of one size, which its owner writes in place and others map.

A slot that changes is written where it is, so the cost of a second is that of what changed in it.
The file begins with a page of its own, then come extents: a page of ticks, one number a slot, and
the slots. A reader compares pages of ticks with those it saw before, so it looks at the slots that
have changed and at no other. Each slot carries a checksum: one that is written meanwhile, or was
torn by a power cut, is not believed.

Nothing is synced: a kill loses what was not put yet, a power cut some seconds more.
"""

import array
import contextlib
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from distributary.core.errors import StoreError
from distributary.core.outcome.tallies import Tally

MAGIC: Final = b"DTLY1\0\0\0"
PAGE: Final = 4096
_TICK: Final = 4
SLOTS: Final = PAGE // _TICK
"""Slots of an extent: as many as a page has ticks."""
_SLOT: Final = struct.Struct("<IBxH64s40sQQQQQQQQIII4x")
_EXTENT: Final = PAGE + SLOTS * _SLOT.size
_UNREST: Final = struct.Struct("<IB3x64s88xQ12xII4x")
"""Of a slot: checksum, flags, route, and what tells whether it is at rest: since when it fails,
under way, waiting."""
_UID_MAX: Final = 64
_REASON_MAX: Final = 40
_BACKFILLING: Final = 1
_PARKED: Final = 2
_COUNT_MAX: Final = 2**32 - 1
_COMPARED: Final = 64
"""Bytes of ticks that are compared at once: of a large file few of a page change in a second."""
_FREE: Final = bytes(_SLOT.size)


def encode_slot(route: bytes, tally: Tally) -> bytes:
    flags = _BACKFILLING * tally.backfilling | _PARKED * tally.parked
    body = _SLOT.pack(
        0,
        flags,
        tally.answer_status & 0xFFFF,
        route,
        tally.failing_reason.encode()[:_REASON_MAX],
        tally.delivered,
        tally.dead_lettered,
        tally.dropped,
        tally.failed,
        tally.success_ms,
        tally.answer_ms,
        tally.failing_since_ms,
        tally.failing_last_ms,
        min(tally.failing_count, _COUNT_MAX),
        min(tally.in_flight, _COUNT_MAX),
        min(tally.waiting, _COUNT_MAX),
    )[4:]
    return zlib.crc32(body).to_bytes(4, "little") + body


def decode_slot(slot: bytes) -> tuple[str, Tally] | None:
    """The route and its tally; None: the slot is free, or its bytes do not belong together."""
    crc, flags, status, uid, reason, *numbers = _SLOT.unpack(slot)
    route = uid.rstrip(b"\0")
    if not route or zlib.crc32(slot[4:]) != crc:
        return None
    delivered, dead, dropped, failed, success, answer, since, last, count, flying, rows = numbers
    return route.decode("ascii", "replace"), Tally(
        delivered,
        dead,
        dropped,
        failed,
        success,
        answer,
        status,
        flying,
        rows,
        bool(flags & _BACKFILLING),
        bool(flags & _PARKED),
        since,
        last,
        count,
        reason.rstrip(b"\0").decode("utf-8", "ignore") if reason[0] else "",
    )


def _tick_at(extent: int) -> int:
    return PAGE + extent * _EXTENT


def _slot_at(slot: int) -> int:
    extent, number = divmod(slot, SLOTS)
    return _tick_at(extent) + PAGE + number * _SLOT.size


class TallyFile:
    """A ``TallyStore`` over the file at *path*; for one thread at a time, and one process.

    A file that cannot be read is replaced by an empty one: counting begins again.

    Args:
        path: The file; made at the first ``put``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._ticks: list[array.array[int]] = []
        self._standing: set[str] = set()
        with contextlib.suppress(OSError):
            self._open()

    def _open(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        content = _whole(fd)
        if content[: len(MAGIC)] != MAGIC:
            os.close(fd)
            self._path.unlink()  # not written over: a reader may have it mapped
            return
        self._fd = fd
        for extent in range((len(content) - PAGE) // _EXTENT):
            self._load(extent, content)

    def _load(self, extent: int, content: bytes) -> None:
        """Learn the routes of *extent*; their numbers are read when they are asked for."""
        at = _tick_at(extent)
        self._ticks.append(array.array("I", content[at : at + PAGE]))
        slots = memoryview(content)[at + PAGE : at + _EXTENT]
        at, slot = 4, extent * SLOTS
        for crc, flags, uid, *unrest in _UNREST.iter_unpack(slots):
            name = uid.rstrip(b"\0")
            if name and zlib.crc32(slots[at : at + _SLOT.size - 4]) == crc:
                route = name.decode("ascii", "replace")
                self._slots[route] = slot
                if flags or any(unrest):
                    self._standing.add(route)
            else:
                self._free.append(slot)
            at, slot = at + _SLOT.size, slot + 1

    def routes(self) -> list[str]:
        """See ``TallyStore``."""
        return list(self._slots)

    def standing(self) -> Mapping[str, Tally]:
        """See ``TallyStore``."""
        found = {route: self.get(route) for route in self._standing}
        return {route: tally for route, tally in found.items() if tally is not None}

    def get(self, route: str) -> Tally | None:
        """See ``TallyStore``."""
        slot = self._slots.get(route)
        if slot is None:
            return None
        try:
            found = decode_slot(os.pread(self._fd, _SLOT.size, _slot_at(slot)))
        except OSError:  # no delivery may end for it: counting begins again
            return None
        return None if found is None else found[1]

    def put(self, tallies: Mapping[str, Tally], gone: Iterable[str] = ()) -> None:
        """See ``TallyStore``."""
        try:
            if self._fd < 0:
                self._make()
            changed: dict[int, bytes] = {}
            for route in gone:
                self._standing.discard(route)
                slot = self._slots.pop(route, None)
                if slot is not None:
                    changed[slot] = _FREE
                    self._free.append(slot)
            for route, tally in tallies.items():
                uid = route.encode()
                if len(uid) <= _UID_MAX:
                    self._note(route, tally)
                    changed[self._slot_of(route)] = encode_slot(uid, tally)
            self._write(changed)
        except OSError as error:
            raise StoreError(f"cannot write {self._path.name}: {error.strerror}") from error

    def _note(self, route: str, tally: Tally) -> None:
        if tally.at_rest:
            self._standing.discard(route)
        else:
            self._standing.add(route)

    def _slot_of(self, route: str) -> int:
        slot = self._slots.get(route)
        if slot is None:
            if not self._free:
                self._grow()
            slot = self._slots[route] = self._free.pop()
        return slot

    def _make(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, MAGIC.ljust(PAGE, b"\0"), 0)
        except OSError:  # a full disk, which is tried again every second
            os.close(fd)
            raise
        self._fd = fd

    def _grow(self) -> None:
        extent = len(self._ticks)
        # Space is taken now: a reader that maps the file must never meet a hole past its end.
        os.posix_fallocate(self._fd, _tick_at(extent), _EXTENT)
        self._ticks.append(array.array("I", bytes(PAGE)))
        self._free.extend(range((extent + 1) * SLOTS - 1, extent * SLOTS - 1, -1))

    def _write(self, changed: Mapping[int, bytes]) -> None:
        extents: set[int] = set()
        for slot, content in changed.items():
            os.pwrite(self._fd, content, _slot_at(slot))
            extent, number = divmod(slot, SLOTS)
            ticks = self._ticks[extent]
            ticks[number] = (ticks[number] + 1) & _COUNT_MAX
            extents.add(extent)
        for extent in extents:  # after the slots: a reader that sees them finds what they are for
            os.pwrite(self._fd, self._ticks[extent].tobytes(), _tick_at(extent))

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class TallyFileReader:
    """A ``TallyReader`` over the file at *path*, which may not exist yet.

    Args:
        path: What a ``TallyFile`` of another process writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._map: mmap.mmap | None = None
        self._file = (0, 0)
        self._seen: list[bytes] = []
        self._places: dict[str, int] = {}
        self._routes: dict[int, str] = {}

    def get(self, route: str) -> Tally | None:
        """See ``TallyReader``."""
        with self._lock:
            at = self._places.get(route)
            if at is None or self._map is None:
                return None
            for _ in range(3):  # torn only while it is being written
                found = decode_slot(self._map[at : at + _SLOT.size])
                if found is not None and found[0] == route:
                    return found[1]
            return None

    def changes(self) -> dict[str, Tally | None]:
        """See ``TallyReader``."""
        with self._lock:
            found = self._follow()
            for extent in range(len(self._seen)):
                self._look(extent, found)
            return found

    def _follow(self) -> dict[str, Tally | None]:
        """Map the file as it is now; returns the routes that are gone with a file that is."""
        try:
            about = self._path.stat()
        except OSError:
            about = None
        file = (0, 0) if about is None else (about.st_ino, about.st_size)
        if file == self._file:
            return {}
        gone: dict[str, Tally | None] = {}
        if file[0] != self._file[0]:
            gone = dict.fromkeys(self._places)
            self._forget()
        extents = (file[1] - PAGE) // _EXTENT
        if extents > 0:
            with self._path.open("rb") as opened:
                length = PAGE + extents * _EXTENT
                self._map = mmap.mmap(opened.fileno(), length, access=mmap.ACCESS_READ)
            self._seen += [bytes(PAGE)] * (extents - len(self._seen))
        self._file = file
        return gone

    def _look(self, extent: int, found: dict[str, Tally | None]) -> None:
        """Add what has changed in *extent* to *found*."""
        assert self._map is not None
        at = _tick_at(extent)
        ticks = self._map[at : at + PAGE]
        before = self._seen[extent]
        if ticks == before:
            return
        now, then = array.array("I", ticks), array.array("I", before)
        at += PAGE
        for number in _changed(ticks, before):
            place = at + number * _SLOT.size
            slot = self._map[place : place + _SLOT.size]
            read = decode_slot(slot)
            if read is None and slot != _FREE:
                now[number] = then[number]  # being written: it is looked at again
                continue
            self._take(place, read, found)
        self._seen[extent] = now.tobytes()

    def _take(
        self, at: int, read: tuple[str, Tally] | None, found: dict[str, Tally | None]
    ) -> None:
        """Note what the slot at *at* holds now; None: it is free."""
        before = self._routes.pop(at, None)
        if before is not None and self._places.get(before) == at:
            del self._places[before]
            found[before] = None
        if read is not None:
            route, found[route] = read
            self._routes[at] = route
            self._places[route] = at


def _changed(ticks: bytes, before: bytes) -> Iterator[int]:
    """The numbers of the slots whose ticks differ; what is equal is passed in larger pieces."""
    for first in range(0, PAGE, _COMPARED):
        now, then = ticks[first : first + _COMPARED], before[first : first + _COMPARED]
        if now != then:
            for at in range(0, _COMPARED, _TICK):
                if now[at : at + _TICK] != then[at : at + _TICK]:
                    yield (first + at) // _TICK


def _whole(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    content = bytearray()
    while len(content) < size:
        part = os.pread(fd, size - len(content), len(content))
        if not part:
            break
        content += part
    return bytes(content)
