"""Route snapshots and cuts: in memory, in a file of SQLite and in PostgreSQL they mean the same."""

import pytest

from distributary.core import database
from distributary.core.errors import FencedError
from distributary.core.log.kafka import Cut, MemorySnapshots
from distributary.core.log.kafka.store_snapshots import StoreSnapshots


@pytest.fixture(params=["memory", "file", "postgres"])
def opened(request, tmp_path):
    """Opens the snapshots, as the leader of a generation or as a reader."""
    if request.param == "memory":
        memory = MemorySnapshots()
        yield lambda _generation: memory
        return
    files = request.param == "file"
    url = (
        database.sqlite_url(tmp_path / "state.db")
        if files
        else database.database_url(request.getfixturevalue("postgres_place"))
    )
    made = []

    def open_as(generation):
        leader = None if files else generation
        place = database.StorePlace(url, leader)
        made.append(StoreSnapshots(place, leads=generation is not None))
        return made[-1]

    yield open_as
    for each in made:
        each.close()


def test_a_cut_and_its_routes_are_kept_together(opened):
    """Partitions share a snapshot; what none begins with goes; a cut can be undone."""
    leader, reader = opened(1), opened(None)
    assert reader.cut(0) is None
    assert reader.get(5) is None
    leader.put(0, Cut(100, 5), b"five" * 100_000)
    leader.put(1, Cut(70, 5), b"five" * 100_000)
    assert (reader.cut(0), reader.cut(1), reader.cut(2)) == (Cut(100, 5), Cut(70, 5), None)
    assert reader.get(5) == b"five" * 100_000
    leader.put(0, Cut(200, 9), b"nine")
    leader.prune()
    assert (reader.cut(0), reader.get(9), reader.get(5)) == (
        Cut(200, 9),
        b"nine",
        b"five" * 100_000,
    )
    leader.put(1, Cut(300, 9), b"nine")
    leader.put_back(1, Cut(70, 5))
    leader.prune()
    assert reader.cut(1) == Cut(70, 5)
    assert reader.get(5) is not None
    leader.put_back(1, None)
    leader.prune()
    assert reader.cut(1) is None
    assert (reader.get(5), reader.get(9)) == (None, b"nine")


def test_a_former_leader_cuts_nothing(postgres_place):
    """It compares its generation in each change; what it read stays as it is."""
    url = database.database_url(postgres_place)
    former = StoreSnapshots(database.StorePlace(url, 1), leads=True)
    former.put(0, Cut(10, 1), b"one")
    leader = StoreSnapshots(database.StorePlace(url, 2), leads=True)
    for change in (
        lambda: former.put(0, Cut(20, 2), b"two"),
        lambda: former.put_back(0, None),
        former.prune,
    ):
        with pytest.raises(FencedError):
            change()
    assert (leader.cut(0), leader.get(1), leader.get(2)) == (Cut(10, 1), b"one", None)
    former.close()
    leader.close()
