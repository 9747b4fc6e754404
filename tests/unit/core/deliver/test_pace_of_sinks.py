"""What queues tell of the pace of their sinks, in virtual time."""

import math

import pytest

from distributary.testing.scripted_transport import Step


def test_estimates_the_pace_of_the_last_second(rig):
    """A sink at 10 ms and 64 at once makes 6,400 a second."""
    for _ in range(15):
        rig.offer(1000)
        rig.advance(0.1)
    assert rig.queue().completions_per_s == pytest.approx(6400, rel=0.05)


def test_time_without_attempts_is_no_slowness_of_the_sink(rig):
    """A burst after quiet seconds is expected to take as long as the one before it."""
    for _ in range(15):
        rig.offer(1000)
        rig.advance(0.1)
    rig.advance(20.0)
    rig.offer(1000)
    rig.advance(0.02)
    assert rig.queue().completions_per_s == pytest.approx(6400, rel=0.05)
    rig.advance(60.0)
    assert rig.queue().completions_per_s == pytest.approx(6400, rel=0.05)


def test_the_drain_time_of_a_silent_queue_is_infinite(rig):
    """Nothing was answered: nobody knows."""
    rig.script = lambda _event, _destination: Step(None, 0.01)
    rig.offer(10)
    rig.advance(5.0)
    assert rig.queue().drain_s == math.inf
    assert rig.queue().oldest_in_flight_s == pytest.approx(5.0)
    assert rig.dispatcher.oldest_in_flight_s() == pytest.approx(5.0)
