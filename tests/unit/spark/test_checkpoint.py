"""The check of Spark's checkpoint, on folders as Spark writes them."""

import json
from pathlib import Path

import pytest

from distributary.spark.checkpoint import damage_in, prepare


def _checkpoint(folder: Path, offset: object) -> Path:
    """A checkpoint with one epoch that began at *offset*."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "0"}))
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps(offset)]
    (folder / "offsets" / "0").write_text("\n".join(lines))
    return folder


def test_a_position_of_the_counter_is_whole(tmp_path: Path) -> None:
    """Spark's counter writes its number and a time."""
    assert damage_in(_checkpoint(tmp_path / "c", {"offset": 2, "timestamp": 1000})) is None


@pytest.mark.parametrize("offset", [{"epoch": 3}, [], {"offset": "2"}, 2])
def test_a_position_of_another_source_is_set_aside(tmp_path: Path, offset: object) -> None:
    """Versions before this one had a source of their own, whose positions were epochs."""
    folder = _checkpoint(tmp_path / "c", offset)

    assert prepare(folder, 2) == "offsets/0 holds no epoch"

    assert not any(folder.iterdir())
    assert (tmp_path / "c.damaged.1" / "offsets" / "0").exists()


def test_a_checkpoint_of_another_number_of_partitions_is_set_aside(tmp_path):
    """Spark would repeat its last epoch with a task for each partition that there was."""
    folder = tmp_path / "checkpoint"
    assert prepare(folder, 2) is None
    (folder / "metadata").write_text('{"id": "q"}')
    assert prepare(folder, 2) is None
    assert prepare(folder, 5) == "it is of 2 partitions"
    assert list(folder.iterdir()) == []
    assert prepare(folder, 5) is None
