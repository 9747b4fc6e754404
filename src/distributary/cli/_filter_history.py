"""Reads the events of the log for ``distributary filter --history``, in the order they were logged.

Callers: ``_filter``. Hides: partitions and records. Needs no server; whoever may read the files of
the data directory may ask. Memory: a block of each partition.
"""

import contextlib
import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from distributary.cli import _times
from distributary.cli._outgoing import Unreadable
from distributary.core.errors import Fault, SettingsError
from distributary.core.event import Event
from distributary.core.flow import RecordKind, events_of
from distributary.core.log import Reader, read_folder


class Range(NamedTuple):
    """Which events of the log are tried.

    Attributes:
        data_dir: The data directory.
        from_ms: Logged then or later, milliseconds since 1970.
        to_ms: Logged before.
        broker: Uid of the Broker or Channel that they were published to; empty: the default one.
    """

    data_dir: Path
    from_ms: int
    to_ms: int
    broker: str


def asked(
    *, history: bool, data_dir: Path, since: str | None, until: str | None, broker: str | None
) -> Range | None:
    """Returns the range that the flags ask for; None: no history.

    Raises:
        SettingsError: Flags of a history without ``--history``, or a time that is none.
    """
    if not history:
        given = {"--from": since, "--to": until, "--broker": broker}
        extra = [flag for flag, value in given.items() if value is not None]
        if extra:
            raise SettingsError(f"{', '.join(extra)}: only with --history")
        return None
    from_ms = 0 if since is None else _times.moment_ms("--from", since)
    to_ms = _times.MOMENT_MS_MAX if until is None else _times.moment_ms("--to", until)
    if from_ms >= to_ms:
        raise SettingsError("--from: must be before --to")
    return Range(data_dir, from_ms, to_ms, broker or "")


def entries(wanted: Range) -> Iterator[tuple[str, Event | Unreadable]]:
    """Yields the events of *wanted* with their place, ``partition:offset:index``.

    Records that the log has lost are an entry too, at ``partition:offset`` of the first.

    Raises:
        LogError: The folder has no log, or one of a newer version.
    """
    log_dir = wanted.data_dir / "log"
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(contextlib.closing(Reader(log_dir, number)))
            for number in range(read_folder(log_dir))
        ]
        merged = heapq.merge(
            *(_of_partition(reader, wanted) for reader in readers), key=lambda each: each[0]
        )
        for _, place, entry in merged:
            yield place, entry


_Entry: TypeAlias = tuple[int, str, Event | Unreadable]
"""When it was logged, its place, and what is there."""


def _of_partition(reader: Reader, wanted: Range) -> Iterator[_Entry]:
    at, last = reader.offset_at(wanted.from_ms), reader.offset_at(wanted.to_ms)
    time_ms = wanted.from_ms
    for logged in reader.read(at, last):
        time_ms = logged.time_ms
        if at < logged.offset:
            yield time_ms, f"{reader.partition}:{at}", _lost(at, logged.offset)
        at = logged.offset + 1
        held = None if logged.kind == RecordKind.TIMER_EVENT else events_of(logged)
        if held is None or held.address != wanted.broker:
            continue
        for index, event in enumerate(held.events):
            yield time_ms, f"{reader.partition}:{logged.offset}:{index}", event
    if at < last:
        yield time_ms, f"{reader.partition}:{at}", _lost(at, last)


def _lost(first: int, end: int) -> Unreadable:
    count = "1 record is" if end - first == 1 else f"{end - first:,} records are"
    return Unreadable(first, (Fault("$", "missing", f"{count} damaged, or lost by the disk"),))
