"""Ports of what serves a partition."""

import pytest

from distributary.testing.virtual import VirtualClock, VirtualTimers


@pytest.fixture
def clock():
    """Time that stands still."""
    return VirtualClock()


@pytest.fixture
def timers(clock):
    """Timers on it."""
    return VirtualTimers(clock)
