"""What receivers see of one another's tenants: whatever is counted, forgotten and begun again."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.datadir import TenantCounts, Used, _tenant_counts, make_tenant_counts
from distributary.datadir._tenant_counts import FREE_S

RECEIVERS = 3
NAMES = ("shop", "till", "farm", "bank", "port", "mill")
COUNTS = st.integers(1, 2**32 - 1)
STEPS = st.one_of(
    st.tuples(
        st.just("add"),
        st.integers(0, RECEIVERS - 1),
        st.sampled_from(NAMES),
        st.sampled_from(list(Used)),
        st.integers(1, 1000),
    ),
    st.tuples(
        st.just("look"),
        st.integers(0, RECEIVERS - 1),
        st.sampled_from(NAMES),
        st.sampled_from(list(Used)),
    ),
    st.tuples(st.just("restart"), st.integers(0, RECEIVERS - 1)),
    st.tuples(st.just("wait")),
)


class World:
    """Receivers of one server, and what each has still to see of the others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_s = 0.0
        make_tenant_counts(path, RECEIVERS - 1)
        self.uses = [{} for _ in range(RECEIVERS)]
        self.unseen: list[Counter] = [Counter() for _ in range(RECEIVERS)]
        self.counts = [TenantCounts(path, number, self.clock) for number in range(RECEIVERS)]

    def clock(self) -> float:
        return self.now_s

    def use(self, number, name):
        """The view of one receiver; from now on it has to see what others admit."""
        if name not in self.uses[number]:
            self.uses[number][name] = self.counts[number].of(name)
            for used in Used:
                self.unseen[number][name, used] = 0
        return self.uses[number][name]

    def add(self, number, name, used, count):
        self.use(number, name).add(used, count)
        for other in range(RECEIVERS):
            if other != number and name in self.uses[other]:
                self.unseen[other][name, used] += count

    def look(self, number, name, used):
        """What one receiver sees, and what there was to see."""
        seen = self.use(number, name).taken_elsewhere(used)
        there, self.unseen[number][name, used] = self.unseen[number][name, used], 0
        return seen, there

    def restart(self, number):
        """Begin anew, with the row that was left."""
        self.counts[number] = TenantCounts(self.path, number, self.clock)
        self.uses[number] = {}

    def wait(self):
        self.now_s += FREE_S


@pytest.mark.slow
@pytest.mark.parametrize("claims_max", [len(NAMES), 2], ids=["enough", "full"])
@settings(max_examples=300, deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_nothing_is_counted_for_another(claims_max, steps):
    """Each sees what the others admitted of a namespace: all of it while there are entries.

    Never more, whoever had its entry before.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(_tenant_counts, "CLAIMS_MAX", claims_max)
        patch.setattr(_tenant_counts, "_ENTRIES", 1)  # all begin to look at the same one
        world = World(Path(folder) / "counts")
        for kind, *values in steps:
            found = getattr(world, kind)(*values)
            if found is not None:
                seen, there = found
                assert seen == there if claims_max == len(NAMES) else seen <= there


def test_an_entry_is_of_the_next_namespace_once_it_is_idle(tmp_path, monkeypatch):
    """Where all are taken a further namespace counts for its receiver alone, until one is free."""
    monkeypatch.setattr(_tenant_counts, "CLAIMS_MAX", 2)
    monkeypatch.setattr(_tenant_counts, "_ENTRIES", 1)
    world = World(tmp_path / "counts")
    for name in NAMES[:3]:
        world.use(1, name)
        world.add(0, name, Used.EVENTS, 5)
    assert [world.look(1, name, Used.EVENTS)[0] for name in NAMES[:3]] == [5, 5, 0]
    world.wait()
    world.add(0, "farm", Used.EVENTS, 7)  # marks what was used until now
    world.add(0, "till", Used.EVENTS, 1)
    world.wait()
    world.add(0, "farm", Used.EVENTS, 9)
    assert [world.look(1, name, Used.EVENTS)[0] for name in NAMES[:3]] == [0, 1, 9]
    assert world.look(1, "shop", Used.BYTES)[0] == 0
    world.wait()
    world.add(0, "shop", Used.EVENTS, 2)  # in the place of the one that is idle now
    assert [world.look(1, name, Used.EVENTS)[0] for name in NAMES[:3]] == [2, 0, 0]


@pytest.mark.slow
@given(count=COUNTS)
@settings(max_examples=50, deadline=None)
def test_counts_go_round(count):
    """Beyond 2**32 they begin anew, and nothing is lost."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "counts")
        for _ in range(3):
            world.use(1, "shop")
            world.add(0, "shop", Used.BYTES, count)
            assert world.look(1, "shop", Used.BYTES) == (count, count)


def test_eight_thousand_names_have_entries_of_their_own(tmp_path):
    """As far as there are entries: none shares one with another."""
    make_tenant_counts(tmp_path / "counts", 1)
    first, second = (TenantCounts(tmp_path / "counts", number) for number in range(2))
    names = [f"n{number}" for number in range(8_000)]
    uses = [second.of(name) for name in names]
    for number, name in enumerate(names):
        first.of(name).add(Used.EVENTS, number)
    wrong = [
        (name, number)
        for number, (name, use) in enumerate(zip(names, uses, strict=True))
        if use.taken_elsewhere(Used.EVENTS) != number
    ]
    assert len(wrong) <= 2  # those without an entry count for their receiver alone
    assert all(use.taken_elsewhere(Used.EVENTS) == 0 for use in uses)
