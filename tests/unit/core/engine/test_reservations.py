"""Reservations: who holds one after a restart, who asks again, and what counts."""

import pytest

from distributary.core.engine.limits import EngineLimits
from distributary.core.engine.reservations import EXHAUSTED_S, Reservations
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import Reservation, ReservationAnswer, ReservationRequest, RetryRow

LIMITS = EngineLimits(asking_when_exhausted_max=2)


def reservation(offset, checksum=7, route="r"):
    """A reservation."""
    return Reservation(DoneKey(offset, 0, route), checksum)


def rows(*found):
    """Open rows, by match."""
    return {row.key: row for row in found}


def row(offset, *, stage=Stage.PRIMARY, checksum=7):
    """A row that waits."""
    return RetryRow(DoneKey(offset, 0, "r"), checksum, stage, 2, 0, None, done=False)


@pytest.fixture
def reservations():
    """Nobody has asked."""
    return Reservations(LIMITS)


def grant(reservations, wanted, answer=ReservationAnswer.HELD, now_s=0.0):
    """The store answers a match that asks."""
    assert reservations.ask(wanted, 5, now_s)
    reservations.take_batch()
    reservations.answered(ReservationRequest(wanted, 5), answer, now_s)


@pytest.mark.parametrize(
    ("found", "counted"),
    [
        pytest.param([row(1)], False, id="its-row-is-open"),
        pytest.param([], True, id="no-row"),
        pytest.param([row(1, checksum=8)], True, id="another-records-row"),
        pytest.param(
            [row(1, stage=Stage.DEAD_LETTER)], True, id="on-its-way-to-the-dead-letter-sink"
        ),
        pytest.param([row(2)], True, id="anothers-row"),
    ],
)
def test_a_reservation_whose_row_is_not_open_has_made_its_delivery(reservations, found, counted):
    """A failure gives its reservation back first, and none is taken without a row."""
    reservations.loaded({reservation(1): False}, rows(*found))
    assert reservations.holds(reservation(1).key) is not counted
    assert reservations.take_batch().counted == [reservation(1)] * counted


def test_a_match_uncertain_counts_even_if_it_fails_now(reservations):
    """An attempt before the restart was perhaps acknowledged; it never comes to rest."""
    reservations.loaded({reservation(1): False}, rows(row(1)))
    reservations.make_idle(reservation(1).key)
    assert reservations.holds(reservation(1).key)
    reservations.end(reservation(1).key, delivered=False)
    batch = reservations.take_batch()
    assert (batch.counted, batch.freed, batch.resting) == ([reservation(1)], [], [])


def test_a_match_that_rested_at_the_restart_is_not_in_doubt(reservations):
    """It asks again before its next attempt, and its failure frees the reservation."""
    reservations.loaded({reservation(1): True}, rows(row(1)))
    assert not reservations.holds(reservation(1).key)
    grant(reservations, reservation(1))
    assert reservations.holds(reservation(1).key)
    reservations.end(reservation(1).key, delivered=False)
    assert reservations.take_batch().freed == [reservation(1)]


def test_what_rests_is_told_once(reservations):
    """It keeps its reservation, and asks whether its route is short or not."""
    grant(reservations, reservation(1))
    reservations.make_idle(reservation(1).key)
    reservations.make_idle(reservation(1).key)
    assert reservations.take_batch().resting == [reservation(1)]
    grant(reservations, reservation(2), ReservationAnswer.WAIT)
    assert reservations.ask(reservation(1), 5, 0.0)
    assert not reservations.ask(reservation(2), 5, 0.0)


def test_a_route_without_reservations_asks_again_after_a_moment_with_a_few(reservations):
    """Until one gets a reservation: then all may ask."""
    grant(reservations, reservation(1), ReservationAnswer.WAIT)
    assert reservations.exhausted("r", 0.0)
    assert not reservations.ask(reservation(2), 5, EXHAUSTED_S / 2)
    assert not reservations.exhausted("r", EXHAUSTED_S)
    asked = [reservations.ask(reservation(offset), 5, EXHAUSTED_S) for offset in range(2, 6)]
    assert asked == [True, True, False, False]
    reservations.answered(
        ReservationRequest(reservation(2), 5), ReservationAnswer.HELD, EXHAUSTED_S
    )
    assert reservations.ask(reservation(4), 5, EXHAUSTED_S)


def test_another_limit_is_asked_under_at_once(reservations):
    """What was refused under the old one says nothing."""
    grant(reservations, reservation(1), ReservationAnswer.USED_UP)
    assert reservations.used_up == {"r"}
    assert reservations.ask(reservation(1), 6, 0.0)
    reservations.answered(ReservationRequest(reservation(1), 6), ReservationAnswer.HELD, 0.0)
    assert not reservations.used_up


def test_at_a_stop_what_begins_no_attempt_rests_and_nobody_asks(reservations):
    """What is under way is in doubt until its answer comes."""
    grant(reservations, reservation(1))
    grant(reservations, reservation(2))
    reservations.ask(reservation(3), 5, 0.0)
    reservations.stop({reservation(2).key, reservation(3).key})
    batch = reservations.take_batch()
    assert (batch.resting, batch.requests) == ([reservation(2)], [])


def test_a_match_without_a_reservation_tells_nothing(reservations):
    """As all do whose subscription is not counted."""
    reservations.make_idle(reservation(1).key)
    reservations.end(reservation(1).key, delivered=True)
    assert not reservations.waiting
