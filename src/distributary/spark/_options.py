"""Parses the options of the format ``distributary``; reports every fault at once.

Called by ``format``. Hides: Spark passes options as strings, with names in any case.
"""

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from distributary.core.errors import SettingsError
from distributary.core.log.reader_notes import NAME
from distributary.spark._places import PLACE_NAMES, Places, parse_places
from distributary.spark._reading_options import OptionReader
from distributary.spark._secret_names import looks_secret

EARLIEST: Final = -2
"""In a JSON bound: the oldest record that is kept (the numbers are those of Spark's Kafka)."""

LATEST: Final = -1
"""In a JSON bound: the durable end."""

TABLES: Final = ("events", "outcomes", "attempts", "dead_letters", "subscriptions")
"""Names of the tables."""

_RECORDS_PER_TASK_DEFAULT: Final = 100_000
"""A third of a second of work: long against the 0.05 s that a task costs, short enough to share
a large range among all cores."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Start or end of a read as requested, not yet resolved to offsets of the log.

    Attributes:
        kind: ``earliest``, ``latest``, ``offsets`` (see ``offsets``) or ``time`` (``time_ms``).
        offsets: Partition -> offset, ``EARLIEST`` or ``LATEST``. Default of a partition that is
            not named: earliest for a start, latest for an end.
        time_ms: Milliseconds since 1970; the first record appended at or after it.
    """

    kind: Literal["earliest", "latest", "offsets", "time"]
    offsets: Mapping[int, int] = field(default_factory=dict)
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Parsed options of a read.

    Attributes:
        places: Where the table lies.
        table: Which table: one of ``TABLES``.
        start: Where to begin (the checkpoint of a streaming query overrides it).
        end: Where a batch ends, exclusive; a stream has no end.
        records_per_trigger_max: Limit of log records in one micro-batch; None: no limit.
        records_per_task_max: A batch read splits a partition into tasks of so many records.
        archive: Path or URL of the archive of the log, whose events are read with those of the
            log; empty: none.
        reader: Name under which a stream is registered, so that retention holds what it has not
            read yet; empty: it is not.
        fail_on_data_loss: Whether a read fails on deleted or damaged records; otherwise it skips
            them with a warning.
    """

    places: Places
    table: str
    start: Bound
    end: Bound
    records_per_trigger_max: int | None
    records_per_task_max: int
    fail_on_data_loss: bool
    archive: str = ""
    reader: str = ""


_NAMES: Final = (
    *PLACE_NAMES,
    "table",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxRecordsPerTrigger",
    "recordsPerTask",
    "failOnDataLoss",
    "archive",
    "reader",
)


def parse_options(
    options: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> FormatOptions:
    """Parse *options*, with names in any case, as everywhere in Spark; reads files they name.

    Raises:
        SettingsError: Unknown names, invalid values, options that exclude one another: all of them
            in one message.
    """
    reader = OptionReader(options, frozenset(_LOWER), _unknown)
    given, faults, read = reader.given, reader.faults, reader.read

    faults += [
        f"{side}Offsets and {side}Timestamp exclude one another"
        for side in ("starting", "ending")
        if f"{side}offsets" in given and f"{side}timestamp" in given
    ]
    earliest, latest = Bound("earliest"), Bound("latest")
    start = read("startingTimestamp", _time, read("startingOffsets", _offsets, earliest))
    end = read("endingTimestamp", _time, read("endingOffsets", _offsets, latest))
    misplaced: list[str] = []
    parsed = FormatOptions(
        places=parse_places(options, environ, misplaced),
        table=read("table", _table, TABLES[0]),
        start=start,
        end=end,
        records_per_trigger_max=read("maxRecordsPerTrigger", _count, None),
        records_per_task_max=read("recordsPerTask", _count, _RECORDS_PER_TASK_DEFAULT),
        fail_on_data_loss=read("failOnDataLoss", _truth, default=True),
        archive=read("archive", _archive, ""),
        reader=read("reader", _reader, ""),
    )
    faults += misplaced or filter(None, [parsed.places.lack(parsed.table)])
    others = sorted(_LOWER[name] for name in given.keys() & _OF_EVENTS)
    if parsed.table != "events" and others:
        faults.append(f"{', '.join(others)}: of the table events alone")
    if parsed.reader and parsed.places.log is not None and parsed.places.store is None:
        faults.append("reader: needs store: there it notes how far it is")
    _refuse(faults)
    return parsed


def tables_of(
    options: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Returns which tables lie at the places that *options* name.

    Raises:
        SettingsError: They cannot be used, or name nothing.
    """
    faults: list[str] = []
    places = parse_places(options, environ, faults)
    lacks = {table: places.lack(table) for table in TABLES}
    if all(lacks.values()):
        faults.append(lacks[TABLES[0]])
    _refuse(faults)
    return tuple(table for table, lack in lacks.items() if not lack)


def _refuse(faults: list[str]) -> None:
    if faults:
        raise SettingsError("options of the format distributary: " + "; ".join(faults))


_LOWER: Final = {name.lower(): name for name in _NAMES}
_OF_EVENTS: Final = _LOWER.keys() - {name.lower() for name in (*PLACE_NAMES, "table")}


def _unknown(name: str) -> str:
    if looks_secret(name):
        return (
            f"{name}: options stand in plans and in the catalog; give logPasswordFrom or "
            "storePasswordFrom = env:NAME or file:PATH instead, and replace this secret"
        )
    near = difflib.get_close_matches(name.lower(), _LOWER, n=1, cutoff=0.7)
    hint = f"did you mean {_LOWER[near[0]]}?" if near else f"known: {', '.join(_NAMES)}"
    return f"{name}: unknown; {hint}"


def _table(text: str) -> str:
    if text not in TABLES:
        raise ValueError(f"expected one of {', '.join(TABLES)}")
    return text


def _archive(text: str) -> str:
    if "?" in text or "#" in text or not text.isprintable():
        raise ValueError("expected a path, or a URL such as s3a://bucket/archive")
    return text.rstrip("/") or "/"


def _reader(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("expected up to 64 letters, digits, dots, - and _")
    return text


def _offsets(text: str) -> Bound:
    if text.lower() == "earliest":
        return Bound("earliest")
    if text.lower() == "latest":
        return Bound("latest")
    wanted = 'expected earliest, latest, or JSON such as {"0": 1200, "1": -2}'
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(wanted) from error
    if not isinstance(value, dict):
        raise ValueError(wanted)  # noqa: TRY004 - one kind of error for what a user typed
    offsets = {}
    for partition, offset in value.items():
        if not re.fullmatch(r"\d{1,9}", partition):
            raise ValueError(f"{partition!r} is not a partition number")
        if type(offset) is not int or offset < EARLIEST:
            raise ValueError(f"partition {partition}: an offset from 0, -1 (latest), -2 (earliest)")
        offsets[int(partition)] = offset
    return Bound("offsets", offsets)


def _time(text: str) -> Bound:
    """Parse RFC 3339 with an offset, or milliseconds since 1970."""
    if re.fullmatch(r"\d{1,15}", text):
        return Bound("time", time_ms=int(text))
    wanted = "expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(wanted) from error
    if moment.tzinfo is None:
        raise ValueError(f"{wanted}; the offset from UTC is missing")
    # Rounded up: the first millisecond that is not before the moment.
    micros = round(moment.timestamp() * 1_000_000)
    return Bound("time", time_ms=-(-micros // 1000))


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text) or int(text) == 0:
        raise ValueError("expected a number from 1")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"
