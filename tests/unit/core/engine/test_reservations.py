"""Who claims the slots that were there when an owner began: wrong answers waste or double them."""

import pytest

from distributary.core.engine.reservations import Claim, claims
from distributary.core.flow import Leg
from distributary.core.journal import DoneKey
from distributary.core.outcome import LagRow, RetryRow, Slot

CURSOR = 50


def slot(offset, index=0, checksum=7, route="r"):
    """A slot."""
    return Slot(DoneKey(offset, index, route), checksum)


def row(offset, *, leg=Leg.EVENT, done=False, checksum=7):
    """A retry row."""
    return RetryRow(DoneKey(offset, 0, "r"), checksum, leg, 2, 0, None, done=done)


def lag(start, from_offset, to_offset=None, route="r"):
    """A lag."""
    return LagRow(route, start, 0, from_offset, to_offset, b"{}")


@pytest.mark.parametrize(
    ("asked", "done", "rows", "lags", "claim"),
    [
        pytest.param(slot(60), {}, [], [], Claim.READER, id="the-live-reader-comes-there"),
        pytest.param(slot(40), {}, [], [], Claim.NONE, id="below-the-cursor"),
        pytest.param(slot(60), {60: 7}, [], [], Claim.NONE, id="done"),
        pytest.param(slot(60), {60: 8}, [], [], Claim.READER, id="another-record-was-done"),
        pytest.param(slot(40), {}, [row(40)], [], Claim.ROW, id="a-row"),
        pytest.param(slot(40), {}, [row(40, checksum=8)], [], Claim.NONE, id="another-records-row"),
        pytest.param(slot(60), {}, [row(60, done=True)], [], Claim.NONE, id="a-row-that-is-done"),
        pytest.param(
            slot(40), {}, [row(40, leg=Leg.DEAD_LETTER)], [], Claim.NONE, id="a-dead-letter"
        ),
        pytest.param(slot(30), {}, [], [lag(20, 25)], Claim.READER, id="a-lag-comes-there"),
        pytest.param(slot(22), {}, [], [lag(20, 25)], Claim.NONE, id="a-lag-has-passed"),
        pytest.param(slot(60), {}, [], [lag(20, 70)], Claim.NONE, id="a-lag-ahead-of-the-cursor"),
        pytest.param(
            slot(60), {}, [], [lag(20, 30, 55)], Claim.READER, id="behind-where-it-joined"
        ),
        pytest.param(slot(30), {}, [], [lag(20, 25, route="q")], Claim.NONE, id="anothers-lag"),
    ],
)
def test_a_slot_is_claimed_by_whoever_meets_its_match_again(asked, done, rows, lags, claim):
    """The live reader, a lag, a row, or nobody: then its match was delivered."""
    keyed = {DoneKey(offset, 0, "r"): checksum for offset, checksum in done.items()}
    assert claims(CURSOR, keyed, rows, lags)(asked) is claim
