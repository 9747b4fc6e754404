"""Reading of history files: filters, order, and files that change meanwhile."""

from datetime import UTC, datetime

import pytest

from distributary.core.errors import StoreError
from distributary.history.reading import HistoryReader, Question
from kit.history_files import DEAD, DELIVERED, RETRIED, row, write_rows

NOW_S = 1_795_000_000.0


@pytest.fixture
def folder(tmp_path):
    """Two partitions, two days; the second event of partition 0 failed twice."""
    write_rows(
        tmp_path, row(0, NOW_S - 90_000, **DELIVERED), row(1, NOW_S - 89_999, "bills", **RETRIED)
    )
    write_rows(
        tmp_path,
        row(2, NOW_S, "bills", **DEAD | {"event_id": "id-1"}),
        row(3, NOW_S + 2, stage=None, attempt=None, outcome="dropped", reason="expired"),
    )
    write_rows(tmp_path, row(0, NOW_S + 1, partition=1, **DELIVERED))
    return tmp_path


def _asked(folder, **question):
    rows = HistoryReader(folder, Question(**question)).rows()
    return [(found["partition"], found["number"]) for found in rows]


def test_rows_come_by_time_over_all_partitions(folder):
    """As people read a story."""
    assert _asked(folder) == [(0, 0), (0, 1), (0, 2), (1, 0), (0, 3)]


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ({"subscription": "bills"}, [(0, 1), (0, 2)]),
        ({"subscription": "uid-of-bills"}, [(0, 1), (0, 2)]),
        ({"event": "id-1"}, [(0, 1), (0, 2)]),
        ({"failures": True}, [(0, 1), (0, 2), (0, 3)]),
        ({"since": datetime.fromtimestamp(NOW_S + 1, UTC)}, [(1, 0), (0, 3)]),
        ({"subscription": "bills", "since": datetime.fromtimestamp(NOW_S, UTC)}, [(0, 2)]),
        ({"subscription": "nobody"}, []),
    ],
    ids=str,
)
def test_only_what_was_asked_for_comes(folder, question, rows):
    """Conditions add up."""
    assert _asked(folder, **question) == rows


def test_later_calls_yield_what_is_new(folder):
    """Each row once, although small files became a large one meanwhile."""
    reader = HistoryReader(folder, Question())
    assert len(list(reader.rows())) == 5
    assert list(reader.rows()) == []
    for path in folder.glob("date=*/p0000*"):
        if "2-" in path.name:
            path.unlink()
    write_rows(folder, *(row(number, NOW_S + number) for number in range(2, 6)))
    assert [found["number"] for found in reader.rows()] == [4, 5]


def test_a_superseded_file_is_not_read(folder):
    """A crash left it beside the file that it was merged into."""
    write_rows(folder, *(row(number, NOW_S + number) for number in range(2, 5)))
    assert [number for partition, number in _asked(folder) if partition == 0] == [0, 1, 2, 3, 4]


def test_a_file_that_is_merged_while_others_are_read_loses_no_row(folder):
    """It was listed, and is gone when its turn comes."""
    found = HistoryReader(folder, Question()).rows()
    numbers = [next(found)["number"]]
    (old,) = (path for path in folder.glob("date=*/p0000*") if "2-0" in path.name)
    old.unlink()
    write_rows(folder, *(row(number, NOW_S + number) for number in range(2, 6)))
    numbers += [each["number"] for each in found if each["partition"] == 0]
    assert numbers == [0, 1, 2, 3, 4, 5]


def test_a_damaged_file_is_named_and_passed_over(folder):
    """The rows of the others can still be had."""
    (path,) = (path for path in folder.glob("date=*/p0000*") if "2-0" in path.name)
    path.write_bytes(b"PAR1 no more")
    reader = HistoryReader(folder, Question())
    with pytest.raises(StoreError, match=path.name):
        list(reader.rows())
    write_rows(folder, row(4, NOW_S + 9))
    assert [found["number"] for found in reader.rows() if found["partition"] == 0] == [4]
