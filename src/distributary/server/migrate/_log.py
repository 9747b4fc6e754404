"""Copies the records of the log into the topic, and compares them afterwards.

A record's place in the topic is its number less that of the oldest one, so a copy that was
interrupted goes on behind what the topic holds. Each step counts the topic's records first: it
never relies on what another process remembers.
"""

from collections.abc import Callable, Iterator
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.flow import Logged
from distributary.core.log.kafka import KafkaRecords, MemorySnapshots
from distributary.core.log.kafka.copying import TopicCopy
from distributary.server.migrate._errors import MigrationError
from distributary.server.migrate._source import PartitionSource

STEP_RECORDS: Final = 5_000
"""Records between two reports of how far it is."""

Progress = Callable[[int, int], None]
"""Called with the records that are done, and those that there are."""


def copied(place: KafkaPlace, source: PartitionSource) -> int:
    """How many records the topic's partition holds.

    Raises:
        MigrationError: More than the log has, or some were deleted: they are somebody else's.
    """
    records = KafkaRecords(place, source.partition, MemorySnapshots())
    try:
        first, end = records.first(), records.durable_end()
    finally:
        records.close()
    if first or end > source.end - source.start:
        raise MigrationError(
            f"the topic of {place} is not empty: partition {source.partition} holds the records"
            f" {first} to {end}. Name another prefix, or delete the topic"
        )
    return end


def copy(place: KafkaPlace, sources: list[PartitionSource], progress: Progress) -> int:
    """Copy what the topic lacks; returns how many records.

    Raises:
        MigrationError: The topic holds something else.
        LogError: The cluster failed; begin again, and the copy goes on.
    """
    count = sum(source.end - source.start for source in sources)
    there = {source.partition: copied(place, source) for source in sources}
    done = before = sum(there.values())
    target = TopicCopy(place)
    try:
        for source in sources:
            who = source.publishers.noted()
            for offset, logged in _records(source, source.start + there[source.partition]):
                if logged is None:
                    target.leave_out(source.partition, 0)
                else:
                    by = who(offset) or ""
                    target.append(source.partition, logged.kind, logged.body, logged.time_ms, by)
                done += 1
                if done % STEP_RECORDS == 0:
                    progress(done, count)
            target.flush()
    finally:
        target.close()
    progress(done, count)
    return done - before


def compare(place: KafkaPlace, source: PartitionSource, progress: Progress) -> int:
    """Compare each record of a partition with its copy: kind, content, time; returns how many.

    Raises:
        MigrationError: They differ.
        LogError: The cluster failed.
    """
    records = KafkaRecords(place, source.partition, MemorySnapshots())
    try:
        if copied(place, source) != source.end - source.start:
            raise _differs(source, source.end - source.start)
        copies = records.read(0, source.end - source.start)
        found = next(copies, None)
        for offset, logged in _records(source, source.start):
            at = offset - source.start
            if logged is None:
                if found is not None and found.offset == at:
                    raise _differs(source, at)
            elif found is None or not _same(found, logged, at, source):
                raise _differs(source, at)
            else:
                found = next(copies, None)
            if (at + 1) % STEP_RECORDS == 0:
                progress(at + 1, source.end - source.start)
    finally:
        records.close()
    return source.end - source.start


def _same(found: Logged, logged: Logged, at: int, source: PartitionSource) -> bool:
    # The checksum covers number, kind, time and body.
    return found.offset == at and found.checksum == source.checksum_after(logged)


def _differs(source: PartitionSource, at: int) -> MigrationError:
    return MigrationError(
        f"record {at} of partition {source.partition} of the topic is not what the log holds:"
        " delete the topic and begin again"
    )


def _records(source: PartitionSource, first: int) -> Iterator[tuple[int, Logged | None]]:
    """Each number from *first* to the end with its record; None: it is damaged."""
    following = first
    for logged in source.records.read(first, source.end):
        while following < logged.offset:
            yield following, None
            following += 1
        yield logged.offset, logged
        following = logged.offset + 1
    while following < source.end:
        yield following, None
        following += 1
