"""The key by which the processes of a server show each other whose events they publish."""

from pathlib import Path

from distributary.core.errors import StoreError
from distributary.core.files import PRIVATE_MODE, write_atomically


def read_internal_key(path: Path) -> bytes | None:
    """Returns the key at *path*; None: the server that made the folder knew of none.

    Raises:
        StoreError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error


def keep_internal_key(path: Path, new: bytes) -> bytes:
    """Returns the key at *path*; where there is none, or a broken one, *new*, which is kept.

    It lasts over restarts: an owner that outlives a restart shows it for some seconds more.

    Raises:
        StoreError: It cannot be read, or not be written.
    """
    found = read_internal_key(path)
    if found is not None and len(found) == len(new):
        return found
    try:
        write_atomically(path, new, mode=PRIVATE_MODE)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return new
