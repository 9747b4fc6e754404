"""What the process that recalls brings next, and what it has sent to owners elsewhere."""

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.core.log.recalled import RecalledName, RecalledWriter, list_recalled
from distributary.datadir import DataDir
from distributary.partitions.recall_requests import RequestsFile
from distributary.server.processes import recall_process
from distributary.server.processes.pipeline.job_process import JobStart
from distributary.server.processes.recall_process import SENT_AGAIN_S, Files, Sent


class World:
    """Owners of two partitions, and a cluster."""

    def __init__(self, folder):
        self.paths = DataDir(folder)
        self.now_s = 0.0
        self.sent = []
        self.away = False
        self.ways = Sent(self.paths, 2, self.send, lambda: self.now_s)

    def send(self, partition, folder, name):
        """See ``Sends``."""
        if self.away:
            raise LogUnavailableError("no broker answers")
        assert name.path(folder).exists()
        self.sent.append((partition, name.from_offset))

    def ask(self, partition, *firsts):
        """Ask for stretches of ten records."""
        requests = RequestsFile(self.paths.recall_requests(partition))
        requests.put([(first, first + 10) for first in firsts])

    def recall(self, partition, first):
        """What Spark does."""
        folder = self.paths.recalled(partition)
        folder.mkdir(parents=True, exist_ok=True)
        RecalledWriter(folder, RecalledName(first, first + 10)).finish()


@pytest.fixture
def world(tmp_path):
    """Nobody asks."""
    return World(tmp_path)


def test_partitions_take_turns(world):
    """The most urgent stretch of each first; files that are there are not brought again."""
    world.ask(0, 30, 10, 20)
    world.ask(1, 50)
    files = Files(world.paths, 2)
    assert files.wanted() == world.ways.wanted() == [(0, 30), (1, 50), (0, 10), (0, 20)]
    world.recall(0, 30)
    assert files.wanted() == [(0, 10), (1, 50), (0, 20)]


def test_what_was_sent_is_not_sent_again_at_once(world):
    """But a while later, where it is asked for still; and at once where it is asked for anew."""
    world.ask(0, 10, 20)
    world.recall(0, 10)
    world.ways.brought()
    assert world.sent == [(0, 10)]
    assert list_recalled(world.paths.recalled(0)) == []
    assert world.ways.wanted() == [(0, 20)]
    world.now_s += SENT_AGAIN_S + 1
    assert world.ways.wanted() == [(0, 10), (0, 20)]
    world.recall(0, 10)
    world.ways.brought()
    world.ask(0)  # it is there
    assert world.ways.wanted() == []
    world.ask(0, 10)  # it was deleted there, or another owner asks
    assert world.ways.wanted() == [(0, 10)]


def test_what_the_cluster_does_not_take_is_wanted_still(world):
    """The process ends with the reason, and the next one brings it."""
    world.ask(1, 10)
    world.recall(1, 10)
    world.away = True
    with pytest.raises(LogUnavailableError):
        world.ways.brought()
    world.away = False
    assert world.ways.wanted() == [(1, 10)]
    world.ways.brought()
    assert world.sent == [(1, 10)]


def test_a_folder_that_cannot_be_written_is_told_of(tmp_path, monkeypatch):
    """By the error that the log has as ``recall-failed``, and to those who wait."""
    paths = DataDir(tmp_path)
    paths.recall_failed.parent.mkdir(parents=True)

    def full(*_given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recall_process, "_run", full)
    start = JobStart(data_dir=str(tmp_path), to="/archive", java_home="", log_level="info")
    with pytest.raises(LogUnavailableError, match="No space left"):
        recall_process.run(start, None)
    assert "No space left" in paths.recall_failed.read_text()
