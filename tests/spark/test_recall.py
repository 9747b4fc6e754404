"""Recalled records: made of the archive again, as the log had them."""

import itertools

import pytest

from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.core.event import record
from distributary.core.event.binary import encode as encode_binary
from distributary.core.flow import RecordKind, events_of
from distributary.core.log import Reader
from distributary.core.log.recalled import Recalled, list_recalled
from distributary.datadir import DataDir
from distributary.datadir.archived import StretchesFile
from distributary.spark.archive.job import archive
from distributary.spark.archive.logs import FolderLog
from distributary.spark.archive.recall import Needed, Recaller
from kit import archives

EVENTS = {RecordKind.EVENTS, RecordKind.ADDRESSED, RecordKind.CARRIED}
HEADER = b"traceparent: 00-1\r\n"
ELSEWHERE = "viewfs://all"
"""The session's name of a file system, not this machine's, that has the same files."""


def _fill(log, event, count=240):
    """Events of each form, and records that are no events."""
    for number in range(count):
        partition = number % 2
        log.clock.now_ms += 1_000
        data = bytes([number % 256]) * 700
        match number % 7:
            case 0:
                log.append(partition, event(f"id-{number}", data, n=number, on=True), event("b"))
            case 1:
                lines = [b"ce-specversion: 1.0\r\n", f"ce-id: id-{number}\r\n".encode()]
                lines += [b"ce-source: /%C3%A9\r\nce-type: t\r\n", b"content-type: text/plain\r\n"]
                log.append_body(partition, RecordKind.EVENTS, encode_binary(lines, data))
            case 2:
                log.append_addressed(partition, "uid", event(f"id-{number}"), ttl=7, carried=HEADER)
            case 3:
                log.append_control(partition, b"{}")
            case 4:
                log.append_timer_event(partition, event("timer"))
            case 5:
                log.append_addressed(partition, "", event(f"id-{number}", b""), ttl=3)
            case _:
                log.append_addressed(partition, "uid", event(f"id-{number}", data), ttl=9)


@pytest.fixture
def archived(spark, log, event, tmp_path):
    """A session, a log, and its archive."""
    session = spark.newSession()
    _fill(log, event)
    paths = DataDir(log.data_dir)
    to = tmp_path / "archive"
    archive(session, archives.wanted(paths, str(to)))
    return session, paths, to


def test_what_is_recalled_is_what_the_log_has(archived, tmp_path):
    """Each event with its address, passes and carried lines; gaps where the archive has nothing.

    Whether the file system of the archive is this machine's or another.
    """
    session, paths, to = archived
    logs = FolderLog(paths).logs()
    for partition, there in itertools.product(range(2), ("", ELSEWHERE)):
        recaller = Recaller(session, f"{there}{to}", logs)
        folder = tmp_path / f"recalled{partition}{len(there)}"
        stretches = StretchesFile(paths.archived, str(to), partition).read()
        asked = [Needed(partition, each.to_offset - 1, folder) for each in stretches]
        brought = recaller.recall(asked)
        assert (brought.damaged, brought.missing) == (0, ())
        reader = Reader(paths.log, partition)
        end = reader.durable_end()
        wanted = [each for each in reader.read(0, end) if each.kind in EVENTS]
        reader.close()
        names = list_recalled(folder)
        assert [(each.from_offset, each.to_offset) for each in names] == [
            (each.from_offset, each.to_offset) for each in stretches
        ]
        found = [entry for name in names for entry in Recalled(folder, name).read(*name)]
        assert [(each.offset, each.time_ms) for each in found] == [
            (each.offset, each.time_ms) for each in wanted
        ]
        for mine, theirs in zip(found, wanted, strict=True):
            held, expected = events_of(mine), events_of(theirs)
            assert held == expected
            assert [[*each.attributes.items()] for each in held.events] == [
                [*each.attributes.items()] for each in expected.events
            ]
            if len(held.events) == 1 and mine.kind == RecordKind.EVENTS:
                assert mine.body == theirs.body  # byte for byte
                assert record.decode(mine.body) == record.decode(theirs.body)


def test_nothing_is_recalled_of_another_log(archived):
    """Its archive may have been mounted at the place of this one: these are not our events."""
    session, _, to = archived
    with pytest.raises(SettingsError, match="of another log: partition 1 there"):
        Recaller(session, str(to), {1: "another"})


def test_what_is_gone_or_damaged_is_left_out_and_told(archived):
    """A day that was deleted by hand holds nobody up, nor does a wrong byte."""
    session, paths, to = archived
    folder = paths.recalled(0)
    stretch, *_ = StretchesFile(paths.archived, str(to), 0).read()
    recaller = Recaller(session, str(to), {})
    nobody = recaller.recall([Needed(0, 1 << 40, folder)])
    assert nobody.stretches == 0
    for path in (to / "events").rglob("*.parquet"):
        if f"p0000-{stretch.from_offset:020d}" in str(path):
            path.unlink()
    brought = recaller.recall([Needed(0, stretch.from_offset, folder)])
    assert (brought.stretches, brought.events) == (1, 0)
    assert brought.missing
    (name,) = list_recalled(folder)
    file = Recalled(folder, name)
    assert list(file.read(*name)) == []
    assert file.lost(*name) == [tuple(name)]


def test_a_day_that_is_gone_or_broken_is_a_hole_between_the_others(archived, log, event):
    """Of one stretch over three days; an archive that is not there at all is none."""
    session, paths, to = archived
    begun = log.clock.now_ms
    firsts = []
    for number in range(90):
        log.clock.now_ms = begun + (1 + number // 30) * 86_400_000
        firsts.append(log.append(0, event(f"day-{number}", b"x" * 10)))
    archive(session, archives.wanted(paths, str(to)))
    stretch = next(
        each
        for each in StretchesFile(paths.archived, str(to), 0).read()
        if each.from_offset <= firsts[0] and firsts[-1] < each.to_offset
    )
    folder = paths.recalled(0)
    recaller = Recaller(session, str(to), {})
    asked = [Needed(0, stretch.from_offset, folder)]
    files = sorted((to / "events").rglob(f"range=p0000-{stretch.from_offset:020d}-*/*.parquet"))

    def spoil():
        files[1].write_bytes(b"PAR1 no")

    def spoil_elsewhere():
        files[1].with_name(f".{files[1].name}.crc").unlink()

    elsewhere = Recaller(session, f"{ELSEWHERE}{to}", {})
    for change, by in (
        (spoil, recaller),
        (spoil_elsewhere, elsewhere),
        (files[1].unlink, recaller),
        (lambda: None, elsewhere),
    ):
        change()
        brought = by.recall(asked)
        assert brought.missing == (str(files[1].relative_to(to / "events")),)
        (name,) = [each for each in list_recalled(folder) if each.from_offset == asked[0].offset]
        file = Recalled(folder, name)
        assert file.lost(*name) == [(firsts[30], firsts[60])]
        assert not {each.offset for each in file.read(*name)} & set(firsts[30:60])
        assert {each.offset for each in file.read(*name)} >= {*firsts[:30], *firsts[60:]}
        name.path(folder).unlink()
    to.rename(to.with_name("elsewhere"))
    with pytest.raises(LogUnavailableError, match="there is no archive at"):
        recaller.recall(asked)
    assert list_recalled(folder) == []
