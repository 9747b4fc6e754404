"""Returns memory to the system after a burst of large bodies.

Used by the control and ingest processes, whose clients choose the size of bodies. glibc alone keeps
the memory: it raises its mmap threshold to the largest block ever freed, and never returns free
pages between small blocks.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

MAPPED_BYTES_MIN = 256 * 1024
"""Blocks from this size on get a mapping each, which is returned when they are freed. Most bodies
are smaller; a mapping costs a few microseconds."""
LOOK_S = 5.0
"""How often a process checks its resident size."""
GROWN_BYTES_MIN = 1024 * 1024
"""Growth that is worth a search for free pages, which costs some milliseconds in a thread."""
FREED_BYTES_MIN = 256 * 1024
"""A search that frees this much is repeated: bodies in use meanwhile may be free by then."""

_M_MMAP_THRESHOLD = -3
_PAGE_BYTES = 4096


def map_large_blocks() -> None:
    """Fix the mmap threshold at ``MAPPED_BYTES_MIN`` (Linux with glibc; elsewhere no effect)."""
    if hasattr(_libc(), "mallopt"):
        _libc().mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)


async def give_back(
    size_bytes: Callable[[], int] | None = None, trim: Callable[[], object] | None = None
) -> None:
    """Return free pages whenever the process has grown; never returns.

    Args:
        size_bytes: Gives the resident size; None: of this process.
        trim: Returns free pages, called in a thread; None: glibc's ``malloc_trim``.
    """
    size_bytes = size_bytes or _resident_bytes
    trim = trim or _trim
    least = size_bytes()
    while True:
        await asyncio.sleep(LOOK_S)
        now = size_bytes()
        if now - least >= GROWN_BYTES_MIN:
            await asyncio.to_thread(trim)
            after = size_bytes()
            if now - after < FREED_BYTES_MIN:
                least = after  # it is in use
            now = after
        least = min(least, now)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _trim() -> None:
    if hasattr(_libc(), "malloc_trim"):
        _libc().malloc_trim(0)


def _resident_bytes() -> int:
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
