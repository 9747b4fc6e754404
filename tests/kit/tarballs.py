"""Unpacking the archives that tests keep or fetch."""

import tarfile
from pathlib import Path
from typing import Any

__all__ = ["unpack"]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack *archive* into *folder*; nothing outside it, where Python can tell (since 3.11.4)."""
    safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **safe)  # noqa: S202 - our own archives, or of a known checksum
