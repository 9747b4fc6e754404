"""Many runs of a partition whose readers find repeats, each from a seed.

The gate plays 20 seeds. To play others, or one again::

    DISTRIBUTARY_FIRST_SEED=17 DISTRIBUTARY_SEEDS=1 pytest -s tests/simulation/test_once_seeds.py
"""

import os

from kit.simulation import runs as simulated_runs
from simulation.test_seeds import SMALL

SEED_COUNT = int(os.environ.get("DISTRIBUTARY_SEEDS", "20"))
FIRST_SEED = int(os.environ.get("DISTRIBUTARY_FIRST_SEED", "0"))
REPEAT = (
    "DISTRIBUTARY_FIRST_SEED={} DISTRIBUTARY_SEEDS=1 pytest tests/simulation/test_once_seeds.py"
)


def test_each_event_is_delivered_once_and_none_is_lost(tmp_path):
    """Publishers repeat, appends are stored twice, owners die, and are believed dead."""
    repeats = past = kept = late = 0
    seeds = range(FIRST_SEED, FIRST_SEED + SEED_COUNT)
    print(f"seeds {seeds.start} to {seeds.stop - 1}")
    for seed in seeds:
        place = tmp_path / str(seed)
        place.mkdir()
        more = {"limits": SMALL} if seed % 2 else {}
        try:
            partition = simulated_runs.play_once(place, seed, 50, **more)
        except AssertionError as failure:
            failure.add_note(f"seed {seed}; repeat it with: {REPEAT.format(seed)}")
            raise
        repeats += len(partition.log.repeats)
        past += partition.judged_past
        kept += partition.kept_windows
        late += partition.formers_stopped
    print(f"{repeats} repeats, {past} met in the past, {kept} windows kept, {late} late owners")
    if SEED_COUNT >= 20:  # or it would show nothing
        assert repeats > 200
        assert min(past, kept, late) > 5
