"""Partitions and receivers by default."""

import os

import pytest

from distributary.server.processes.base.cores import cores, partitions_wanted, receivers_wanted
from distributary.server.processes.base.owned import partitions_of, receiver_of
from distributary.server.settings import Settings


@pytest.mark.parametrize(
    ("count", "partitions", "receivers"),
    [(1, 2, 1), (2, 2, 1), (4, 4, 1), (7, 7, 1), (8, 8, 2), (16, 8, 4), (128, 8, 8)],
)
def test_defaults_follow_the_cores(count, partitions, receivers):
    """Within bounds; never more receivers than partitions."""
    settings = Settings()
    assert partitions_wanted(settings, count) == partitions
    assert receivers_wanted(settings, count, partitions) == receivers


def test_settings_count_and_a_log_with_fewer_partitions_has_fewer_receivers():
    """An existing log keeps its partitions."""
    settings = Settings(partitions=6, receivers=3)
    assert partitions_wanted(settings, 2) == 6
    assert receivers_wanted(settings, 2, 6) == 3
    assert receivers_wanted(settings, 2, 2) == 2


def test_a_quota_counts_and_its_absence_does_not(tmp_path):
    """A container with half a core has one."""
    here = cores(tmp_path / "missing")
    assert 1 <= here <= (os.cpu_count() or 1)
    quota = tmp_path / "cpu.max"
    for text, expected in (("50000 100000\n", 1), ("max 100000\n", here), ("9900000 100000", here)):
        quota.write_text(text)
        assert cores(quota) == min(expected, here)


def test_each_partition_has_one_receiver():
    """And every receiver has a partition."""
    for receivers in range(1, 6):
        for partitions in range(receivers, 12):
            owned = [list(partitions_of(r, receivers, partitions)) for r in range(receivers)]
            assert sorted(p for mine in owned for p in mine) == list(range(partitions))
            assert all(owned)
            assert all(receiver_of(p, receivers) == r for r, mine in enumerate(owned) for p in mine)
