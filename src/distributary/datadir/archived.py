"""What of the log is archived, for retention and for the owners of partitions: written by the job.

The manifests of an archive are the truth; this file repeats what they say, so that a receiver
and an owner need neither Spark nor the file system of the archive. Without it nothing counts as
archived, and the next job writes it again. A log may have several archives: a job for one leaves
what the others hold.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from distributary.core.errors import StoreError
from distributary.core.files import write_atomically

ARCHIVES_MAX: Final = 4
"""Archives of a log that are remembered, those of the newest jobs: one in use, and copies of it."""

NOTHING: Final = 0
"""Offset to which a partition is archived that is not."""


class ArchivedStretch(NamedTuple):
    """Records of one partition that the archive has, ``from_offset <= offset < to_offset``.

    Attributes:
        from_offset: Of the first record.
        to_offset: After the last one.
        from_ms: Least time at which one of their events was appended, milliseconds; 0: there is
            none. Those of two stretches may overlap: the clock of a topic's next leader may be
            behind.
        to_ms: Greatest one.
    """

    from_offset: int
    to_offset: int
    from_ms: int
    to_ms: int


class _Held(msgspec.Struct, frozen=True):
    partitions: dict[int, int]
    stretches: dict[int, list[ArchivedStretch]] = {}


class _Archived(_Held, frozen=True, kw_only=True):
    to: str = ""
    others: dict[str, _Held] = {}
    """Of other archives, the newest first. Earlier versions know of none."""


_NONE: Final = _Archived({})


def write_archived(
    path: Path,
    to: str,
    positions: Mapping[int, int],
    stretches: Mapping[int, Sequence[ArchivedStretch]] | None = None,
) -> None:
    """Write what the archive *to* holds; durable on return. For one job at a time.

    Args:
        path: ``DataDir.archived``.
        to: Where the archive lies, as the setting ``archive`` has it.
        positions: Partition -> offset of the first record that is not archived.
        stretches: Partition -> what can be read there, in order; what was deleted is not in it.

    Raises:
        OSError: It cannot be written.
    """
    by_partition = {number: list(each) for number, each in (stretches or {}).items()}
    before = _read(path) if path.exists() else _NONE
    others = {before.to: _Held(before.partitions, before.stretches), **before.others}
    kept = [(name, held) for name, held in others.items() if name not in {to, ""}]
    found = _Archived(dict(positions), by_partition, to=to, others=dict(kept[: ARCHIVES_MAX - 1]))
    write_atomically(path, msgspec.json.encode(found), durable=True, mode=0o640)


def read_archived(path: Path, to: str) -> dict[int, int]:
    """Returns how far each partition is archived in the archive *to*; empty: not known.

    Args:
        path: ``DataDir.archived``.
        to: Where the archive lies; what another one holds does not count.
    """
    try:
        return noted_archived(path, to)
    except OSError:
        return {}


def noted_archived(path: Path, to: str) -> dict[int, int]:
    """Returns the same; empty: no job has noted anything of this archive, or the note is damaged.

    Raises:
        OSError: What was noted cannot be read.
    """
    try:
        return _held(path, to).partitions
    except FileNotFoundError:
        return {}


class StretchesFile:
    """What the archive has of one partition, read again when the file has changed.

    Args:
        path: ``DataDir.archived``.
        to: Where the archive lies.
        partition: Its number.
    """

    def __init__(self, path: Path, to: str, partition: int) -> None:
        self._path = path
        self._to = to
        self._partition = partition
        self._sign: tuple[int, int] | None = None
        self._found: list[ArchivedStretch] = []

    def read(self) -> list[ArchivedStretch]:
        """Returns it, in order; empty: nothing that is known.

        Raises:
            StoreError: Nothing has been read yet, and it cannot be read now.
        """
        try:
            stat = self._path.stat()
            sign = stat.st_mtime_ns, stat.st_ino
            if sign != self._sign:
                self._found = _held(self._path, self._to).stretches.get(self._partition, [])
                self._sign = sign
        except FileNotFoundError:
            self._found, self._sign = [], None
        except OSError as error:  # No descriptor is free, say: the next call reads on.
            if self._sign is None:
                raise StoreError(f"what is archived cannot be read: {error}") from error
            # What was known stays.
        return self._found


def _held(path: Path, to: str) -> _Held:
    found = _read(path)
    return found if found.to == to else found.others.get(to, _NONE)


def _read(path: Path) -> _Archived:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Archived)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _NONE
