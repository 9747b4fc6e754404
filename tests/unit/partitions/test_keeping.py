"""Housekeeping of kept dead letters: what a wrong wall clock may not end."""

from types import SimpleNamespace

import pytest

from distributary.core.clock import LEAP_S, TRUST_S
from distributary.core.meter import Meter
from distributary.core.outcome import KeptDeadLetters
from distributary.partitions._keeping import GONE_S, HOUSE_EVERY_S, Keeping

MONTH_MS = 31 * 86_400_000


class House:
    """Housekeeping in virtual time, and the times by which ages were told."""

    def __init__(self, clock):
        self.clock = clock
        self.told_ms = []
        self.gone = []
        self.more = False
        context = SimpleNamespace(
            clock=clock,
            meter=Meter(),
            ownership=SimpleNamespace(store=self),
            aside=self,
            warn=lambda _event, _fields: None,
        )
        self.keeping = Keeping(context, lambda _route: True)

    def keep_house(self, gone, now_ms, _namespaces):
        self.told_ms.append(now_ms)
        self.gone.append(gone)
        return KeptDeadLetters([], [], more=self.more, unnamed=[])

    def run(self, work, done):
        work()
        done(None)

    def look(self, after_s=HOUSE_EVERY_S):
        self.clock.move_to(self.clock.monotonic_s() + after_s)
        self.keeping.tick()
        return self.told_ms[-1]


@pytest.fixture
def house(clock):
    """It has looked for so long that the clock counts."""
    made = House(clock)
    assert made.look() == 0
    assert made.look(TRUST_S) == clock.wall_ms()
    return made


def test_after_a_start_nothing_ends_by_its_age_for_an_hour(clock):
    """The clock may not be set yet."""
    made = House(clock)
    assert [made.look() for _ in range(3)] == [0, 0, 0]
    assert made.look(TRUST_S) == clock.wall_ms()


def test_a_clock_that_leaps_ends_nothing_before_it_can_be_set_right(house, clock):
    """A month ahead for half an hour, and back: no dead letter is a month old meanwhile."""
    clock.jump(MONTH_MS)
    assert house.look() == 0
    assert house.look(TRUST_S / 2) == 0
    clock.jump(-MONTH_MS)
    assert house.look() == 0
    assert house.look(TRUST_S - HOUSE_EVERY_S) == 0
    assert house.look() == clock.wall_ms()


def test_corrections_of_the_clock_change_nothing(house, clock):
    """A second now and then."""
    for correction_ms in (1_000, -1_000, round(LEAP_S * 1000)):
        clock.jump(correction_ms)
        assert house.look() == clock.wall_ms()


def test_dead_letters_of_a_deleted_route_are_looked_for_until_all_were_looked_at(house):
    """One look deletes some; a flush that was under way may bring others for a while."""
    house.more = True
    house.keeping.route_deleted("r")
    for _ in range(3):
        house.look(GONE_S)
    house.more = False
    house.look()
    house.look()
    assert house.gone[-5:] == [("r",)] * 4 + [()]
