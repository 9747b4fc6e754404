"""Ports of what serves a partition."""

import pytest

from distributary.testing.virtual import VirtualClock


@pytest.fixture
def clock():
    """Time that stands still."""
    return VirtualClock()
