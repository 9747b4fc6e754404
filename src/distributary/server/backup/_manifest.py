"""The manifest of a backup: its files with sizes and checksums, and what it is a copy of.

It is written last: a folder without one is no backup, whatever lies in it.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import sync_folder, write_atomically
from distributary.core.log import PARTITIONS_MAX

MANIFEST_NAME: Final = "MANIFEST.json"
FORMAT: Final = 1
"""Of the layout of a backup: the same paths as in a data directory."""

MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest manifest that is read: 150 bytes a file, so some 400,000 segments, 25 TB of log."""

CHUNK_BYTES: Final = 1024 * 1024
"""Read and written at once; a copy needs no more memory, however large a file is."""


class BackupError(StoreError):
    """A backup cannot be made, or cannot be restored; the message says what to do."""


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a backup.

    Attributes:
        path: Below the backup's folder, and below a data directory.
        size: Bytes.
        sha256: Of its content, hexadecimal.
    """

    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is.

    Attributes:
        format: ``FORMAT``.
        version: Of the program that made it.
        began: When it began (RFC 3339, UTC): what was acknowledged before is in it.
        ended: When all was copied.
        partitions: Of the log.
        ends: Next offset of each partition: where the copy of the log ends.
        key: ``included``, ``left-out``, or ``elsewhere``: the key that opens credentials.
        files: All but the manifest.
    """

    format: int
    version: str
    began: str
    ended: str
    partitions: int
    ends: list[int]
    key: str
    files: list[FileEntry]

    @property
    def total_bytes(self) -> int:
        """Of all files."""
        return sum(entry.size for entry in self.files)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Complete the backup in *folder*."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_atomically(folder / MANIFEST_NAME, content, mode=0o600, durable=True)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the backup in *folder*.

    Raises:
        BackupError: It is no complete backup, or of a newer version.
    """
    path = folder / MANIFEST_NAME
    try:
        with path.open("rb") as file:
            content = file.read(MANIFEST_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise BackupError(
            f"{folder} is no complete backup: it has no {MANIFEST_NAME}. A backup that was"
            " interrupted cannot be restored; take another one"
        ) from error
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}") from error
    try:
        head = msgspec.json.decode(content)  # what was cut at the limit is no JSON
        if (
            isinstance(head, dict)
            and isinstance(head.get("format"), int)
            and head["format"] > FORMAT
        ):
            raise BackupError(
                f"{path} has format {head['format']}, and this version knows up to {FORMAT}:"
                " restore it with the version that made it, or a newer one"
            )
        manifest = msgspec.convert(head, Manifest)
        for entry in manifest.files:
            _check_path(entry.path)
        _check_partitions(manifest.partitions)
    except (ValueError, msgspec.MsgspecError) as error:
        raise BackupError(f"{path} is damaged: {error}") from error
    return manifest


def _check_partitions(count: int) -> None:
    """Raise ``ValueError`` unless a log may have so many partitions: a restore opens each."""
    if not 1 <= count <= PARTITIONS_MAX:
        raise ValueError(f"a log has 1 to {PARTITIONS_MAX:,} partitions")


def _check_path(text: str) -> None:
    """Raise ``ValueError`` unless *text* names a file below the folder, whoever wrote it."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in text:
        raise ValueError(f"the path {text!r} leads out of the backup")
    if str(path) != text or text == MANIFEST_NAME:
        raise ValueError(f"the path {text!r} is no file of a backup")


def copy_file(
    source: Path, target: Path, length: int | None, note: Callable[[int], None]
) -> tuple[int, str]:
    """Copy *source* to the new file *target*, private and synced; blocks of zeros become holes.

    Args:
        source: May grow meanwhile.
        target: Must not exist; missing folders are made, private too.
        length: Bytes to copy; None: all.
        note: Called with the bytes of each chunk.

    Returns:
        Bytes copied, and their SHA-256.

    Raises:
        OSError: Either file failed.
        BackupError: *source* is shorter than *length*.
    """
    make_folders(target.parent)
    digest, done = hashlib.sha256(), 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with source.open("rb") as file, os.fdopen(os.open(target, flags, 0o600), "wb") as copy:
        while length is None or done < length:
            chunk = file.read(CHUNK_BYTES if length is None else min(CHUNK_BYTES, length - done))
            if not chunk:
                break
            digest.update(chunk)
            if chunk.count(0) == len(chunk):
                copy.seek(len(chunk), os.SEEK_CUR)
            else:
                copy.write(chunk)
            done += len(chunk)
            note(len(chunk))
        copy.flush()
        os.ftruncate(copy.fileno(), done)
        os.fsync(copy.fileno())
    if length is not None and done < length:
        raise BackupError(f"{source} has lost its end: {done} of {length} bytes are there")
    return done, digest.hexdigest()


def make_folders(folder: Path) -> None:
    """Make *folder* and its missing parents, for their owner alone; their names are durable.

    Raises:
        OSError: One of them cannot be made.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def digest_of(path: Path, note: Callable[[int], None]) -> tuple[int, str]:
    """Size and SHA-256 of the file at *path*.

    Raises:
        OSError: It cannot be read.
    """
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            note(len(chunk))
    return done, digest.hexdigest()
