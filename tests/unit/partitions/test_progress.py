"""The route table that is kept to shorten a start: written where it changed, beside the loop."""

import pytest

from distributary.partitions import _progress as standing_module
from kit.simulation.partition import Partition

SINK = "http://sink.example/"


@pytest.fixture
def partition(tmp_path):
    """A partition with one route, and an owner."""
    made = Partition(tmp_path)
    made.put_route("r", SINK)
    made.start()
    yield made
    made.close()


@pytest.fixture
def kept(monkeypatch):
    """What was written: ("save" or "move", offset)."""
    calls = []
    for name in ("save_table", "move_table"):
        plain = getattr(standing_module, name)

        def noted(path, at_offset, *more, name=name, plain=plain):
            calls.append((name, at_offset))
            plain(path, at_offset, *more)

        monkeypatch.setattr(standing_module, name, noted)
    return calls


def test_a_table_that_did_not_change_is_not_written_again(partition, kept):
    """It is only noted that it stands further on."""
    for _ in range(40):
        partition.publish("a")
        partition.advance(1.0)
    names = [name for name, _ in kept]
    assert names[0] == "save_table"
    assert set(names[1:]) == {"move_table"}
    offsets = [offset for _, offset in kept]
    assert offsets == sorted(set(offsets))


def test_a_table_that_changed_is_written_again(partition, kept):
    """Once, however many changes there were."""
    partition.advance(15.0)
    for number in range(3):
        partition.put_route(f"r{number}", SINK)
    partition.advance(15.0)
    assert [name for name, _ in kept].count("save_table") == 2


def test_after_a_failure_it_is_written_whole(partition, kept, monkeypatch):
    """What is there may be of any time."""
    partition.advance(15.0)

    def full(*_arguments):
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(standing_module, "move_table", full)
        partition.advance(15.0)
    assert "routes-not-kept" in [event for event, _ in partition.warnings]
    partition.advance(15.0)
    assert [name for name, _ in kept].count("save_table") == 2
