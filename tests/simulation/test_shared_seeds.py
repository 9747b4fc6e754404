"""Many runs of one partition that several machines may own, each from a seed.

The gate plays 30 seeds, ``make soak`` 300. To play others, or one again::

    DISTRIBUTARY_FIRST_SEED=17 DISTRIBUTARY_SEEDS=1 pytest -s tests/simulation/test_shared_seeds.py
"""

import os
from collections import Counter

import pytest

from kit.simulation import runs as simulated_runs
from simulation.test_seeds import SMALL

SEED_COUNT = int(os.environ.get("DISTRIBUTARY_SEEDS", "30"))
FIRST_SEED = int(os.environ.get("DISTRIBUTARY_FIRST_SEED", "0"))
GROUP = 15
"""Seeds a test."""
REPEAT = (
    "DISTRIBUTARY_FIRST_SEED={} DISTRIBUTARY_SEEDS=1 pytest tests/simulation/test_shared_seeds.py"
)

firsts = pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEED_COUNT, GROUP))


def play(folder, first, limits=None):
    """Play a group of seeds, and print them; returns what they met."""
    met = Counter()
    seeds = range(first, min(first + GROUP, FIRST_SEED + SEED_COUNT))
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        more = {} if limits is None else {"limits": limits}
        try:
            partition = simulated_runs.play_shared(place, seed, 50, **more)
        except AssertionError as failure:
            failure.add_note(f"seed {seed}; repeat it with: {REPEAT.format(seed)}")
            raise
        met["attempts of former owners"] += partition.copies
        met["refusals of former owners"] += partition.database.refusals
        met["a former owner wakes up late"] += partition.formers_stopped
        met["a lease runs out within a flush"] += partition.flushes_stopped
        met["the store fails over within a flush"] += partition.database.cut_flushes
    return met


@pytest.mark.parametrize("seed", [51, 56, 89, 274])
def test_seeds_that_found_something_find_nothing_any_more(tmp_path, seed):
    """Owners that wake before the database is back; a read below the begin of the log."""
    simulated_runs.play_shared(tmp_path, seed, 50)


@pytest.mark.slow
@firsts
def test_every_promise_holds(tmp_path, first):
    """Leases run out, owners wake late, the database is away or in doubt, the log lags."""
    play(tmp_path, first)


@pytest.mark.slow
@firsts
def test_every_promise_holds_where_everything_is_small(tmp_path, first):
    """Limits that a short run never meets as shipped."""
    play(tmp_path, first, SMALL)


def test_runs_meet_each_failure_of_what_is_shared(tmp_path):
    """Or they would show nothing."""
    met = play(tmp_path, 0)
    assert min(met.values()) >= 1
    assert len(met) == 5
    assert met["attempts of former owners"] > 10
    assert met["refusals of former owners"] > 10
