"""What the driver does about history where none is kept."""

import threading

from distributary.datadir import DataDir
from distributary.spark.history import History


def test_without_a_history_nothing_runs_and_no_old_numbers_are_shown(tmp_path):
    """The counters of a history that was kept before would be those of the present."""
    paths = DataDir(tmp_path)
    path = paths.meter("history")
    path.parent.mkdir(parents=True)
    path.write_text('{"gauges": {"history_bytes": 5}}')
    before = threading.active_count()
    history = History("", 3600.0, 0, paths, outbox=False)
    history.start()
    assert threading.active_count() == before
    assert not path.exists()
    history.stop()
