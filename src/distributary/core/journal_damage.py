"""Reads a journal past damage: tells a torn end from bytes that the medium changed later.

A frame is synced before the next one is written. So behind a frame that a crash tore there are only
the zeros of the preallocated file, and what lies behind other bytes that are no frame was durable.
Each frame is true by itself: a cursor, outcomes and numbers of rows are absolute. Frames behind
damage count therefore, and what was lost with the damaged ones is done again.

Called by ``journal``. Hides: how the next frame is found. Texts of events and of sinks' answers are
in bodies, so bytes that look like a frame may be no frame of ours: they count only where they begin
a chain of whole frames that ends where the file's content ends. A text inside a damaged frame
cannot begin one, since its chain would have to go through bytes that the text's author does not
know.
"""

import zlib
from typing import Final, NamedTuple

from distributary.core.journal_frames import (
    DECODERS,
    FRAME_BYTES_MAX,
    HEADER,
    MAGIC,
    Frame,
    decode_frames,
)

_FAMILY: Final = MAGIC[:3]
"""Frames of all versions begin with it."""
SEARCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes whose checksums a search compares, which takes a fifth of a second; a journal has some 4
MiB and is compared once, unless it is full of texts that look like frames."""


class Damage(NamedTuple):
    """A stretch of a journal that is neither frames nor the torn end of a write.

    Attributes:
        start: Position of its first byte.
        end: Position behind it, in bytes.
        frames_behind: Whole frames behind it, which count.
    """

    start: int
    end: int
    frames_behind: int


class Salvage(NamedTuple):
    """What the content of a journal says.

    Attributes:
        frames: The whole ones that count.
        damage: What they lie before or around; None: the content is whole, but for a torn end.
    """

    frames: list[Frame]
    damage: Damage | None


def salvage(content: bytes) -> Salvage:
    """Return the frames of *content*, also those behind damage."""
    frames = list(decode_frames(content))
    at = frames[-1].end if frames else 0
    filled = len(content.rstrip(b"\0"))
    if filled <= at:
        return Salvage(frames, None)
    found = _Search(content, filled).behind(at)
    if found:
        start = found[0].start
        return Salvage(frames + found, Damage(at, start, len(found)))
    if _torn(content, at, filled):
        return Salvage(frames, None)
    return Salvage(frames, Damage(at, filled, 0))


def _told_end(content: bytes, at: int) -> int:
    """Where the frame at *at* ends by its header; 0: there is no header, or of an unknown form."""
    if at + HEADER.size > len(content):
        return 0
    magic, length, _ = HEADER.unpack_from(content, at)
    end: int = at + HEADER.size + length
    return end if magic in DECODERS and length <= FRAME_BYTES_MAX else 0


def _torn(content: bytes, at: int, filled: int) -> bool:
    """Whether a crash may have left the bytes from *at* on: a part of one frame, then zeros.

    Pages of a write reach the medium in any order, so its header may be missing.
    """
    if content[at] == 0:
        return True
    if filled - at < HEADER.size:
        return _FAMILY.startswith(content[at:filled][: len(_FAMILY)])
    return _told_end(content, at) >= filled


class _Search:
    """Looks for whole frames in *content*, which has nothing but zeros from *filled* on."""

    def __init__(self, content: bytes, filled: int) -> None:
        self._content = content
        self._filled = filled
        self._left = SEARCH_BYTES_MAX
        self._vain: set[int] = set()
        """Positions from which no chain goes on to the end."""

    def behind(self, at: int) -> list[Frame]:
        """Return the frames behind the damage at *at*; none where no chain of them is whole."""
        if self._is_newer(at):
            return []  # What a later version says may be taken back by what it says next.
        told = _told_end(self._content, at)
        if 0 < told < self._filled and (frames := self._chain(told)):
            return frames
        candidate = self._content.find(_FAMILY, at + 1, self._filled)
        while candidate >= 0 and self._left > 0:
            if frames := self._chain(candidate):
                return frames
            candidate = self._content.find(_FAMILY, candidate + 1, self._filled)
        return []

    def _is_newer(self, at: int) -> bool:
        """Whether a later version wrote the frame at *at*: whole, and of an unknown form."""
        if not self._content.startswith(_FAMILY, at) or at + HEADER.size > len(self._content):
            return False
        magic, length, checksum = HEADER.unpack_from(self._content, at)
        start = at + HEADER.size
        body = self._content[start : start + length]
        if magic in DECODERS or len(body) != length or zlib.crc32(body) != checksum:
            return False
        known = (HEADER.pack(each, length, checksum) + body for each in DECODERS)
        return not any(next(decode_frames(each), None) for each in known)

    def _chain(self, at: int) -> list[Frame]:
        """Return the frames from *at* on, if all are whole and the last one ends the content."""
        frames: list[Frame] = []
        while at < self._filled:
            frame = None if at in self._vain else self._frame(at)
            if frame is None:
                self._vain.update(each.start for each in frames)
                self._vain.add(at)
                return []
            frames.append(frame)
            at = frame.end
        return frames

    def _frame(self, at: int) -> Frame | None:
        end = _told_end(self._content, at)
        if not 0 < end <= len(self._content):
            return None
        self._left -= end - at
        if self._left < 0:
            return None
        found = next(decode_frames(self._content[at:end]), None)
        return None if found is None else found._replace(start=at, end=end)
