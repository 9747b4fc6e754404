"""Connections to brokers in virtual time: dials, pauses, breaks, idle ones, and the end."""

import asyncio
import itertools

import pytest

from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement
from distributary.net.link import _broker, _link
from kit.scripted_session import YES, ScriptedSession, a_place, virtual

NOBODY = TransportError("refused", "nobody listens")
CUT = TransportError("reset", "cut")


@virtual
async def test_a_dial_that_fails_is_the_answer_of_all_that_wait(bench):
    """A broker's no to the login as well as an error."""
    no = Acknowledgement("NATS", "authorization-violation", "no")
    for comes in (NOBODY, no):
        bench.broker.script.append(comes)
        numbers = range(len(bench.answers), len(bench.answers) + 3)
        for number in numbers:
            bench.send(number)
        await asyncio.sleep(1.0)
        assert [bench.answers[number] for number in numbers] == [comes] * 3
    assert not bench.broker.sessions


@virtual
async def test_dials_that_fail_are_further_and_further_apart(bench):
    """0.1 s, doubled up to 2 s: a broker that is away is not dialled more, and soon found."""
    bench.broker.otherwise = NOBODY
    bench.broker.dial_s = 0.0
    for number in range(9):
        answered = asyncio.Event()
        bench.send(number, then=answered.set)
        await answered.wait()
    dials = bench.broker.dials
    gaps = [round(after - before, 2) for before, after in itertools.pairwise(dials)]
    assert gaps == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


@virtual
async def test_a_good_connection_ends_the_pauses(bench):
    """After an answer the next break is dialled at once, and failures count from one again."""
    bench.broker.script.extend([NOBODY, NOBODY, None])
    for number in range(3):
        bench.send(number)
        await asyncio.sleep(1.0)
    session = bench.broker.sessions[0]
    session.published[0].answer(YES)
    session.lost(CUT)
    bench.broker.script.extend([NOBODY, None])
    began_s = bench.loop.time()
    bench.send(3, then=lambda: bench.send(4))
    await asyncio.sleep(1.0)
    first_s, second_s = bench.broker.dials[-2:]
    assert first_s == began_s
    assert second_s == pytest.approx(began_s + _link.PAUSE_S_FIRST, abs=0.05)


@virtual
async def test_a_broker_that_lets_in_and_throws_out_is_not_dialled_in_a_hurry(bench):
    """A connection that ended before it answered anything counts as a dial that failed."""
    bench.broker.dial_s = 0.0
    bench.broker.on_open = lambda session: bench.loop.call_later(0.001, session.lost, CUT)
    for number in range(20):
        bench.send(number)
        await asyncio.sleep(0.5)
    assert len(bench.broker.dials) <= 12
    assert all(answer.reason == "reset" for answer in bench.answers.values())


@virtual
async def test_a_dial_that_takes_too_long_is_given_up(bench):
    """Whoever still waits is told."""
    bench.broker.dial_s = 60.0
    bench.send(1)
    await asyncio.sleep(11.0)
    assert bench.answers[1].reason == "timeout"
    assert _link.DIAL_S_MAX <= bench.when[1] <= _link.DIAL_S_MAX + 0.2


@virtual
async def test_a_bug_in_the_opener_is_told_and_ends_nothing_else(bench):
    """The loop's exception handler hears of it; the next dial is made."""
    bench.broker.script.append(KeyError("a bug"))
    bench.send(1)
    await asyncio.sleep(1.0)
    assert bench.answers[1].reason == "protocol"
    assert len(bench.loop.complaints) == 1
    bench.loop.complaints.clear()
    bench.send(2)
    await asyncio.sleep(1.0)
    assert bench.broker.sessions[0].ids == ["2"]


@virtual
async def test_a_lost_connection_answers_what_was_in_flight_and_no_more(bench):
    """Those that waited go out on the next one, in order; nothing is sent twice."""
    session = await bench.open()
    for number in range(1, 16):
        bench.send(number)
    session.lost(CUT)
    assert {n: a.reason for n, a in bench.answers.items() if n} == dict.fromkeys(
        range(1, 11), "reset"
    )
    assert session.closed == 0  # in the background
    await asyncio.sleep(1.0)
    assert session.closed == 1
    assert bench.broker.sessions[-1].ids == ["11", "12", "13", "14", "15"]


@virtual
async def test_what_a_session_had_not_sent_waits_for_the_next_one_in_its_order(bench):
    """The end of a connection says nothing about messages that were not under way."""
    session = await bench.open()
    holds_back = {"2", "4"}

    def publish(flight):
        if flight.event.attributes["id"] in holds_back:
            flight.sent_s = 0.0

    session.on_publish = publish
    for number in (1, 2, 3, 4):
        bench.send(number)
    session.lost(CUT)
    assert bench.answers[1] == bench.answers[3] == CUT
    bench.send(5)
    await asyncio.sleep(1.0)
    following = bench.broker.sessions[-1]
    assert following.ids == ["2", "4", "5"]
    for flight in following.published:
        flight.answer(YES)
    assert bench.answers[2] == bench.answers[4] == YES


@virtual
async def test_a_connection_that_ends_before_anything_is_sent_answers_all(bench):
    """Otherwise they would follow one connection after the other until their time is over."""
    session = await bench.open()
    session.on_publish = lambda flight: setattr(flight, "sent_s", 0.0)
    bench.send(1)
    session.lost(CUT)
    assert bench.answers[1] == CUT


@virtual
async def test_a_loss_is_told_as_often_as_the_client_likes(bench):
    """Only the first one counts, and an old connection's end does not touch the new one."""
    old = await bench.open()
    bench.send(1)
    old.lost(CUT)
    old.lost(CUT)
    bench.send(2)
    await asyncio.sleep(1.0)
    new = bench.broker.sessions[-1]
    assert new is not old
    old.lost(CUT)
    assert 2 not in bench.answers
    new.published[0].answer(YES)
    assert bench.answers[2] is YES
    assert old.closed == 1


@virtual
async def test_a_loss_before_the_session_is_returned_is_not_missed(bench):
    """The broker let us in and closed at once: a session that is dead is never used."""
    bench.broker.on_open = lambda session: session.lost(CUT)
    bench.send(1)
    await asyncio.sleep(0.05)
    assert bench.answers[1] is CUT
    await asyncio.sleep(0)
    assert bench.broker.sessions[0].closed == 1


@virtual
async def test_a_loss_inside_publish_ends_the_session_at_once(bench):
    """Nothing more is published there; what waits dials anew."""
    session = await bench.open()
    session.on_publish = lambda _: session.lost(CUT)
    bench.send(1)
    assert 1 not in bench.answers
    bench.send(2)
    await asyncio.sleep(1.0)
    assert session.ids == ["1"]
    assert bench.answers[1].reason == "reset"
    assert bench.broker.sessions[-1].ids == ["2"]


@virtual
async def test_a_loss_inside_publish_of_what_waited_dials_anew(bench):
    """The same while a new session takes what has waited for it."""

    def first_breaks(session):
        if len(bench.broker.sessions) == 1:
            session.on_publish = lambda _: session.lost(CUT)

    bench.broker.on_open = first_breaks
    for number in range(3):
        bench.send(number)
    await asyncio.sleep(1.0)
    assert bench.answers[0].reason == "reset"
    assert [session.ids for session in bench.broker.sessions] == [["0"], ["1", "2"]]


@virtual
async def test_an_attempt_that_begins_in_the_answer_of_a_lost_one_is_sent(bench):
    """A queue that tries again at once finds the way to the next connection."""
    session = await bench.open()
    bench.send(1, then=lambda: bench.send(2))
    session.lost(CUT)
    await asyncio.sleep(1.0)
    assert bench.broker.sessions[-1].ids == ["2"]


@virtual
async def test_an_attempt_that_begins_in_the_answer_of_a_failed_dial_is_made(bench):
    """By the next dial, after the pause."""
    bench.broker.script.append(NOBODY)
    bench.send(1, then=lambda: bench.send(2))
    await asyncio.sleep(1.0)
    assert bench.broker.sessions[-1].ids == ["2"]


@virtual
async def test_a_token_that_has_expired_is_not_used(bench):
    """The attempt is not made, which says nothing about the broker."""
    wall_ms = bench.loop.clock.wall_ms()
    credential = Credential("ACCESSTOKEN", access_token="t", access_token_expires_ms=wall_ms + 500)
    destination = a_place(credential=credential)
    bench.send(1, destination=destination)
    await asyncio.sleep(1.0)
    bench.send(2, destination=destination)
    await asyncio.sleep(0.1)
    assert bench.answers[2].reason == "credential-expired"
    assert bench.broker.sessions[0].ids == ["1"]


@virtual
async def test_a_destination_without_a_key_is_answered(bench):
    """What ``key_of`` raises is the answer: nothing can be sent there."""

    def key_of(_):
        raise TransportError("blocked-address", "no host", retryable=False)

    bench.transport._key_of = key_of
    bench.send(1)
    await asyncio.sleep(0)
    assert bench.answers[1].reason == "blocked-address"


@virtual
async def test_a_connection_that_nobody_uses_is_closed(bench):
    """After a minute and a half at the latest; the next attempt dials anew."""
    session = await bench.open()
    await asyncio.sleep(_broker.IDLE_S * 1.6)
    assert session.closed == 1
    bench.send(1)
    await asyncio.sleep(1.0)
    assert bench.broker.sessions[-1].ids == ["1"]


@virtual
async def test_a_connection_that_is_used_stays(bench):
    """As do those that wait for an answer."""
    session = await bench.open()
    session.on_publish = lambda flight: flight.answer(YES)
    for number in range(1, 20):
        bench.send(number)
        await asyncio.sleep(_broker.IDLE_S / 4)
    assert session.closed == 0
    session.on_publish = lambda _: None
    bench.send(20, timeout_s=1_000.0)
    await asyncio.sleep(_broker.IDLE_S * 5)
    assert session.closed == 0


@virtual
async def test_a_connection_is_not_kept_for_what_the_broker_has_forgotten(bench):
    """Nobody waits for it any more: renewed tokens would leave such connections behind for good."""
    session = await bench.open()
    session.on_publish = lambda flight: flight.answer(YES)
    bench.send(1)
    session.on_publish = lambda _: None
    bench.send(2, timeout_s=_link.SILENT_S_MIN / 2)
    await asyncio.sleep(1.0)
    assert bench.answers[2].reason == "timeout"
    assert session.closed == 0
    await asyncio.sleep(_broker.IDLE_S * 1.6)
    assert session.closed == 1


@virtual
async def test_too_many_connections_close_those_used_least_lately(bench, monkeypatch):
    """An eighth at once, never one that somebody waits for."""
    monkeypatch.setattr(_broker, "SESSIONS_MAX", 16)
    for number in range(16):
        bench.send(number, destination=a_place(f"host{number}"))
        await asyncio.sleep(0.1)
    for session in bench.broker.sessions[1:]:
        session.published[0].answer(YES)
    bench.send(100, destination=a_place("another"))
    await asyncio.sleep(0.1)
    assert [n for n, s in enumerate(bench.broker.sessions) if s.closed] == [1, 2]
    bench.send(101, destination=a_place("host1"))
    await asyncio.sleep(0.1)
    assert bench.broker.sessions[-1].ids == ["101"]


@virtual
async def test_lost_connections_leave_nothing_behind(bench):
    """Neither deadlines nor attempts are kept once they are answered."""
    session = await bench.open()
    session.on_publish = lambda flight: flight.answer(YES)
    for number in range(1, 100):
        bench.send(number)
    await asyncio.sleep(0)
    assert len(bench.answers) == 100
    assert not any(bench.transport._wheel._slots.values())


STATES = ("dialling", "pausing", "open", "in-flight", "full")


async def _bring_to(bench, state):
    """A transport in that state, with attempts that have no answer yet."""
    if state == "pausing":
        bench.broker.script.extend([NOBODY] * 5)
        for number in range(100, 105):
            bench.send(number)
            await asyncio.sleep(1.5)
        bench.send(1)
    elif state == "dialling":
        bench.broker.dial_s = 5.0
        bench.send(1)
        await asyncio.sleep(0.1)
    else:
        await bench.open()
        for number in range(1, {"open": 1, "in-flight": 5, "full": 30}[state]):
            bench.send(number)


@pytest.mark.parametrize("state", STATES)
@virtual
async def test_close_answers_all_from_every_state(bench, state):
    """``closed``, once each; a second close is harmless, and later attempts end the same."""
    await _bring_to(bench, state)
    began_s = bench.loop.time()
    await bench.transport.close()
    await bench.transport.close()
    assert bench.loop.time() == began_s
    bench.send(1_000)
    await asyncio.sleep(0)
    open_ones = [n for n in bench.answers if 0 < n < 100 or n == 1_000]
    assert len(open_ones) == {"open": 1, "in-flight": 5, "full": 30}.get(state, 2)
    assert {bench.answers[n].reason for n in open_ones} == {"closed"}


@pytest.mark.parametrize("state", STATES)
@virtual
async def test_close_can_be_cancelled_in_every_state(bench, state):
    """The second one ends what the first one left; sessions are closed once."""
    await _bring_to(bench, state)
    for session in bench.broker.sessions:
        session.goodbye = asyncio.Event()
    closing = asyncio.ensure_future(bench.transport.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await bench.transport.close()
    assert all(a.reason == "closed" for n, a in bench.answers.items() if 0 < n < 100)
    assert all(session.closed == 1 for session in bench.broker.sessions)


@virtual
async def test_a_goodbye_that_is_not_answered_is_cut_short(bench):
    """A broker that is gone does not hold up the end."""
    session = await bench.open()
    session.goodbye = asyncio.Event()
    began_s = bench.loop.time()
    await bench.transport.close()
    assert bench.loop.time() - began_s == pytest.approx(_broker.GOODBYE_S_MAX)


@virtual
async def test_a_session_that_is_opened_while_closing_is_closed(bench):
    """An opener that does not hear its cancellation leaves no connection behind."""
    opened = asyncio.Event()

    async def deaf(_destination, lost):
        try:
            await asyncio.sleep(5.0)
        except asyncio.CancelledError:
            opened.set()
        session = ScriptedSession(10, lost)
        bench.broker.sessions.append(session)
        return session

    await bench.open()
    bench.transport._open = deaf
    bench.send(1, destination=a_place("another"))
    await asyncio.sleep(0.1)
    await bench.transport.close()
    assert opened.is_set()
    assert bench.broker.sessions[-1].closed == 1
