"""Queues whose attempts are traced: what a sink gets, who is told, and who is not asked."""

import pytest
from msgspec.structs import replace

from distributary.core.deliver import Destination, Dispatcher
from distributary.core.errors import TransportError
from distributary.testing.scripted_transport import ScriptedTransport, Step
from distributary.testing.virtual import SeededRandom, VirtualClock, VirtualTimers

SINK = Destination("http://sink.example/")


class Traced:
    """One attempt, which says when it was answered."""

    carried = b"traceparent: mine\r\n"

    def __init__(self, ends):
        self.ends = ends

    def answered(self, done, answer):
        self.ends.append(answer)
        done(answer)


class Rig:
    """A dispatcher that traces what has a line of a trace."""

    def __init__(self):
        self.asked, self.ends, self.attempts = [], [], []
        clock = VirtualClock()
        self.timers = VirtualTimers(clock)
        self.transport = ScriptedTransport(self.timers, lambda *_: Step(after_s=0.01))
        self.dispatcher = Dispatcher(
            {"HTTP": self.transport},
            clock=clock,
            timers=self.timers,
            random=SeededRandom(1),
            on_attempt=self.attempts.append,
            tracing=self,
        )

    def start(self, task, _destination):
        self.asked.append(task)
        return Traced(self.ends) if task.carried.startswith(b"traceparent:") else None

    def send(self, task, destination=SINK):
        self.dispatcher.offer(task, destination)
        self.timers.advance(1.0)
        (attempt,) = self.attempts
        return attempt


@pytest.fixture
def traced_rig():
    """A dispatcher that traces."""
    return Rig()


def test_a_traced_attempt_takes_its_own_place_along(rig, traced_rig):
    """Its task keeps the place of the append: the next attempt begins there too."""
    task = replace(rig.task(), carried=b"traceparent: of the append\r\n")
    attempt = traced_rig.send(task)
    assert traced_rig.transport.carried == [Traced.carried]
    assert attempt.task is task
    assert traced_rig.ends == [attempt.answer]
    assert (traced_rig.dispatcher.in_flight, traced_rig.dispatcher.held_bytes) == (0, 0)


@pytest.mark.parametrize(("carried", "asked"), [(b"", 0), (b"x-request-id: 1\r\n", 1)])
def test_an_event_without_a_trace_goes_as_ever(rig, traced_rig, carried, asked):
    """One without carried lines is not even asked about."""
    traced_rig.send(replace(rig.task(), carried=carried))
    assert len(traced_rig.asked) == asked
    assert traced_rig.transport.carried == [b""]
    assert traced_rig.ends == []


def test_an_attempt_that_is_not_made_ends_its_span(rig, traced_rig):
    """As one that the settings refuse."""
    task = replace(rig.task(), carried=b"traceparent: of the append\r\n")
    attempt = traced_rig.send(task, Destination("http://a.example/", refused="by a setting"))
    assert isinstance(attempt.answer, TransportError)
    assert traced_rig.ends == [attempt.answer]
    assert traced_rig.transport.arrived == []
