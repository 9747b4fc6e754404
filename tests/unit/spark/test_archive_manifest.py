"""What an archive holds by its manifests: nothing twice, nothing that is not named."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import (
    LogDamagedError,
    LogFormatError,
    LogUnavailableError,
    SettingsError,
)
from distributary.spark.archive import manifest as archive
from distributary.spark.archive.manifest import ArchivedFile, ArchivedRange, Known, Manifest


def _range(partition, first, last, attempt="0" * 16, checksum=7, *, log=""):
    name = archive.range_name(partition, first, last, attempt)
    return ArchivedRange(
        partition=partition,
        from_offset=first,
        to_offset=last,
        events=last - first,
        check=1,
        from_ms=1,
        to_ms=2,
        last_checksum=checksum,
        name=name,
        files=(ArchivedFile(f"day=2026-11-24/range={name}/a.parquet", 10, last - first),),
        log=log,
    )


def _manifest(number, *ranges):
    return number, archive.encode(
        Manifest(format=archive.FORMAT, number=number, ranges=tuple(ranges))
    )


def test_manifests_add_up_in_any_order_of_listing():
    """A listing has no order; the numbers have."""
    contents = archive.contents_of(
        [
            _manifest(2, _range(0, 5, 9, checksum=8)),
            _manifest(1, _range(0, 0, 5), _range(1, 3, 4)),
        ]
    )
    assert contents.positions() == {0: 9, 1: 4}
    assert contents.archived(0) == (9, 8)
    assert contents.archived(2) == (0, 0)
    assert contents.count == 2
    assert contents.names() == {
        archive.range_name(*each, "0" * 16) for each in ((0, 0, 5), (0, 5, 9), (1, 3, 4))
    }


@pytest.mark.parametrize(
    ("manifests", "said"),
    [
        ([_manifest(2, _range(0, 0, 5))], "00000001.json of the archive is missing"),
        ([_manifest(1, _range(0, 0, 5)), _manifest(3)], "00000002.json of the archive is missing"),
        (
            [_manifest(1, _range(0, 0, 5)), _manifest(2, _range(0, 4, 9))],
            "begins partition 0 at 4, which is archived to 5",
        ),
        ([(1, b"{")], "no manifest"),
        ([(1, b'{"format": 1}')], "no manifest"),
        ([(1, _manifest(2)[1])], "says that it is number 2"),
    ],
)
def test_manifests_that_do_not_fit_are_refused(manifests, said):
    """A gap, records twice, or what is no manifest: never read around."""
    with pytest.raises(LogDamagedError, match=said):
        archive.contents_of(manifests)


def test_a_newer_format_is_refused():
    """Never guessed at."""
    with pytest.raises(LogFormatError, match="upgrade"):
        archive.contents_of([(1, b'{"format": 3, "other": []}')])


def test_only_names_of_ranges_are_names_of_ranges():
    """Nothing else is ever deleted."""
    assert archive.is_range_name(archive.range_name(3, 0, 12, "0123456789abcdef"))
    assert not archive.is_range_name("p0000-1-2-abc")
    assert archive.number_of("00000012.json") == 12
    assert archive.number_of("00000012.json.tmp") is None


def test_whole_segments_are_planned_the_oldest_of_each_partition_first():
    """So no partition waits for another one."""
    log = {0: Known(10, 45, [10, 20, 40]), 1: Known(0, 7, [0])}
    empty = archive.Contents()
    assert archive.plan(empty, log, newest=False) == [(0, 10, 20), (0, 20, 40)]
    assert archive.plan(empty, log, newest=True) == [
        *((0, 10, 20), (1, 0, 7)),
        *((0, 20, 40), (0, 40, 45)),
    ]
    half = archive.contents_of([_manifest(1, _range(0, 10, 25))])
    assert archive.plan(half, log, newest=False) == [(0, 25, 40)]
    assert archive.lost(half, log) == []


def test_what_retention_deleted_before_is_told_and_left_out():
    """Without the setting nothing holds retention back."""
    contents = archive.contents_of([_manifest(1, _range(0, 0, 5))])
    log = {0: Known(10, 45, [10, 20])}
    assert archive.lost(contents, log) == [(0, 5, 10)]
    assert archive.plan(contents, log, newest=False) == [(0, 10, 20)]


def test_an_archive_of_another_log_is_refused_though_no_record_can_be_compared():
    """The log may begin behind all that is archived; earlier versions noted no log."""
    contents = archive.contents_of(
        [_manifest(1, _range(0, 0, 5)), _manifest(2, _range(0, 5, 9, log="a"), _range(1, 0, 3))]
    )
    archive.check_log(contents, {0: "a", 1: "b"})
    archive.check_log(contents, {0: ""})
    with pytest.raises(SettingsError, match="of another log: partition 0"):
        archive.check_log(contents, {0: "b", 1: "b"})


def test_an_archive_that_is_gone_is_not_begun_anew():
    """It would be hidden once its file system is mounted, with what the log has no more."""
    contents = archive.contents_of([_manifest(1, _range(0, 0, 5))])
    archive.check_there(contents, {0: 5}, "/mnt/a")
    for never in ({}, {0: 0}):
        archive.check_there(archive.contents_of([]), never, "/mnt/a")
    with pytest.raises(LogUnavailableError, match="no archive at /mnt/a any more"):
        archive.check_there(archive.contents_of([]), {0: 0, 1: 5}, "/mnt/a")


def test_an_archive_ahead_of_the_log_is_of_another_one():
    """Offsets of one log never go back."""
    contents = archive.contents_of([_manifest(1, _range(0, 0, 50))])
    with pytest.raises(SettingsError, match="archived to 50 and the log ends at 45"):
        archive.plan(contents, {0: Known(10, 45, [10])}, newest=False)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=6),
)
def test_jobs_killed_anywhere_archive_each_record_once(lengths, jobs):
    """Each job writes some of its plan in steps of two; what it leaves half done does not count."""
    bounds = [sum(lengths[:index]) for index in range(len(lengths))]
    log = {0: Known(0, sum(lengths), bounds)}
    manifests = []
    for steps, newest in [*jobs, (100, True)]:
        contents = archive.contents_of(manifests)
        stretches = archive.plan(contents, log, newest=newest)
        for step in range(0, min(len(stretches), steps * 2), 2):
            ranges = [_range(*each) for each in stretches[step : step + 2]]
            manifests.append(_manifest(len(manifests) + 1, *ranges))
    ranges = archive.contents_of(manifests).ranges[0]
    offsets = [offset for each in ranges for offset in range(each.from_offset, each.to_offset)]
    assert offsets == list(range(sum(lengths)))


def test_days_are_deleted_of_what_was_archived_before_and_of_what_comes_later():
    """Positions stay, so that nothing is archived again; the folders of such days are swept."""
    day = {"format": archive.FORMAT_DELETES, "ranges": (), "deleted_before": "2026-11-25"}
    old = _range(0, 0, 5)
    parts = (*old.files, ArchivedFile(f"day=2026-11-25/range={old.name}/b.parquet", 10, 1))
    both = msgspec.structs.replace(_range(1, 0, 5), files=parts)
    contents = archive.contents_of([_manifest(1, old, both)])
    assert contents.days() == {"2026-11-24", "2026-11-25"}
    contents.add(archive.decode(archive.encode(Manifest(number=2, **day)), 2))
    assert contents.positions() == {0: 5, 1: 5}
    assert contents.readable(0) == []
    (left,) = contents.readable(1)
    assert [file.path for file in left.files] == [parts[1].path]
    assert left.from_ms == 1_795_564_800_000
    assert contents.days() == {"2026-11-25"}
    late = _range(0, 9, 12)
    newer = ArchivedFile(f"day=2026-11-26/range={late.name}/c.parquet", 10, 1)
    late = msgspec.structs.replace(late, files=(*late.files, newer))
    contents.add(archive.decode(_manifest(3, _range(0, 5, 9), late)[1], 3))
    assert contents.positions() == {0: 12, 1: 5}
    (left,) = contents.readable(0)
    assert left.from_offset == 9
    assert left.files == (newer,)
    assert contents.days() == {"2026-11-25", "2026-11-26"}
