"""What the control part knows of where the log ends, here and elsewhere."""

import msgspec

from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Position
from distributary.datadir import DataDir
from distributary.partitions.recall_requests import Asked
from distributary.server.processes.control.views import RECALLING, UNREADABLE, FileViews
from distributary.server.processes.node._shared_views import Ends
from distributary.server.processes.supervision.health import Health
from distributary.testing.virtual import VirtualClock


def test_ends_are_those_of_the_last_look():
    """Without an answer none is known, so that no old number hides a backlog."""
    answers = [[4, 7], LogUnavailableError("away"), [5, 7]]

    def read():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    ends = Ends(read)
    assert ends.end(0) is None
    ends.look()
    assert [ends.end(0), ends.end(1), ends.end(2)] == [4, 7, None]
    ends.look()
    assert ends.end(1) is None
    ends.look()
    assert ends.end(0) == 5


def test_the_backlog_is_counted_from_where_the_log_ends(tmp_path):
    """A partition whose end is not known has none, and no metric."""
    ends = {0: 9}
    paths = DataDir(tmp_path)
    health = Health(paths, 2, VirtualClock(), end=ends.get, behind=lambda: None, restarts=dict)
    assert health.backlog() == 9
    metrics = health.metrics().decode()
    assert 'lag_records{partition="0"} 9' in metrics
    assert 'lag_records{partition="1"}' not in metrics


def test_files_of_a_directory_that_has_none_yet(tmp_path):
    """Nothing is known, nothing fails; each partition has its readers."""
    views = FileViews(DataDir(tmp_path), 2)
    assert views.end(1) is None
    assert views.publisher(Position(0, 3, 0)) is None
    assert len(views.deliveries) == len(views.tallies) == 2
    assert views.waiting_rows(1) == []
    assert views.searched(indexed=True).partitions == 2
    assert views.awaited(1, 7) == ""


def test_a_read_waits_for_what_is_asked_for_of_the_archive(tmp_path):
    """And it says why that does not come."""
    paths = DataDir(tmp_path)
    views = FileViews(paths, 2)
    requests = paths.recall_requests(1)
    requests.parent.mkdir(parents=True)
    requests.write_bytes(msgspec.json.encode(Asked([(5, 9)])))
    assert [bool(views.awaited(*place)) for place in ((1, 4), (1, 5), (1, 8), (1, 9), (0, 5))] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert views.awaited(1, 7) == RECALLING
    paths.recall_failed.write_text("no such bucket")
    assert views.awaited(1, 7) == UNREADABLE  # where it lies is not told
