"""Attempts at brokers in virtual time: windows, order, deadlines, and what publishing brings."""

import asyncio

import pytest

from distributary.core.errors import EventError, Fault, TransportError
from distributary.net.link import _link
from kit.scripted_session import YES, a_place, virtual


@virtual
async def test_attempts_wait_for_the_session_and_go_out_in_their_order(bench):
    """One dial for all that wait."""
    for number in range(5):
        bench.send(number)
    await asyncio.sleep(1.0)
    (session,) = bench.broker.sessions
    assert session.ids == ["0", "1", "2", "3", "4"]
    assert len(bench.broker.dials) == 1
    assert not bench.answers


@virtual
async def test_the_window_bounds_what_is_in_flight(bench):
    """Beyond it attempts wait, and each answer lets the next one go, in order."""
    for number in range(25):
        bench.send(number)
    await asyncio.sleep(1.0)
    (session,) = bench.broker.sessions
    assert session.ids == [str(n) for n in range(10)]
    session.published[3].answer(YES)
    assert session.ids[10:] == ["10"]
    session.published[0].answer(YES)
    assert session.ids[10:] == ["10", "11"]
    assert set(bench.answers) == {3, 0}


@virtual
async def test_a_message_carries_the_place_of_its_attempt_in_a_trace(bench):
    """As an attribute, since these protocols have no other place; other carried lines are left."""
    session = await bench.open()
    value = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bench.send(1)
    bench.send(2, carried=b"knative-a: 1\r\ntraceparent: %b\r\n" % value.encode())
    plain, traced = (flight.event.attributes for flight in session.published)
    assert traced == {**plain, "id": "2", "traceparent": value}


@virtual
async def test_a_new_attempt_does_not_overtake_those_that_wait(bench):
    """Room in the window is given in the order of ``send``."""
    session = await bench.open()
    for number in range(1, 13):
        bench.send(number)
    session.published[0].answer(YES)
    bench.send(13)
    assert session.ids == [str(n) for n in range(1, 12)]


@virtual
async def test_places_at_one_broker_share_a_connection(bench):
    """The key decides; another host has another connection."""
    bench.send(1, destination=a_place("one", "a"))
    bench.send(2, destination=a_place("one", "b"))
    bench.send(3, destination=a_place("two", "a"))
    await asyncio.sleep(1.0)
    assert [session.ids for session in bench.broker.sessions] == [["1", "2"], ["3"]]
    assert [session.closed for session in bench.broker.sessions] == [0, 0]


@virtual
async def test_two_tenants_at_one_broker_share_nothing(bench):
    """One fills its window, and has its connection ended: the other notices neither."""
    mine, theirs = (a_place(tenant=tenant) for tenant in ("mine", "theirs"))
    for number in range(20):
        bench.send(number, destination=theirs)
    bench.send(20, destination=mine)
    await asyncio.sleep(1.0)
    full, free = bench.broker.sessions
    assert free.ids == ["20"]
    full.lost(TransportError("reset", "one message was too much"))
    free.published[0].answer(YES)
    assert bench.answers[20] is YES
    assert free.closed == 0


@virtual
async def test_an_answer_inside_publish_comes_after_send_has_returned(bench):
    """Brokers that need no acknowledgement are answered at once, but never from inside."""
    session = await bench.open()
    session.on_publish = lambda flight: flight.answer(YES)
    bench.send(1)
    assert 1 not in bench.answers
    await asyncio.sleep(0)
    assert bench.answers[1] is YES


@virtual
async def test_a_session_that_answers_inside_publish_costs_no_stack(bench):
    """Thousands that waited for it go out one after the other, in order."""
    bench.broker.on_open = lambda session: setattr(
        session, "on_publish", lambda flight: flight.answer(YES)
    )
    for number in range(5_000):
        bench.send(number)
    await asyncio.sleep(1.0)
    (session,) = bench.broker.sessions
    assert session.ids == [str(n) for n in range(5_000)]
    assert all(answer is YES for answer in bench.answers.values())


@virtual
async def test_an_answer_may_start_the_next_attempt(bench):
    """From inside the answer, as a queue does, and for as long as it likes."""
    session = await bench.open()
    session.on_publish = lambda flight: flight.answer(YES)

    def more():
        number = len(bench.answers)
        if number < 3_000:
            bench.send(number, then=more)

    bench.send(1, then=more)
    await asyncio.sleep(1.0)
    assert len(bench.answers) == 3_000


@pytest.mark.parametrize(
    ("raised", "retryable"),
    [
        (TransportError("protocol", "too large", retryable=False), False),
        (EventError([Fault("ce-x", "type", "no text")]), False),
        (KeyError("a bug"), True),
    ],
    ids=["transport-error", "event-error", "bug"],
)
@virtual
async def test_what_publish_raises_is_the_answer_of_that_attempt(bench, raised, retryable):
    """Its place in the window is free again, and the others go on."""
    session = await bench.open()

    def refuse(flight):
        if flight.event.attributes["id"] == "1":
            raise raised

    session.on_publish = refuse
    for number in range(1, 12):
        bench.send(number)
    await asyncio.sleep(0)
    assert set(bench.answers) == {0, 1}
    assert isinstance(bench.answers[1], TransportError)
    assert bench.answers[1].retryable is retryable
    assert session.ids[-1] == "11"
    assert len(bench.loop.complaints) == isinstance(raised, KeyError)
    bench.loop.complaints.clear()


@virtual
async def test_a_deadline_passes_while_an_attempt_waits(bench):
    """It is answered in time, and never sent."""
    bench.broker.dial_s = 5.0
    bench.send(1, timeout_s=2.0)
    bench.send(2, timeout_s=20.0)
    await asyncio.sleep(6.0)
    assert bench.answers[1].reason == "timeout"
    assert 2.0 <= bench.when[1] <= 2.1
    assert [session.ids for session in bench.broker.sessions] == [["2"]]


@virtual
async def test_a_deadline_passes_while_the_window_is_full(bench):
    """It is answered in time, never sent, and takes no place when there is room."""
    session = await bench.open()
    for number in range(1, 11):
        bench.send(number)
    bench.send(11, timeout_s=0.5)
    bench.send(12)
    await asyncio.sleep(1.0)
    assert bench.answers[11].reason == "timeout"
    session.published[0].answer(YES)
    assert session.ids[-1] == "12"


@virtual
async def test_a_late_answer_frees_the_place_and_nothing_else(bench):
    """The attempt had its answer: ``timeout``."""
    session = await bench.open()
    for number in range(1, 11):
        bench.send(number, timeout_s=0.5 if number == 1 else 30.0)
    bench.send(11)
    await asyncio.sleep(0.7)
    assert bench.answers[1].reason == "timeout"
    assert session.ids[-1] == "10"
    session.published[0].answer(YES)
    assert session.ids[-1] == "11"
    assert bench.answers[1].reason == "timeout"


@virtual
async def test_a_broker_that_fell_silent_is_given_up(bench):
    """Nothing was answered since an attempt was sent that ran out of time: dial anew."""
    session = await bench.open()
    bench.send(1, timeout_s=3.0)
    bench.send(2, timeout_s=30.0)
    await asyncio.sleep(5.0)
    assert bench.answers[1].reason == "timeout"
    assert bench.answers[2].reason == "reset"
    assert session.closed == 1
    bench.send(3)
    await asyncio.sleep(1.0)
    assert bench.broker.sessions[-1].ids == ["3"]


@virtual
async def test_short_attempts_alone_do_not_make_a_broker_silent(bench):
    """A subscriber who wants them short shares the connection with others."""
    session = await bench.open()
    bench.send(1, timeout_s=_link.SILENT_S_MIN / 2)
    bench.send(2)
    await asyncio.sleep(2.0)
    assert bench.answers[1].reason == "timeout"
    assert 2 not in bench.answers
    assert session.closed == 0


@virtual
async def test_a_broker_that_answers_others_is_not_silent(bench):
    """One attempt without an answer is that attempt's own matter."""
    session = await bench.open()
    bench.send(1, timeout_s=3.0)
    bench.send(2)
    await asyncio.sleep(1.0)
    session.published[1].answer(YES)
    await asyncio.sleep(4.0)
    assert bench.answers[1].reason == "timeout"
    assert session.closed == 0


@virtual
async def test_a_window_full_of_forgotten_messages_is_replaced(bench):
    """Half of it: what is left would soon be too little."""
    session = await bench.open()
    for number in range(1, 6):
        bench.send(number, timeout_s=0.5)
        bench.send(100 + number)
    await asyncio.sleep(0.4)
    session.published[1].answer(YES)  # somebody is there
    await asyncio.sleep(0.4)
    assert session.closed == 1
    assert [bench.answers[n].reason for n in range(1, 6)] == ["timeout"] * 5
    assert bench.answers[102].reason == "reset"


@virtual
async def test_what_a_session_could_not_send_is_not_forgotten_by_the_broker(bench):
    """However much of it runs out of time: the connection stays."""
    session = await bench.open()
    session.on_publish = lambda flight: setattr(flight, "sent_s", 0.0)
    for number in range(1, 11):
        bench.send(number, timeout_s=2.0)
    await asyncio.sleep(3.0)
    assert {answer.reason for answer in list(bench.answers.values())[1:]} == {"timeout"}
    assert session.closed == 0
