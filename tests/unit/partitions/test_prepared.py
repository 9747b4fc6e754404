"""What a process reads before it owns a partition: the ids of the window."""

import gc
from types import SimpleNamespace

import pytest

from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import RecordKind
from distributary.core.log.recalled import ABSENT
from distributary.core.log.taken import OnceLimits
from distributary.core.meter import Meter
from distributary.partitions._once import Once
from distributary.partitions._prepared import Prepared
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock
from kit.simulation.ports import SimulatedTargets

LIMITS = OnceLimits(3600.0, 100)


class Targets(SimulatedTargets):
    """No resources."""

    def refresh(self):
        """Nothing is new."""
        return False


class Lent(MemoryLog):
    """A log that notes the lowest record that was read of late."""

    lowest = 1 << 60

    def read(self, from_offset, to_offset):
        """See ``MemoryLog``."""
        self.lowest = min(self.lowest, from_offset)
        return super().read(from_offset, to_offset)


@pytest.fixture
def log():
    """Ten events."""
    made = Lent(VirtualClock())
    append(made, *range(10))
    return made


def append(log, *numbers):
    """Append an event with each number."""
    for number in numbers:
        event = Event({"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}, None)
        log.append([(RecordKind.EVENTS, event_record.encode([event]))])


def places_of(records, folder, cursor=0, targets=Targets):
    """Places of any partition."""
    return SimpleNamespace(
        targets=targets,
        records=records,
        cursor=lambda _partition, _records: cursor,
        routes_at=lambda _partition: None,
        scratch=SimpleNamespace(routes=lambda _partition: folder / "routes"),
    )


def prepared_for(log, folder, cursor):
    """What a process has prepared of partition 3."""
    made = Prepared(places_of(lambda _partition: log, folder, cursor))
    made.prepare(3, LIMITS)
    gc.unfreeze()  # this process goes on with other tests
    return made


@pytest.mark.parametrize(
    ("limits", "count", "read"),
    [(None, 1_000, False), (None, 1_001, True), (LIMITS, 1, True)],
    ids=["few routes", "many routes", "a window"],
)
def test_what_an_owner_reads_as_soon_by_itself_is_left_to_it(tmp_path, limits, count, read):
    """Its partition waits: the log is opened once, and not twice."""
    opened = []

    class Some(Targets):
        def count(self):
            return count

    def records(partition):
        opened.append(partition)
        return MemoryLog(VirtualClock())

    prepared = Prepared(places_of(records, tmp_path, targets=Some))
    prepared.prepare(3, limits, owned=True)
    gc.unfreeze()
    assert opened == [3] * read


def once_of(log, limits=LIMITS):
    """The repeats of *log*."""
    return Once(
        limits,
        lambda: log,
        clock=VirtualClock(),
        meter=Meter(),
        report=lambda _event, _fields: None,
    )


@pytest.mark.parametrize(
    ("partition", "limits", "lowest"),
    [(3, LIMITS, 10), (4, LIMITS, 0), (3, OnceLimits(60.0, 100), 0)],
    ids=["known", "another partition", "another window"],
)
def test_an_owner_reads_what_came_since_it_was_prepared(tmp_path, log, partition, limits, lowest):
    """Of that partition and that window; else all of it. It finds the same repeats."""
    prepared = prepared_for(log, tmp_path, 10)
    append(log, 10, 11)
    log.lowest = 1 << 60
    once = once_of(log, limits)
    prepared.begin(once, partition, 12)
    assert log.lowest == lowest
    append(log, 3, 11, 12)
    judged = map(once.judged, log.read(12, 15))
    assert [logged.offset for logged in judged if logged.kind == ABSENT] == [12, 13]


def test_the_ids_of_an_owner_are_there_for_the_next_one(tmp_path, log):
    """In the same process, whose cursor may be below what the one before had taken."""
    prepared = prepared_for(log, tmp_path, 10)
    once = once_of(log)
    prepared.begin(once, 3, 10)
    append(log, 3, 10)
    assert [once.judged(logged).kind for logged in log.read(10, 12)] == [ABSENT, RecordKind.EVENTS]
    prepared.end(once, 3)
    log.lowest = 1 << 60
    again = once_of(log)
    prepared.begin(again, 3, 10)
    assert log.lowest == 1 << 60
    assert [again.judged(logged).kind for logged in log.read(10, 12)] == [ABSENT, RecordKind.EVENTS]
