"""What an archive holds, by its manifests. Pure: no file system and no Spark.

Manifests are numbered from 1. Each adds ranges, and together they tell for each partition which
records are archived: never one twice, whatever was killed when.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from distributary.core.errors import (
    LogDamagedError,
    LogFormatError,
    LogUnavailableError,
    SettingsError,
)

FORMAT: Final = 1
"""Of manifests and rows; a larger one is refused, never guessed at."""

FORMAT_DELETES: Final = 2
"""Of manifests that delete: versions that do not know them would look for files that are gone."""

MANIFESTS: Final = "manifests"
"""Folder of the manifests."""

EVENTS: Final = "events"
"""Folder of the rows."""

MANIFEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""Far more than the ranges of one step need."""

_NAME: Final = re.compile(r"(\d{8})\.json", re.ASCII)
_RANGE: Final = re.compile(r"p(\d{4})-(\d{20})-(\d{20})-[0-9a-f]{16}", re.ASCII)


class ArchivedFile(msgspec.Struct, frozen=True):
    """One file of a range: its events of one day.

    Attributes:
        path: Below ``EVENTS``.
        bytes: Its size.
        events: Its rows.
    """

    path: str
    bytes: int
    events: int


class ArchivedRange(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one partition, ``from_offset <= offset < to_offset``, all of them archived.

    Attributes:
        partition: Number of the partition.
        from_offset: Of the first record.
        to_offset: After the last one.
        events: How many events they hold.
        check: Sum of the checksums of the events.
        from_ms: Least time at which one of the events was appended, milliseconds; 0: there is none.
        to_ms: Greatest one.
        last_checksum: Checksum of the newest record; 0: not known.
        name: Of the folders of its files.
        files: Its files.
        log: ``Known.log`` of its partition; empty too where an earlier version wrote it.
    """

    partition: int
    from_offset: int
    to_offset: int
    events: int
    check: int
    from_ms: int
    to_ms: int
    last_checksum: int
    name: str
    files: tuple[ArchivedFile, ...]
    log: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a job.

    Attributes:
        format: See ``FORMAT``.
        number: From 1, without gaps.
        ranges: What it adds.
        deleted_before: What was appended before this day (by UTC, ``2026-01-31``) is deleted, of
            ranges that come later too: a log may be archived after its days. Empty: nothing is.
    """

    format: int
    number: int
    ranges: tuple[ArchivedRange, ...]
    deleted_before: str = ""


class Archived(NamedTuple):
    """How far a partition is archived.

    Attributes:
        to_offset: Offset of the first record that is not.
        last_checksum: Checksum of the record before it; 0: not known.
    """

    to_offset: int
    last_checksum: int


_decoder = msgspec.json.Decoder(Manifest)


def manifest_name(number: int) -> str:
    """File name of the manifest *number*."""
    return f"{number:08d}.json"


def number_of(name: str) -> int | None:
    """Number of the manifest in a file *name*; None: it is none."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def range_name(partition: int, from_offset: int, to_offset: int, attempt: str) -> str:
    """Name of the folders of a range.

    Args:
        partition: Number of the partition.
        from_offset: Of the first record.
        to_offset: After the last one.
        attempt: 16 hexadecimal digits that no other attempt has.
    """
    return f"p{partition:04d}-{from_offset:020d}-{to_offset:020d}-{attempt}"


def is_range_name(name: str) -> bool:
    """Whether *name* is one of ``range_name``: nothing else is ever deleted."""
    return _RANGE.fullmatch(name) is not None


def encode(manifest: Manifest) -> bytes:
    """Encode *manifest* (JSON, so that people can read it)."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(content: bytes, number: int) -> Manifest:
    """Decode the manifest *number*.

    Raises:
        LogDamagedError: It is none.
        LogFormatError: A newer version wrote it.
    """
    name = f"{MANIFESTS}/{manifest_name(number)}"
    try:
        head = msgspec.json.decode(content, type=dict)
        if type(head.get("format")) is int and head["format"] > FORMAT_DELETES:
            raise LogFormatError(f"{name} of the archive is of a newer version: upgrade")
        found = _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamagedError(f"{name} of the archive is no manifest: {error}") from error
    if found.number != number:
        raise LogDamagedError(f"{name} of the archive says that it is number {found.number}")
    return found


@dataclass(slots=True)
class Contents:
    """All that an archive holds.

    Attributes:
        ranges: By partition, in order; with the files that are still there.
        count: Number of manifests.
        deleted_before: Days before this one are deleted (``2026-01-31``); empty: none is.
    """

    ranges: dict[int, list[ArchivedRange]] = field(default_factory=dict)
    count: int = 0
    deleted_before: str = ""

    def add(self, manifest: Manifest) -> None:
        """Add what *manifest* does; it is the next one.

        Raises:
            LogDamagedError: One before it is missing, or it holds records that are there already.
        """
        if manifest.number != self.count + 1:
            raise LogDamagedError(
                f"{MANIFESTS}/{manifest_name(self.count + 1)} of the archive is missing"
            )
        for each in manifest.ranges:
            archived = self.archived(each.partition)
            if not archived.to_offset <= each.from_offset < each.to_offset:
                raise LogDamagedError(
                    f"{MANIFESTS}/{manifest_name(manifest.number)} of the archive begins partition"
                    f" {each.partition} at {each.from_offset}, which is archived to"
                    f" {archived.to_offset}"
                )
            left = _since(each, self.deleted_before) if self.deleted_before else each
            self.ranges.setdefault(each.partition, []).append(left)
        if manifest.deleted_before > self.deleted_before:
            self.deleted_before = manifest.deleted_before
            for number, ranges in self.ranges.items():
                self.ranges[number] = [_since(each, self.deleted_before) for each in ranges]
        self.count = manifest.number

    def days(self) -> set[str]:
        """Days of which there are events."""
        files = (file for ranges in self.ranges.values() for each in ranges for file in each.files)
        return {day_of(file) for file in files}

    def readable(self, partition: int) -> list[ArchivedRange]:
        """The ranges of *partition* but for those of which everything is deleted."""
        return [each for each in self.ranges.get(partition, ()) if each.files or not each.events]

    def archived(self, partition: int) -> Archived:
        """How far *partition* is archived; 0: not at all."""
        ranges = self.ranges.get(partition)
        if not ranges:
            return Archived(0, 0)
        return Archived(ranges[-1].to_offset, ranges[-1].last_checksum)

    def positions(self) -> dict[int, int]:
        """Partition -> offset of the first record that is not archived."""
        return {number: ranges[-1].to_offset for number, ranges in self.ranges.items()}

    def names(self) -> set[str]:
        """Names of the folders of all ranges."""
        return {each.name for ranges in self.ranges.values() for each in ranges}


def day_of(file: ArchivedFile) -> str:
    """Day of the events of *file*, by UTC (``2026-01-31``)."""
    return day_in(file.path)


def day_in(path: str) -> str:
    """Day of the events of the file at *path*, below ``EVENTS``."""
    return path.partition("/")[0].removeprefix("day=")


def day_at(time_ms: int) -> str:
    """Day of *time_ms*, by UTC (``2026-01-31``)."""
    return str(datetime.fromtimestamp(time_ms // 1000, UTC).date())


def _since(found: ArchivedRange, day: str) -> ArchivedRange:
    """What is left of *found* when all before *day* is deleted."""
    files = tuple(file for file in found.files if day_of(file) >= day)
    if len(files) == len(found.files):
        return found
    begin_ms = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
    return msgspec.structs.replace(found, files=files, from_ms=max(found.from_ms, begin_ms))


def contents_of(manifests: Iterable[tuple[int, bytes]]) -> Contents:
    """Returns what an archive with these *manifests* holds.

    Args:
        manifests: Number and content of each, in any order.

    Raises:
        LogDamagedError: One cannot be read or is missing.
        LogFormatError: A newer version wrote one.
    """
    contents = Contents()
    for number, content in sorted(manifests):
        contents.add(decode(content, number))
    return contents


class Stretch(NamedTuple):
    """Records that are to be archived as one range."""

    partition: int
    from_offset: int
    to_offset: int


class Known(NamedTuple):
    """What the log has of a partition.

    Attributes:
        start: Offset of its oldest record.
        end: After its newest one.
        bounds: Offsets at which segments begin, ascending.
        log: What no partition of another log has; empty: it has no record yet, or its cluster
            gives topics no ids.
    """

    start: int
    end: int
    bounds: Sequence[int]
    log: str = ""


def plan(contents: Contents, log: Mapping[int, Known], *, newest: bool) -> list[Stretch]:
    """Returns what is to be archived: whole segments, and first the oldest of each partition.

    Args:
        contents: What is archived.
        log: What the log has, by partition.
        newest: The newest segment of each partition too, as far as it goes.

    Raises:
        SettingsError: The archive is ahead of the log, so it is not of this one.
    """
    by_partition = []
    for partition, known in sorted(log.items()):
        archived = contents.archived(partition).to_offset
        if archived > known.end:
            raise not_of_this_log(
                f"partition {partition} is archived to {archived} and the log ends at {known.end}"
            )
        by_partition.append(list(_stretches(partition, max(archived, known.start), known, newest)))
    longest = max(map(len, by_partition), default=0)
    return [each[turn] for turn in range(longest) for each in by_partition if turn < len(each)]


def _stretches(partition: int, begin: int, known: Known, newest: bool) -> Iterator[Stretch]:
    ends = [*known.bounds[1:], known.end] if newest else known.bounds[1:]
    for end in ends:
        if begin < end:
            yield Stretch(partition, begin, end)
            begin = end


def lost(contents: Contents, log: Mapping[int, Known]) -> list[Stretch]:
    """Returns records that retention has deleted before they were archived, since the last job."""
    found = []
    for partition, known in sorted(log.items()):
        archived = contents.archived(partition).to_offset
        if 0 < archived < known.start:
            found.append(Stretch(partition, archived, known.start))
    return found


def check_log(contents: Contents, logs: Mapping[int, str]) -> None:
    """See that what is archived is of this log, though it may have none of these records any more.

    Args:
        contents: What is archived.
        logs: Partition -> ``Known.log``.

    Raises:
        SettingsError: It is of another one.
    """
    for partition, log in logs.items():
        archived = {each.log for each in contents.ranges.get(partition, ()) if each.log}
        if log and archived - {log}:
            raise not_of_this_log(f"partition {partition} there is that of another one")


def check_there(contents: Contents, noted: Mapping[int, int], url: str) -> None:
    """See that an archive that has held something is still there.

    A folder that is not mounted has no manifests. An archive that was begun in its place would be
    hidden once it is mounted, with records that the log has no more.

    Args:
        contents: What was found.
        noted: Partition -> offset to which it was archived there, as far as the log's side knows.
        url: Of the archive.

    Raises:
        LogUnavailableError: It is gone.
    """
    if not contents.count and any(noted.values()):
        raise LogUnavailableError(
            f"there is no archive at {url} any more: is it mounted? If it was deleted, name another"
            " folder"
        )


def not_of_this_log(reason: str) -> SettingsError:
    """Returns the error for an archive that is of another log."""
    return SettingsError(
        f"the archive is of another log: {reason}. Name another folder: each log has its own, and"
        " so has one that was restored from a backup"
    )
