"""A log on a simulated disk."""

import pytest

from distributary.testing.small_log import SmallLog


@pytest.fixture
def log():
    """An open log of one partition."""
    small = SmallLog()
    small.open()
    return small
