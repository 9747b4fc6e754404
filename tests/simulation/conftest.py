"""A partition in virtual time."""

import pytest

from distributary.testing.simulation import Partition


@pytest.fixture
def make_partition(tmp_path):
    """Makes a partition with other limits; it is closed at the end."""
    made = []

    def make(**named):
        made.append(Partition(tmp_path, **named))
        return made[-1]

    yield make
    for partition in made:
        partition.close()


@pytest.fixture
def partition(make_partition):
    """A partition without an owner."""
    return make_partition()
