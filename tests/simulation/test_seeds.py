"""Many runs of one partition, each from a seed: any mixture of sinks, changes and crashes.

The gate plays 30 seeds, ``make soak`` a thousand. ``DISTRIBUTARY_SEEDS=10000`` plays more of them,
``DISTRIBUTARY_FIRST_SEED`` begins elsewhere::

    DISTRIBUTARY_FIRST_SEED=17 DISTRIBUTARY_SEEDS=1 pytest tests/simulation/test_seeds.py
"""

import os

import pytest

from distributary.core.engine import (
    _catch_up,
    _due,
    _intake,
    _matching,
    _reload,
    _replies,
    _settle,
    _slots,
    _standing,
    _waiting,
)
from distributary.core.engine import owner as _owner
from distributary.testing import simulated_runs

SEED_COUNT = int(os.environ.get("DISTRIBUTARY_SEEDS", "30"))
FIRST_SEED = int(os.environ.get("DISTRIBUTARY_FIRST_SEED", "0"))
GROUP = 15
"""Seeds a test: the failing one is named all the same. Each seed is played in two settings."""
REPEAT = (
    "DISTRIBUTARY_FIRST_SEED={} DISTRIBUTARY_SEEDS=1 pytest tests/simulation/test_seeds.py -k {}"
)


def play(folder, first, name):
    """Play a group of seeds; a failure says how to repeat it."""
    for seed in range(first, min(first + GROUP, FIRST_SEED + SEED_COUNT)):
        place = folder / str(seed)
        place.mkdir()
        try:
            simulated_runs.play(place, seed, step_count=50)
        except AssertionError as failure:
            failure.add_note(f"seed {seed}; repeat it with: {REPEAT.format(seed, name)}")
            raise


firsts = pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEED_COUNT, GROUP))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12, 33, 36, 56, 101, 142, 148, 162, 181, 207, 503, 879, 1458])
def test_seeds_that_found_something_find_nothing_any_more(tmp_path, seed):
    """Lags that overlapped or lost matches, a floor that was too high, slots nobody gave back."""
    simulated_runs.play(tmp_path, seed)


@pytest.mark.slow
@firsts
def test_every_promise_holds(tmp_path, first):
    """Whatever happens: one outcome each, nothing lost, nothing twice, nothing uncalled for."""
    play(tmp_path, first, "every_promise")


@pytest.mark.slow
@firsts
def test_every_promise_holds_where_everything_is_small(tmp_path, first, monkeypatch):
    """Limits that a short run never meets as shipped: the window, held events, turns, slices."""
    monkeypatch.setattr(_owner, "WINDOW_EVENTS", 12)
    monkeypatch.setattr(_owner, "SPILL_RECORDS", 4)
    monkeypatch.setattr(_owner, "WINDOW_OUTCOMES", 2)
    monkeypatch.setattr(_owner, "SPILL_OUTCOMES", 1)
    monkeypatch.setattr(_owner, "SLICE_TASKS", 1)
    monkeypatch.setattr(_matching, "SLICE_TASKS", 1)
    monkeypatch.setattr(_intake, "SLICE_RECORDS", 2)
    monkeypatch.setattr(_standing, "ROUTES_SAVED_EVERY_S", 0.3)
    monkeypatch.setattr(_settle, "UNPARK_COUNT", 2)
    monkeypatch.setattr(_due, "DUE_COUNT", 2)
    monkeypatch.setattr(_waiting, "HELD_BYTES_MAX", 2 * _waiting.TASK_BYTES)
    monkeypatch.setattr(_waiting, "ROWS_PER_ROUTE_MAX", 4)
    monkeypatch.setattr(_waiting, "ROWS_MAX", 6)
    monkeypatch.setattr(_waiting, "ROWS_LEAST", 1)
    monkeypatch.setattr(_reload, "READ_MAX", 2)
    monkeypatch.setattr(_catch_up, "SLICE_LAGS", 1)
    monkeypatch.setattr(_catch_up, "WAKE_COUNT", 1)
    monkeypatch.setattr(_catch_up, "READERS_MAX", 1)
    monkeypatch.setattr(_catch_up, "CHUNKS_MAX", 1)
    monkeypatch.setattr(_catch_up, "FINISHED_MAX", 1)
    monkeypatch.setattr(_catch_up, "FINISHED_LEAST", 0)
    monkeypatch.setattr(_replies, "HELD_BYTES_MAX", 2 * _replies.TASK_BYTES)
    monkeypatch.setattr(_replies, "ROOM_COUNT", 1)
    monkeypatch.setattr(_slots, "ASKING_PER_ROUTE_MAX", 3)
    monkeypatch.setattr(_slots, "ASKING_WHEN_SHORT_MAX", 2)
    play(tmp_path, first, "small")
