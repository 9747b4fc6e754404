"""A dispatcher in virtual time, with a scripted transport."""

import pytest

from distributary.core.deliver import Destination, Dispatcher, Limits
from distributary.core.event import Event
from distributary.core.flow import Origin, Position, Stage, Task
from distributary.core.policy import DeliveryPolicy
from distributary.testing.scripted_transport import ScriptedTransport, Step
from distributary.testing.virtual import SeededRandom, VirtualClock, VirtualTimers

URI = "http://sink.example/"


class Rig:
    """A dispatcher, what it reports, and the sink's script."""

    def __init__(self, **limits):
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.script = lambda _event, _destination: Step(after_s=0.01)
        self.transport = ScriptedTransport(self.timers, self._act)
        self.attempts = []
        self.drained = []
        self.dispatcher = Dispatcher(
            {"HTTP": self.transport},
            clock=self.clock,
            timers=self.timers,
            random=SeededRandom(1),
            on_attempt=self.attempts.append,
            on_drained=self.drained.append,
            limits=Limits(**limits),
        )
        self.offered = 0

    def _act(self, event, destination):
        return self.script(event, destination)  # looked up anew: tests change it

    def task(self, data=b"x"):
        self.offered += 1
        attributes = {"specversion": "1.0", "id": str(self.offered), "source": "/", "type": "t"}
        event = Event(attributes, data)
        place = Position(0, self.offered, 0)
        return Task(place, 1, "route", event, Stage.PRIMARY, 1, 0, Origin.LIVE)

    def offer(self, count=1, uri=URI, data=b"x", **policy):
        """What came of offering so many tasks."""
        to = Destination(uri, policy=DeliveryPolicy(**policy))
        return [self.dispatcher.offer(self.task(data), to) for _ in range(count)]

    def queue(self, uri=URI):
        return self.dispatcher.queue(uri)

    def advance(self, seconds):
        self.timers.advance(seconds)

    @property
    def now_s(self):
        return self.clock.monotonic_s()


@pytest.fixture
def rig():
    """A dispatcher with its limits as shipped."""
    return Rig()


@pytest.fixture
def make_rig():
    """Makes a dispatcher with other limits."""
    return Rig
