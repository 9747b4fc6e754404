"""Memory that a burst of large bodies took goes back to the system when they are gone.

Called by ``_serve`` and ``ingest_process``, which get bodies from strangers. glibc alone keeps it:
it raises the size from which a block is mapped by itself to the largest that was ever freed, and
what is free between small blocks is never returned.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

MAPPED_BYTES_MIN = 256 * 1024
"""Blocks from this size on are mapped by themselves and returned when they are freed. Most bodies
are smaller, and what maps costs a few microseconds."""
LOOK_S = 5.0
"""How often a process looks at its size."""
GROWN_BYTES_MIN = 1024 * 1024
"""Growth that is worth a look for free pages, which costs some milliseconds beside the loop."""
FREED_BYTES_MIN = 256 * 1024
"""While a look finds so much, there is another: bodies that were there meanwhile are gone then."""

_M_MMAP_THRESHOLD = -3
_PAGE_BYTES = 4096


def map_large_blocks() -> None:
    """Have large blocks mapped by themselves, for good (Linux with glibc; elsewhere nothing)."""
    if hasattr(_libc(), "mallopt"):
        _libc().mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)


async def give_back(
    size_bytes: Callable[[], int] | None = None, trim: Callable[[], object] | None = None
) -> None:
    """Return free pages whenever the process has grown; never ends.

    Args:
        size_bytes: Resident size; None: that of this process.
        trim: Returns what is free; called in a thread. None: glibc's.
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
