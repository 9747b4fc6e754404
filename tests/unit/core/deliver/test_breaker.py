"""The circuit breaker by itself."""

import itertools

from distributary.core.deliver import TRANSITIONS, BreakerEvent, BreakerState
from distributary.core.deliver.breaker import FAILURES_IN_A_ROW, OPEN_S_MAX, Breaker

CLOSED, OPEN, HALF_OPEN = BreakerState


def opened():
    """A breaker that has just opened."""
    breaker = Breaker()
    for _ in range(FAILURES_IN_A_ROW):
        breaker.failed(probe=False, jitter=0.0)
    return breaker


def test_stays_closed_until_the_last_failure_in_a_row():
    """One answer between them starts the count again."""
    breaker = Breaker()
    for _ in range(3):
        for _ in range(FAILURES_IN_A_ROW - 1):
            assert breaker.failed(probe=False, jitter=0.0) is None
        assert breaker.answered() is False
    assert breaker.state is CLOSED


def test_says_how_long_to_pause_when_it_opens():
    """The first pause is a quarter of a second, before jitter."""
    breaker = Breaker()
    for _ in range(FAILURES_IN_A_ROW - 1):
        breaker.failed(probe=False, jitter=0.0)
    assert breaker.failed(probe=False, jitter=0.0) == 0.25
    assert breaker.state is OPEN


def test_ignores_failures_that_began_before_it_opened():
    """Neither open nor half open do they change anything."""
    breaker = opened()
    assert breaker.failed(probe=False, jitter=0.0) is None
    assert breaker.state is OPEN
    breaker.pause_over()
    assert breaker.failed(probe=False, jitter=0.0) is None
    assert breaker.state is HALF_OPEN


def test_lets_one_probe_through():
    """Half open: the first claim only; open or closed: none."""
    breaker = opened()
    assert not breaker.claim_probe()
    breaker.pause_over()
    assert breaker.claim_probe()
    assert not breaker.claim_probe()
    breaker.answered()
    assert not breaker.claim_probe()


def test_a_probe_that_was_not_sent_is_had_again():
    """By another attempt, at once."""
    breaker = opened()
    breaker.pause_over()
    assert breaker.claim_probe()
    breaker.give_probe_back()
    assert breaker.claim_probe()
    assert breaker.state is HALF_OPEN


def test_an_answer_to_an_early_attempt_closes_it():
    """A sign of life is one, whoever asked."""
    breaker = opened()
    assert breaker.answered() is True
    assert breaker.state is CLOSED


def test_pauses_double_up_to_the_ceiling_and_jitter_stays_below_it():
    """0.25, 0.5 ... 30, 30; the first again after an answer."""
    breaker = opened()
    pauses = []
    for _ in range(10):
        breaker.pause_over()
        assert breaker.claim_probe()
        pauses.append(breaker.failed(probe=True, jitter=1.0))
    assert all(a <= b for a, b in itertools.pairwise(pauses))
    assert pauses[0] == 0.5 * 1.2
    assert pauses[-1] == OPEN_S_MAX
    breaker.answered()
    for _ in range(FAILURES_IN_A_ROW - 1):
        breaker.failed(probe=False, jitter=0.0)
    assert breaker.failed(probe=False, jitter=0.0) == 0.25


def test_every_transition_leads_somewhere_and_every_state_can_be_left():
    """The table is closed: the documentation draws it."""
    assert {state for state, _ in TRANSITIONS} == set(BreakerState)
    assert set(TRANSITIONS.values()) == set(BreakerState)
    for state in BreakerState:
        assert any(TRANSITIONS.get((state, event), state) is not state for event in BreakerEvent)
