"""The choice of victims: seeded, and none forgotten."""

from kit.kills import victims
from kit.running_server import Role, total

ALL = {*Role, "everything"} - {Role.WORKER, Role.INDEX}
"""Any worker is a writer here, and the index process has nothing that a kill could lose."""


def test_fifteen_kills_hit_every_part_and_the_whole() -> None:
    """A long run leaves nobody out, whatever the seed."""
    for seed in range(50):
        assert {victim.name for victim in victims(15, seed)} == ALL


def test_five_kills_hit_five_victims() -> None:
    """The run of the gate leaves out ``serve`` and the daemon, whatever the seed."""
    for seed in range(50):
        assert {victim.name for victim in victims(5, seed)} == ALL - {Role.SERVE, Role.DAEMON}


def test_a_seed_repeats_the_run() -> None:
    """Same seed, same victims in the same order; another seed, another order."""
    assert victims(15, 7) == victims(15, 7)
    assert victims(15, 7) != victims(15, 8)


def test_a_metric_is_summed_over_its_labels_alone() -> None:
    """Names that only begin alike are others."""
    metrics = {'queued{partition="0"}': 1.0, 'queued{partition="1"}': 2.0, "queued_total": 9.0}
    assert total(metrics, "queued") == 3.0
