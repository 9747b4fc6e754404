"""Rows of numbers that receivers share: each writes its own, and reads those of the others.

A file in shared memory holds a random key and a row of words for each receiver. Names have a
digest, or two slots in a row, by a hash with that key, so that nobody can choose names that meet.
"""

import hashlib
import mmap
import os
import secrets
from pathlib import Path
from typing import Final

from distributary.core.files import PRIVATE_MODE, write_atomically

_KEY_BYTES: Final = 16
_PURPOSE: Final = b"shared rows"
_WORD_BYTES: Final = 4
SLOTS: Final = 4_096
"""Slots of names in each half of a row: twice the default of ``connections_max``."""

DIGEST_BYTES: Final = 16
"""Length of the digest of a name: no two of any number of names have the same one."""


def make_rows(path: Path, receivers: int, words: int, secret: bytes = b"") -> None:
    """Create the file for *receivers* rows of *words* words, all zero.

    Args:
        path: Where.
        receivers: Number of rows.
        words: Words of each.
        secret: Gives the key, the same for the same secret; empty: a random one.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = bytes(receivers * words * _WORD_BYTES)
    key = secrets.token_bytes(_KEY_BYTES)
    if secret:
        key = hashlib.blake2b(secret, digest_size=_KEY_BYTES, person=_PURPOSE).digest()
    write_atomically(path, key + rows, mode=PRIVATE_MODE)


class SharedRows:
    """One receiver's view.

    Args:
        path: File of ``make_rows``; None: there is no other receiver.
        number: Number of this receiver.
        words: Words of a row.

    Attributes:
        own: The row of this receiver, as an earlier process of this number left it.
        others: Those of the others.

    Raises:
        OSError: The file cannot be opened.
    """

    __slots__ = ("_key", "others", "own")

    def __init__(self, path: Path | None, number: int, words: int) -> None:
        self._key = b""
        self.own = memoryview(bytearray(words * _WORD_BYTES)).cast("I")
        self.others: list[memoryview] = []
        if path is None:
            return
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            shared = memoryview(mmap.mmap(fd, os.fstat(fd).st_size))
        finally:
            os.close(fd)
        self._key = bytes(shared[:_KEY_BYTES])
        every = shared[_KEY_BYTES:].cast("I")
        self.others = [every[start : start + words] for start in range(0, len(every), words)]
        self.own = self.others.pop(number)

    def digest(self, name: str) -> bytes:
        """What stands for *name* in the rows."""
        return hashlib.blake2b(name.encode(), digest_size=DIGEST_BYTES, key=self._key).digest()

    def slots(self, name: str) -> tuple[int, int]:
        """Both slots of *name*: one below ``SLOTS``, one of the next ``SLOTS``."""
        digest = hashlib.blake2b(name.encode(), digest_size=8, key=self._key).digest()
        first = int.from_bytes(digest[:4], "little") % SLOTS
        return first, SLOTS + int.from_bytes(digest[4:], "little") % SLOTS
