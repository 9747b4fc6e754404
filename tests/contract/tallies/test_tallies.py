"""Every store of tallies, and every reader: what an owner puts, others see."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.outcome import Tally, TallyFile, TallyFileReader
from distributary.testing.memory_tallies import MemoryTallies, MemoryTallyReader

ALL = Tally(1, 2, 3, 4, 5, 6, 503, 7, 8, True, True, 9, 10, 11, "status-503")
LARGEST = Tally(delivered=2**64 - 1, failing_count=2**32 - 1, failing_since_ms=1)


class Files:
    """Tallies in a file, each time opened anew."""

    def __init__(self, folder):
        self._path = folder / "outcome" / "tallies"
        self._opened = []

    def store(self):
        made = TallyFile(self._path)
        self._opened.append(made)
        return made

    def reader(self):
        return TallyFileReader(self._path)

    def close(self):
        for opened in self._opened:
            opened.close()


class Memory:
    """Tallies in memory, which are there as long as this is."""

    def __init__(self, _folder):
        self._store = MemoryTallies()

    def store(self):
        return self._store

    def reader(self):
        return MemoryTallyReader(self._store)

    def close(self):
        """Nothing is open."""


@pytest.fixture(params=[Memory, Files], ids=["memory", "file"])
def tallies(request, tmp_path):
    """A back end, without a tally."""
    made = request.param(tmp_path)
    yield made
    made.close()


def test_nobody_has_one_before_the_first_is_put(tallies):
    """A partition that was never delivered has no file."""
    reader = tallies.reader()
    assert (tallies.store().routes(), tallies.store().get("r"), reader.changes()) == ([], None, {})
    assert reader.get("r") is None


def test_what_is_put_is_read(tallies):
    """Every number of it, small and large."""
    tallies.store().put({"all": ALL, "largest": LARGEST, "none": Tally()})
    reader = tallies.reader()
    assert reader.changes() == {"all": ALL, "largest": LARGEST, "none": Tally()}
    assert [reader.get(route) for route in ("all", "largest", "none")] == [ALL, LARGEST, Tally()]
    assert reader.get("another") is None


def test_a_new_owner_goes_on_with_them(tallies):
    """Also with what was not at rest."""
    tallies.store().put({"at rest": Tally(delivered=1), "all": ALL})
    store = tallies.store()
    assert sorted(store.routes()) == ["all", "at rest"]
    assert store.get("at rest") == Tally(delivered=1)
    assert dict(store.standing()) == {"all": ALL}


def test_what_comes_to_rest_stands_no_more(tallies):
    """A route that waited, and whose last match is delivered."""
    store = tallies.store()
    store.put({"r": Tally(waiting=1)})
    store.put({"r": Tally(delivered=1)})
    assert dict(store.standing()) == {}


def test_a_copy_is_told_and_kept(tallies):
    """What the owner counts on is not stored before it is put."""
    mine = Tally(delivered=1)
    store, reader = tallies.store(), tallies.reader()
    store.put({"r": mine})
    mine.delivered = 2
    assert reader.changes() == {"r": Tally(delivered=1)}
    assert store.get("r") == Tally(delivered=1)


def test_only_changes_are_told(tallies):
    """Of many routes those that were put since, and those that are gone."""
    store, reader = tallies.store(), tallies.reader()
    store.put({f"r{number}": Tally(delivered=number) for number in range(3_000)})
    assert len(reader.changes()) == 3_000
    assert reader.changes() == {}
    store.put({"r7": ALL}, gone=["r8"])
    assert reader.changes() == {"r7": ALL, "r8": None}
    assert (reader.get("r8"), reader.get("r9")) == (None, Tally(delivered=9))


def test_the_place_of_one_that_is_gone_is_used_again(tallies):
    """By another route, which begins at 0."""
    store, reader = tallies.store(), tallies.reader()
    store.put({"old": ALL})
    reader.changes()
    store.put({}, gone=["old"])
    store.put({"new": Tally(delivered=1)})
    assert reader.changes() == {"old": None, "new": Tally(delivered=1)}
    assert store.routes() == ["new"]


def test_one_that_came_and_went_unseen_is_not_told_of(tallies):
    """Between two looks."""
    store, reader = tallies.store(), tallies.reader()
    store.put({"r": ALL})
    store.put({}, gone=["r"])
    assert {route: one for route, one in reader.changes().items() if one} == {}


ROUTES = st.sampled_from(["a", "b", "c", "d"])
NUMBERS = st.integers(0, 2**32 - 1)
DRAWN = st.builds(
    Tally,
    delivered=NUMBERS,
    waiting=NUMBERS,
    answer_status=st.integers(0, 599),
    failing_reason=st.text("abc-0", max_size=40),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(ROUTES, DRAWN, max_size=3)),
        st.tuples(st.just("gone"), st.lists(ROUTES, max_size=2)),
        st.tuples(st.sampled_from(["look", "open"]), st.none()),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", [Memory, Files], ids=["memory", "file"])
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_who_follows_the_changes_has_what_the_owner_has(tmp_path_factory, kind, steps):
    """Whatever is put, forgotten, opened anew and looked at in between."""
    tallies = kind(tmp_path_factory.mktemp("tallies"))
    store, reader = tallies.store(), tallies.reader()
    followed, there = {}, {}
    for step, about in [*steps, ("look", None)]:
        if step == "put":
            store.put(about)
            there |= {route: tally.copy() for route, tally in about.items()}
        elif step == "gone":
            store.put({}, gone=about)
            there = {route: tally for route, tally in there.items() if route not in about}
        elif step == "open":
            store = tallies.store()
        else:
            followed |= reader.changes()
            followed = {route: tally for route, tally in followed.items() if tally}
            assert followed == there == {route: reader.get(route) for route in there}
            assert sorted(store.routes()) == sorted(there)
    tallies.close()
