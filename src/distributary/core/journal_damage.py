"""Reads a journal past damage: tells a torn end from bytes that the medium changed later.

A frame is synced before the next one is written. So behind a frame that a crash tore there are only
the zeros of the preallocated file, and what lies behind other bytes that are no frame was durable.
Each frame is true by itself: a cursor, outcomes and numbers of rows are absolute. Frames behind
damage count therefore, and what was lost with the damaged ones is done again.

Called by ``journal``. Hides: how the next frame is found. Only the header of a damaged frame tells:
nothing looks for a frame among other bytes, because bodies hold texts of events and of sinks'
answers, and the last frame may end with such a text. Where a header is damaged, what is behind it
does not count.
"""

from collections.abc import Sequence
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
_SECTOR_BYTES: Final = 512
"""What a medium writes whole. A power cut may leave any of the sectors of the last write out."""
_NUMBER_MAX: Final = 2**62
"""No offset or number of a row comes near it: a row's is the clock in microseconds at most."""


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
    behind = _behind(content, at, filled)
    if behind and _go_on([*frames[-1:], *behind]):
        return Salvage(frames + behind, Damage(at, behind[0].start, len(behind)))
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


def _behind(content: bytes, at: int, filled: int) -> list[Frame]:
    """Return the whole frames from behind the last damaged one to *filled*, where content ends.

    Empty where a header does not tell where the next frame begins. An end at *filled* or beyond is
    that of the last frame: nothing was written behind it, whatever its bytes look like.
    """
    frames: list[Frame] = []
    while at < filled:
        told = _told_end(content, at)
        frame = next(decode_frames(content[at:told]), None) if told else None
        if frame is not None:
            frames.append(frame._replace(start=at, end=told))
        elif at < told < filled:
            frames = []
        else:
            return []
        at = told
    return frames


def _go_on(frames: Sequence[Frame]) -> bool:
    """Whether *frames* may follow one another: a damaged length could lead anywhere."""
    offsets = [frame.mark.offset for frame in frames]
    numbers = [frame.filed for frame in frames]
    numbers += [frame.block.end for frame in frames if frame.block is not None]
    return offsets == sorted(offsets) and max(offsets + numbers) < _NUMBER_MAX


def _torn(content: bytes, at: int, filled: int) -> bool:
    """Whether a crash may have left the bytes from *at* on: a part of one frame, then zeros.

    Sectors of a write reach the medium in any order, so its header may be missing, whole or from
    the border of a sector on.
    """
    if content[at] == 0:
        return True
    if filled - at < HEADER.size:
        return _FAMILY.startswith(content[at:filled][: len(_FAMILY)])
    border = (at // _SECTOR_BYTES + 1) * _SECTOR_BYTES
    if border < at + HEADER.size and not any(content[border : at + HEADER.size]):
        return _FAMILY.startswith(content[at:border][: len(_FAMILY)])
    return _told_end(content, at) >= filled
