"""A partition in virtual time."""

import pytest

from kit.simulation.life_checker import LifeChecker, transitions
from kit.simulation.partition import Partition

met = LifeChecker.met


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


def pytest_terminal_summary(terminalreporter):
    """Say how much of the table of a match's life was met."""
    allowed = transitions()
    missed = [f"{state.value}/{step.name}" for state, step in allowed if not met[state, step]]
    count = len(allowed) - len(missed)
    terminalreporter.write_line(f"life of a match: {count} of {len(allowed)} transitions met")
    if missed and count > len(allowed) // 2:
        terminalreporter.write_line(f"not met: {', '.join(missed)}")
