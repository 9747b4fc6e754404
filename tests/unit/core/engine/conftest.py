"""Tasks, events and ports of the pipeline's parts."""

import pytest

from distributary.core.event import Event
from distributary.core.flow import Leg, Origin, Position, Task
from distributary.testing.virtual import VirtualClock, VirtualTimers


@pytest.fixture
def clock():
    """Time that stands still."""
    return VirtualClock()


@pytest.fixture
def timers(clock):
    """Timers on it."""
    return VirtualTimers(clock)


@pytest.fixture
def make_task():
    """Makes a task of a route at a place."""

    def make(offset=0, index=0, route="r", **attributes):
        named = {"specversion": "1.0", "id": f"{offset}", "source": "/s", "type": "t"}
        event = Event(named | attributes, b"x")
        place = Position(0, offset, index)
        return Task(place, 1, route, event, Leg.EVENT, 1, 0, Origin.LIVE)

    return make
