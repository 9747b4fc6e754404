"""Many runs of one partition, each from a seed: any mixture of sinks, changes and crashes.

The gate plays 30 seeds, ``make soak`` a thousand. ``DISTRIBUTARY_SEEDS=10000`` plays more of them,
``DISTRIBUTARY_FIRST_SEED`` begins elsewhere::

    DISTRIBUTARY_FIRST_SEED=17 DISTRIBUTARY_SEEDS=1 pytest tests/simulation/test_seeds.py
"""

import os

import pytest

from distributary.core import journal
from distributary.core.engine import EngineLimits
from kit.simulation import runs as simulated_runs

SEED_COUNT = int(os.environ.get("DISTRIBUTARY_SEEDS", "30"))
FIRST_SEED = int(os.environ.get("DISTRIBUTARY_FIRST_SEED", "0"))
GROUP = 15
"""Seeds a test: the failing one is named all the same. Each seed is played in two settings;
odd ones over what an owner holds in memory, even ones over its files."""
REPEAT = (
    "DISTRIBUTARY_FIRST_SEED={} DISTRIBUTARY_SEEDS=1 pytest tests/simulation/test_seeds.py -k {}"
)


def play(folder, first, name, limits=None):
    """Play a group of seeds; a failure says how to repeat it."""
    for seed in range(first, min(first + GROUP, FIRST_SEED + SEED_COUNT)):
        place = folder / str(seed)
        place.mkdir()
        try:
            odd = bool(seed % 2)
            simulated_runs.play(place, seed, 50, limits or EngineLimits(), in_memory=odd)
        except AssertionError as failure:
            failure.add_note(f"seed {seed}; repeat it with: {REPEAT.format(seed, name)}")
            raise


SMALL = EngineLimits(
    window_events=12,
    demote_records=4,
    window_outcomes=2,
    demote_outcomes=1,
    slice_records=2,
    slice_tasks=1,
    routes_saved_every_s=0.3,
    unpark_count=2,
    due_count=2,
    reads_max=2,
    row_events_bytes_max=2 * 2_048,
    rows_per_route_max=4,
    rows_max=6,
    rows_least=1,
    reply_bytes_max=2 * 2_048,
    reply_count=1,
    counted_rows_share=0.5,
    asking_when_exhausted_max=2,
    slice_backfills=1,
    wake_count=1,
    readers_max=1,
    chunks_max=1,
    backfill_tasks_bytes_max=2 * 2_048,
    replay_tasks_bytes_max=2 * 2_048,
    finished_max=1,
    finished_least=0,
)
"""Limits that a short run never meets as shipped: the window, held events, turns, slices."""
JOURNAL_BYTES = 256
"""The length at which a journal is made anew: some times in a run, between any two writes."""

firsts = pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEED_COUNT, GROUP))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12, 33, 36, 56, 101, 142, 148, 162, 181, 207, 503, 879, 1458])
def test_seeds_that_found_something_find_nothing_any_more(tmp_path, seed):
    """Backfills that overlapped or lost matches, a floor too high, reservations not given back."""
    simulated_runs.play(tmp_path, seed)


@pytest.mark.slow
@firsts
def test_every_promise_holds(tmp_path, first):
    """Whatever happens: one outcome each, nothing lost, nothing twice, nothing uncalled for."""
    play(tmp_path, first, "every_promise")


@pytest.mark.slow
@firsts
def test_every_promise_holds_where_everything_is_small(tmp_path, monkeypatch, first):
    """Limits that a short run never meets as shipped: the window, held events, turns, slices."""
    monkeypatch.setattr(journal, "COMPACT_BYTES", JOURNAL_BYTES)
    play(tmp_path, first, "small", SMALL)
