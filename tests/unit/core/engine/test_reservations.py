"""Who claims the reservations an owner begins with: wrong answers waste or double them."""

import pytest

from distributary.core.engine.reservations import Claim, claims
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import BackfillRow, Reservation, RetryRow

CURSOR = 50


def reservation(offset, index=0, checksum=7, route="r"):
    """A reservation."""
    return Reservation(DoneKey(offset, index, route), checksum)


def row(offset, *, stage=Stage.PRIMARY, done=False, checksum=7):
    """A retry row."""
    return RetryRow(DoneKey(offset, 0, "r"), checksum, stage, 2, 0, None, done=done)


def backfill(start, from_offset, to_offset=None, route="r"):
    """A backfill."""
    return BackfillRow(route, start, 0, from_offset, to_offset, b"{}")


@pytest.mark.parametrize(
    ("asked", "done", "rows", "backfills", "claim"),
    [
        pytest.param(reservation(60), {}, [], [], Claim.READER, id="the-live-reader-comes-there"),
        pytest.param(reservation(40), {}, [], [], Claim.NONE, id="below-the-cursor"),
        pytest.param(reservation(60), {60: 7}, [], [], Claim.NONE, id="done"),
        pytest.param(reservation(60), {60: 8}, [], [], Claim.READER, id="another-record-was-done"),
        pytest.param(reservation(40), {}, [row(40)], [], Claim.ROW, id="a-row"),
        pytest.param(
            reservation(40), {}, [row(40, checksum=8)], [], Claim.NONE, id="another-records-row"
        ),
        pytest.param(
            reservation(60), {}, [row(60, done=True)], [], Claim.NONE, id="a-row-that-is-done"
        ),
        pytest.param(
            reservation(40),
            {},
            [row(40, stage=Stage.DEAD_LETTER)],
            [],
            Claim.NONE,
            id="a-dead-letter",
        ),
        pytest.param(
            reservation(30), {}, [], [backfill(20, 25)], Claim.READER, id="a-lag-comes-there"
        ),
        pytest.param(
            reservation(22), {}, [], [backfill(20, 25)], Claim.NONE, id="a-lag-has-passed"
        ),
        pytest.param(
            reservation(60), {}, [], [backfill(20, 70)], Claim.NONE, id="a-lag-ahead-of-the-cursor"
        ),
        pytest.param(
            reservation(60),
            {},
            [],
            [backfill(20, 30, 55)],
            Claim.READER,
            id="behind-where-it-joined",
        ),
        pytest.param(
            reservation(30), {}, [], [backfill(20, 25, route="q")], Claim.NONE, id="anothers-lag"
        ),
    ],
)
def test_a_reservation_is_claimed_by_whoever_meets_its_match_again(
    asked, done, rows, backfills, claim
):
    """The live reader, a backfill, a row, or nobody: then its match was delivered."""
    keyed = {DoneKey(offset, 0, "r"): checksum for offset, checksum in done.items()}
    assert claims(CURSOR, keyed, rows, backfills)(asked) is claim
