"""What is asked of a Spark master before the pipeline runs on it: slots, and the data directory."""

import threading
from typing import TYPE_CHECKING

import pytest

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.spark import cluster
from distributary.spark.cluster import (
    answering,
    await_slots,
    blind_hosts,
    check_executors,
    task_slots,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def data_dir(tmp_path: "Path") -> "Path":
    """A data directory of a server that is starting."""
    DataDir(tmp_path).run.mkdir()
    return tmp_path


def test_slots_are_those_of_the_session(spark: "SparkSession") -> None:
    """The session of these tests has two."""
    assert task_slots(spark) == 2


def test_a_master_whose_executors_see_the_data_directory_is_taken(
    spark: "SparkSession", data_dir: "Path"
) -> None:
    """Each slot has looked, and nothing is left behind."""
    check_executors(spark, "spark://here", 2, data_dir)
    assert list(DataDir(data_dir).run.iterdir()) == []


def test_too_few_slots_are_refused_after_a_while(
    spark: "SparkSession",
) -> None:
    """Executors report in one by one, so it is waited for them."""
    assert await_slots(spark, "spark://here", 2, 0.3) == 2
    with pytest.raises(SettingsError, match=r"spark://here has 2 task slots, .* 3 partitions"):
        await_slots(spark, "spark://here", 3, 0.3)


def test_a_master_whose_executors_are_elsewhere_is_refused(
    spark: "SparkSession", data_dir: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there has the same name and another content: their own disk's."""
    write = type(data_dir).write_text

    def elsewhere(path: "Path", text: str, **options: str) -> int:
        return write(path, text[::-1], **options)

    monkeypatch.setattr(type(data_dir), "write_text", elsewhere)
    assert len(blind_hosts(spark, 2, data_dir)) == 1
    with pytest.raises(SettingsError, match="cannot see the data directory"):
        check_executors(spark, "spark://here", 2, data_dir)


class Broken:
    """What executors cannot do."""

    def __init__(self, *_arguments: object) -> None:
        """Like the look at the probe."""

    def __call__(self, _numbers: object) -> list[str]:
        raise FileNotFoundError("no such Python")


def test_a_master_whose_executors_cannot_even_look_is_refused(
    spark: "SparkSession", data_dir: "Path", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python that they run may be missing there as well: no restart mends that."""
    monkeypatch.setattr(cluster, "_Look", Broken)
    with pytest.raises(SettingsError, match="cannot see the data directory"):
        check_executors(spark, "spark://here", 2, data_dir)
    assert list(DataDir(data_dir).run.iterdir()) == []


def test_executors_that_need_nothing_here_are_asked_what_they_can_import(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slot imports what owners need; one that cannot is told of in words."""
    check_executors(spark, "spark://here", 2, None)
    monkeypatch.setattr(cluster, "_import", Broken())
    with pytest.raises(SettingsError, match="cannot run owners"):
        check_executors(spark, "spark://here", 2, None)
    check_executors(spark, "spark://here", 2, None, tried=True)


def test_a_master_that_keeps_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would wait for a minute and begin again."""
    monkeypatch.setattr(cluster, "OPENED_S", 0.05)
    given_up = threading.Event()
    errors: list[SettingsError] = []

    def give_up(error: SettingsError) -> None:
        errors.append(error)
        given_up.set()

    with answering("spark://silent:7077", give_up):
        assert given_up.wait(30)
    assert "spark://silent:7077 does not answer" in str(errors[0])


def test_a_master_that_answers_is_not_given_up() -> None:
    """Nothing is called, and nothing is left to be."""
    before = threading.active_count()
    errors: list[SettingsError] = []
    with answering("spark://quick:7077", errors.append):
        assert threading.active_count() == before + 1
    assert errors == []
