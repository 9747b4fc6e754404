"""Where the tables of the history are read: a path, a URL, and what stands there."""

import pytest
from pyarrow import fs

from distributary.core.errors import StoreError
from distributary.spark import _history_tables
from distributary.spark._history_tables import OUTCOMES, HistoryTable
from distributary.spark._options import parse_options
from kit.history_files import DELIVERED, RETRIED, row, write_rows

URL = "s3a://bucket/shop/history"


def _table(where):
    return HistoryTable(parse_options({"table": "outcomes", "history": str(where)}, {}), OUTCOMES)


def _numbers(table):
    spans = table.plan()
    return [
        value
        for span in spans
        for batch in table.read(span)
        for value in batch.column("number").to_pylist()
    ]


@pytest.fixture
def history(tmp_path):
    """Three rows in two files, which a merged file holds too; and what is no history file."""
    folder = tmp_path / "bucket" / "shop" / "history"
    rows = [row(0, 1_000.0, **DELIVERED), row(1, 1_001.0, **RETRIED), row(2, 1_002.0, **DELIVERED)]
    file = write_rows(folder, *rows[:2])
    write_rows(folder, *rows[2:])
    write_rows(folder, *rows)
    hidden = (folder / file.path).with_name(".p0000-half.parquet")
    hidden.write_bytes(b"half")
    write_rows(folder / "copy", row(7, 1_003.0, **DELIVERED))
    return folder


@pytest.fixture
def bucket(monkeypatch, tmp_path, history):
    """A file system whose root is the folder of the test, opened for each URL that is asked for."""
    root = str(history.relative_to(tmp_path))
    asked = []

    def opened(url):
        asked.append(url)
        return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), root

    monkeypatch.setattr(_history_tables, "open_folder", opened)
    return asked


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_history_at_a_path_has_each_row_once(history, form):
    """However the path is written; merged, hidden and copied files double nothing."""
    assert _numbers(_table(form.format(history))) == [0, 2]


def test_a_history_at_a_url_has_each_row_once(bucket):
    """The same, on a file system that has another root."""
    assert _numbers(_table(URL)) == [0, 2]
    assert set(bucket) == {URL}


@pytest.mark.parametrize("lies", ["nowhere", "file"])
def test_a_history_that_is_not_there_is_told(tmp_path, lies):
    """Where rows are planned, and where a task of another machine reads them."""
    (tmp_path / "file").write_text("no folder")
    table = _table(tmp_path / lies)
    with pytest.raises(StoreError, match="there is no history at"):
        table.plan()
    with pytest.raises(StoreError, match="there is no history at"):
        list(table.read(_history_tables.HistoryRange(0, 0, 5)))


def test_an_empty_history_has_no_rows(tmp_path):
    """A server that has just started keeps a folder, and nothing in it."""
    assert _table(tmp_path).plan() == []


def test_a_place_that_python_cannot_open_is_told():
    """With the way that is left."""
    with pytest.raises(StoreError, match=r"cannot be opened in Python.*spark\.read\.parquet"):
        _table("ftp://host/history").plan()


@pytest.mark.parametrize("files_per_task", [1, 2, 6])
def test_rows_around_midnight_are_read_once(monkeypatch, tmp_path, files_per_task):
    """A flush over 00:00 UTC alternates between two days, however files are shared among tasks."""
    midnight_s = 86_400.0
    files = [
        write_rows(tmp_path, row(number, midnight_s + after_s, **DELIVERED))
        for number, after_s in enumerate([-2.0, 1.0, -1.0, 2.0, -0.5, 3.0])
    ]
    largest = max((tmp_path / file.path).stat().st_size for file in files)
    monkeypatch.setattr(_history_tables, "_BYTES_PER_TASK", files_per_task * largest)
    table = _table(tmp_path)
    assert len(table.plan()) == 6 // files_per_task
    assert _numbers(table) == list(range(6))


def test_files_that_overlap_give_each_number_once(monkeypatch, tmp_path):
    """Numbers that were used twice: each belongs to one task."""
    monkeypatch.setattr(_history_tables, "_BYTES_PER_TASK", 1)
    rows = [row(number, 1_000.0 + number, **DELIVERED) for number in range(6)]
    write_rows(tmp_path, *rows[:4])
    write_rows(tmp_path, *rows[2:])
    assert _numbers(_table(tmp_path)) == list(range(6))
