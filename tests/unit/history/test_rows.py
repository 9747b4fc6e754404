"""Rows of the history: what an owner records, and what a block gives back."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import StoreError, TransportError
from distributary.core.event import Event
from distributary.core.flow import Attempt, DoneKey, Ending, Origin, Position, Stage, Task
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict
from distributary.history import rows as rows_module
from distributary.history.rows import DECISIONS, OUTCOMES, Block, Recorder, RouteNames, decode

RETRY = Verdict(Decision.RETRY, "status-503", 0.25)
NAMES = {"u": RouteNames("shop", "orders", 3)}


def task(offset=7, route="u", *, stage=Stage.PRIMARY, attempt=1, event_id="1"):
    """A match."""
    event = Event({"specversion": "1.0", "id": event_id, "source": "/s", "type": "t", "x": 5}, b"")
    return Task(Position(1, offset, 2), 1, route, event, stage, attempt, 0, Origin.LIVE)


def key(of):
    """Its key."""
    return DoneKey(of.position.offset, of.position.index, of.route)


def tried(of, status=503):
    """An attempt with an answer."""
    return Attempt(of, Reply(status, None, None, b""), 0.0123456789)


def told(recorder):
    """The rows in words: event, route, stage, attempt, status, decision, reason, outcome."""
    count, encoded = recorder.take()
    block = decode(encoded)
    assert len(block.rows) == count
    return [
        (
            block.events[row.event].id,
            block.routes[row.route],
            row.stage,
            row.attempt,
            row.status,
            None if row.decision is None else DECISIONS[row.decision],
            row.reason,
            OUTCOMES[row.outcome],
        )
        for row in block.rows
    ]


@pytest.fixture
def recorder():
    """Of partition 1."""
    return Recorder(1, NAMES.get)


def test_the_attempt_that_brings_an_outcome_has_it_in_its_row(recorder):
    """One row for nearly every match."""
    recorder.attempted(tried(task(), 204), DELIVERED, 99)
    recorder.ended(key(task()), Ending.DELIVERED, None, 99, task())
    orders = ("u", "shop", "orders", 3)
    assert told(recorder) == [("1", orders, 1, 1, 204, "delivered", None, "delivered")]
    assert recorder.take() == (0, b"")


def test_an_attempt_that_goes_on_has_no_outcome(recorder):
    """Its reason says why it did not deliver; without an answer no status is invented."""
    recorder.attempted(tried(task(attempt=2)), RETRY, 99)
    cut = Attempt(task(8), TransportError("reset", "cut"), 0.5)
    recorder.attempted(cut, Verdict(Decision.RETRY, "reset"), 100)
    first, second = told(recorder)
    assert first[3:] == (2, 503, "retry", "status-503", None)
    assert second[3:] == (1, None, "retry", "reset", None)


def test_an_outcome_of_another_match_is_a_row_of_its_own(recorder):
    """What a deleted route leaves ends without an attempt, between attempts of others."""
    recorder.attempted(tried(task()), RETRY, 99)
    recorder.ended(DoneKey(3, 0, "gone"), Ending.DROPPED, "route-deleted", 100, None)
    attempt, drop = told(recorder)
    assert attempt[-1] is None
    unknown = ("gone", None, None, None)
    assert drop == (None, unknown, None, None, None, None, "route-deleted", "dropped")


def test_a_block_names_each_event_and_route_once(recorder):
    """Ten matches of an event are ten short rows."""
    for number in range(10):
        recorder.attempted(tried(task(route=f"r{number % 2}"), 204), DELIVERED, 99)
    count, encoded = recorder.take()
    block = decode(encoded)
    assert (count, len(block.events), len(block.routes)) == (10, 1, 2)


def test_a_deleted_route_keeps_its_names_for_what_it_leaves():
    """They were known when it delivered."""
    names = dict(NAMES)
    recorder = Recorder(1, names.get)
    recorder.attempted(tried(task()), RETRY, 1)
    recorder.take()
    del names["u"]
    recorder.ended(key(task()), Ending.DROPPED, "route-deleted", 2, None)
    ((_, route, *_),) = told(recorder)
    assert route == ("u", "shop", "orders", 3)


def test_successes_at_once_can_be_left_out():
    """A second attempt that delivers says that there was a first one."""
    recorder = Recorder(1, NAMES.get, failures_only=True)
    for number, verdict in ((1, DELIVERED), (1, RETRY), (2, DELIVERED)):
        of = task(attempt=number)
        recorder.attempted(tried(of), verdict, 1)
        if verdict is DELIVERED:
            recorder.ended(key(of), Ending.DELIVERED, None, 1, of)
    assert [(row[3], row[5]) for row in told(recorder)] == [(1, "retry"), (2, "delivered")]


def test_long_values_are_cut(recorder):
    """A publisher decides their length; a row is short."""
    recorder.attempted(tried(task(event_id="x" * 100_000)), RETRY, 1)
    ((event_id, *_),) = told(recorder)
    assert len(event_id) == rows_module.VALUE_CHARS_MAX


def test_names_of_routes_are_remembered_within_a_limit(monkeypatch):
    """Subscriptions come and go for months."""
    monkeypatch.setattr(rows_module, "ROUTES_KNOWN_MAX", 3)
    recorder = Recorder(1, lambda uid: RouteNames("default", uid, 1))
    for number in range(50):
        recorder.attempted(tried(task(route=f"r{number}")), RETRY, 1)
        recorder.take()
    assert len(recorder._known) <= 3


def test_a_reply_does_not_lend_its_names_to_the_event(recorder):
    """A row is about the event that was published."""
    recorder.attempted(tried(task(stage=Stage.REPLY, event_id="reply")), RETRY, 1)
    ((event_id, _, stage, *_),) = told(recorder)
    assert (event_id, stage) == (None, Stage.REPLY)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_block_or_one_error(content):
    """A newer version may have written them."""
    with contextlib.suppress(StoreError):
        assert isinstance(decode(content), Block)
