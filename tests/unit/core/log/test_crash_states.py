"""Whatever a crash leaves on the medium, what was acknowledged is there and nothing else is."""

import random

import pytest

from distributary.core.flow import RecordKind
from distributary.core.log import retain
from distributary.testing.small_log import PARTITION_DIR, Promise, SmallLog


def lost_or_invented(original, step, reopened):
    """What a reopened log gets wrong about the promises made up to *step*."""
    found = {logged.offset: logged for logged in reopened.records()}
    with reopened.reader() as reader:
        start = reader.start()
    faults = [
        f"lost {offset}"
        for at, offset, kind, body in original.promises
        if at <= step
        and offset >= start
        and (offset not in found or (found[offset].kind, found[offset].body) != (kind, body))
    ]
    faults += [
        f"invented {offset}"
        for offset, logged in found.items()
        if logged.body not in original.tried
    ]
    offsets = list(found)
    if offsets != list(range(offsets[0], offsets[0] + len(offsets)) if offsets else []):
        faults.append(f"gaps in {offsets}")
    if reopened.appender.damages:
        faults.append(f"damage reported: {reopened.appender.damages}")
    return faults


def check_every_crash(original):
    """Count the states, and reopen the log in each."""
    count = 0
    for state in original.disk.crash_states():
        count += 1
        reopened = original.reopened_on(state.disk)
        faults = lost_or_invented(original, state.step, reopened)
        assert not faults, f"after step {state.step}, {state.what}: {faults}"
        before = reopened.bodies()
        reopened.append(b"after the crash")
        assert [*before, b"after the crash"] == reopened.bodies()
        again = reopened.reopened_on(state.disk.copy())
        assert again.bodies() == reopened.bodies()
    return count


@pytest.mark.slow
def test_no_crash_loses_what_was_acknowledged():
    """Thousands of crash states over appends, rolls and reopening: none lost, none invented."""
    log = SmallLog()
    log.open()
    chance = random.Random(4)
    for round_ in range(14):
        log.append(
            *(
                bytes([round_, index]) * chance.randint(1, 500)
                for index in range(chance.randint(1, 4))
            )
        )
        log.appender.prepare()
        if round_ % 5 == 4:
            log.appender.close()
            log.open()
    count = check_every_crash(log)
    print("crash states:", count)
    assert count >= 2_000


@pytest.mark.slow
def test_no_crash_in_retention_leaves_a_hole():
    """A crash between any two steps of retention leaves a log without gaps and with its routes."""
    log = SmallLog(segment_bytes=1024)
    log.open()
    for index in range(12):
        log.append(b"%03d" % index * 100)
    steps_before = log.disk.step
    retain(
        PARTITION_DIR,
        9,
        bytes_max=0,
        age_max_s=1e9,
        now_ms=log.clock.wall_ms(),
        snapshot_at_cut=lambda cut: b"routes before %d" % cut,
        disk=log.disk,
    )
    count = 0
    for state in log.disk.crash_states():
        if state.step < steps_before:
            continue
        count += 1
        reopened = log.reopened_on(state.disk)
        assert not lost_or_invented(log, state.step, reopened), state.what
        with reopened.reader() as reader:
            start, snapshot = reader.start(), reader.route_snapshot()
        if start > 0:
            assert snapshot == (start, b"routes before %d" % start), state.what
    assert count > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_power_cut_loses_what_was_acknowledged(seed):
    """Ten power cuts in a row, each at a random step, with every un-synced byte gone."""
    chance = random.Random(seed)
    log = SmallLog()
    log.open()
    for cut in range(10):
        for _ in range(chance.randint(1, 6)):
            log.append(*(chance.randbytes(chance.randint(0, 900)) for _ in range(3)))
            if chance.random() < 0.3:
                log.appender.prepare()
        kept = [(offset, kind, body) for _, offset, kind, body in log.promises]
        log = log.reopened_on(log.disk.power_cut())
        assert [(r.offset, r.kind, r.body) for r in log.records()] == kept, f"cut {cut}"
        log.promises = [Promise(0, offset, kind, body) for offset, kind, body in kept]


def test_keeps_the_kind_of_each_record(log):
    """Route records come back as route records."""
    log.append(b"one")
    log.append(b"two", kind=RecordKind.ROUTE)
    assert [record.kind for record in log.records()] == [RecordKind.EVENTS, RecordKind.ROUTE]
