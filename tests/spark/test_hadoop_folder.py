"""History folders of Hadoop's file systems, on one that every machine has."""

import pytest

from distributary.history.local_folder import LocalFolder
from distributary.history.names import HistoryFile
from distributary.testing import check_history_folder

FILE = HistoryFile("2026-11-23", 1, 0, 3)


@pytest.fixture
def folder(spark, tmp_path):
    """An empty folder, with a blank and a comma in its path."""
    from distributary.spark.hadoop_folder import HadoopFolder  # noqa: PLC0415 - imports pyspark

    return HadoopFolder(spark, f"file://{tmp_path}/of the, shop/history")


@pytest.fixture
def scratch(tmp_path):
    """For local files."""
    made = tmp_path / "scratch"
    made.mkdir()
    return made


@pytest.mark.parametrize("check", check_history_folder.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, folder, scratch):
    """The same suite as for local folders."""
    check(folder, scratch)


def test_local_and_hadoop_folders_name_the_same_files(spark, folder, scratch, tmp_path):
    """What one puts the other lists, with size and time; and Spark reads it by its day."""
    local = LocalFolder(tmp_path / "of the, shop" / "history")
    spark.range(3).coalesce(1).write.parquet(str(scratch / "written"))
    (source,) = (scratch / "written").glob("*.parquet")
    folder.put(source, FILE)
    (mine,), (theirs,) = folder.files(), local.files()
    assert (mine.file, mine.bytes) == (theirs.file, theirs.bytes)
    assert mine.modified_s == pytest.approx(theirs.modified_s, abs=0.01)
    rows = spark.read.parquet(f"{tmp_path}/of the, shop/history")
    assert rows.groupBy("date").count().collect()[0]["count"] == 3


def test_what_an_interrupted_put_left_is_swept(folder, scratch, tmp_path):
    """Neither files of others nor history go with it."""
    (scratch / "a").write_bytes(b"a")
    folder.put(scratch / "a", FILE)
    day = tmp_path / "of the, shop" / "history" / "date=2026-11-23"
    final = day / FILE.path.partition("/")[2]
    left = day / f".{final.name}.put"
    left.write_bytes(b"half")
    (day / ".other.put").write_bytes(b"whose?")
    folder.sweep()
    assert not left.exists()
    assert (day / ".other.put").exists()
    assert [stored.file for stored in folder.files()] == [FILE]


def test_an_empty_day_goes_once_it_is_over(folder, scratch, tmp_path):
    """The folder of the present day stays."""
    (scratch / "a").write_bytes(b"a")
    folder.put(scratch / "a", FILE)
    folder.delete(FILE)
    day = tmp_path / "of the, shop" / "history" / "date=2026-11-23"
    folder.delete_empty_days("2026-11-23")
    assert day.is_dir()
    folder.delete_empty_days("2026-11-24")
    assert not day.exists()


def test_an_unknown_scheme_is_an_error_that_names_it(spark):
    """Its jar is missing, or it is misspelt."""
    from distributary.spark.hadoop_folder import HadoopFolder  # noqa: PLC0415 - imports pyspark

    with pytest.raises(OSError, match="No FileSystem for scheme"):
        HadoopFolder(spark, "nowhere://bucket/history")


def test_a_file_where_the_folder_should_be_is_an_error(spark, scratch):
    """As for a local folder, which cannot be made."""
    from distributary.spark.hadoop_folder import HadoopFolder  # noqa: PLC0415 - imports pyspark

    (scratch / "a").write_bytes(b"a")
    (scratch / "history").write_bytes(b"a file")
    with pytest.raises(OSError, match="history"):
        HadoopFolder(spark, f"file://{scratch}/history").put(scratch / "a", FILE)
