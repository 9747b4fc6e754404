"""Messages to the receiver: what its answers mean, and when it is asked again."""

import pytest

from distributary.core.deliver import Transport
from distributary.core.errors import TransportError
from distributary.core.policy import Reply
from distributary.core.source import Message, Settlement
from distributary.sources._handover import IN_FLIGHT_MAX, PAUSE_S_MAX, Handover
from distributary.testing.scripted_transport import Step

TAKEN, REFUSED = Settlement.TAKEN, Settlement.REFUSED
URI = "http://127.0.0.1:1/events"
BODY_BYTES_MAX = 1_000


class Watcher:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def taken(self):
        self.told.append("taken")

    def refused(self, message: Message, why: str):
        self.told.append((message.where, why))

    def retried(self, why: str):
        self.told.append(why)


@pytest.fixture
def watcher():
    """Is told what happens."""
    return Watcher()


@pytest.fixture
def handover(receiver, timers, watcher):
    """To the scripted receiver."""
    transport: Transport = receiver.transport
    return Handover(transport, URI, BODY_BYTES_MAX, timers, watcher)


def test_a_message_is_taken_only_when_the_receiver_has_said_so(handover, receiver, timers, mail):
    """Not when it was sent, and not before the answer."""
    receiver.script = [Step(receiver.otherwise.answer, after_s=2.0)]
    handover.take(mail.event("a"))
    timers.advance(1.9)
    assert receiver.got == ["a"]
    assert mail.settled == []
    timers.advance(0.2)
    assert mail.settled == [("a", TAKEN)]


def test_what_is_no_event_is_refused_and_named_without_its_content(
    handover, receiver, mail, watcher, timers
):
    """The receiver is not asked; place and kind of the fault are told, its message is not."""
    handover.take(mail.junk("a"))
    timers.advance(1.0)
    assert mail.settled == [("a", REFUSED)]
    assert receiver.got == []
    assert watcher.told == [("topic@a", "no event: ce_id missing")]


def test_data_larger_than_the_receiver_takes_are_not_sent(handover, receiver, mail, watcher):
    """It would end the connection in the middle, and the same again would never end."""
    handover.take(mail.event("a", data=b"x" * BODY_BYTES_MAX))
    handover.take(mail.event("b", data=b"x" * (BODY_BYTES_MAX + 1)))
    assert receiver.got == ["a"]
    assert mail.settled == [("b", REFUSED)]
    assert watcher.told == [("topic@b", "larger than 1,000 bytes (event_bytes_max)")]


BYTES = {"datacontenttype": "application/octet-stream", "data": b"\xff" * 900}
"""In JSON these are Base64: 1,200 characters."""


def test_what_is_too_large_in_json_alone_goes_in_binary_mode(handover, receiver, mail):
    """The number becomes a string, which most filters take for the same; nothing is lost."""
    handover.take(mail.event("a", number=7, **BYTES))
    assert _formats(receiver) == ["binary"]


def test_what_must_be_json_and_is_too_large_for_it_is_refused(
    handover, receiver, timers, mail, watcher
):
    """Its data would be read as an event of their own, or its attributes fit into no header."""
    nested = BYTES | {"datacontenttype": "application/cloudevents+avro"}
    handover.take(mail.event("a", **nested))
    receiver.says(431)
    handover.take(mail.event("b", **BYTES))
    timers.advance(0.0)
    assert mail.settled == [("a", REFUSED), ("b", REFUSED)]
    assert _formats(receiver) == ["binary"]
    assert {why for _, why in watcher.told} == {"larger than 1,000 bytes (event_bytes_max)"}


@pytest.mark.parametrize("status", [400, 413, 415])
def test_what_the_receiver_refuses_for_good_is_refused(handover, receiver, timers, mail, status):
    """It would be refused again; what comes after it goes on."""
    receiver.says(status)
    handover.take(mail.event("a"))
    handover.take(mail.event("b"))
    timers.advance(1.0)
    assert sorted(mail.settled) == [("a", REFUSED), ("b", TAKEN)]
    watcher = handover._watcher
    assert ("topic@a", f"the receiver answered {status}") in watcher.told


def test_what_filters_of_policies_refuse_is_refused(handover, receiver, timers, mail, watcher):
    """The same event would be refused each time, and come before all others."""
    faults = b'{"code":"forbidden","faults":[{"path":"$","code":"policy","message":"no"}]}'
    receiver.script = [Step(Reply(403, None, None, faults))]
    handover.take(mail.event("a"))
    handover.take(mail.event("b"))
    timers.advance(1.0)
    assert sorted(mail.settled) == [("a", REFUSED), ("b", TAKEN)]
    assert ("topic@a", "the receiver answered 403") in watcher.told


def test_what_the_source_may_not_send_now_waits(handover, receiver, timers, mail):
    """It may be allowed again; nothing of the event says that it is refused."""
    faults = b'{"code":"forbidden","faults":[{"path":"$","code":"forbidden","message":"no"}]}'
    receiver.script = [Step(Reply(403, None, None, faults))]
    handover.take(mail.event("a"))
    timers.advance(PAUSE_S_MAX)
    assert mail.settled == [("a", TAKEN)]


def test_what_cannot_be_sent_at_all_is_refused(handover, receiver, timers, mail):
    """An event that cannot be encoded must not be tried for ever."""
    receiver.script = [Step(TransportError("protocol", "Cannot encode", retryable=False))]
    handover.take(mail.event("a"))
    timers.advance(1.0)
    assert mail.settled == [("a", REFUSED)]


@pytest.mark.parametrize(
    "answer",
    [
        *(404, 408, 429, 500, 503, 301),
        TransportError("refused", "x"),
        TransportError("reset", "x"),
        TransportError("blocked-address", "x", retryable=False),
    ],
    ids=str,
)
def test_any_other_answer_sends_the_same_event_again(handover, receiver, timers, mail, answer):
    """A Broker that is not there, a full disk, a restart: nothing is settled meanwhile."""
    receiver.says(answer, answer)
    handover.take(mail.event("a"))
    timers.advance(0.05)
    assert (receiver.got, mail.settled) == (["a"], [])
    timers.advance(0.1)
    assert (receiver.got, mail.settled) == (["a", "a"], [])
    timers.advance(1.0)
    assert (receiver.got, mail.settled) == (["a", "a", "a"], [("a", TAKEN)])
    assert handover._watcher.told[-1] == "taken"


def test_pauses_grow_to_their_ceiling_and_begin_anew(handover, receiver, timers, mail):
    """An hour of refusals costs about 720 requests, and the first one after it a tenth second."""
    receiver.always(503)
    handover.take(mail.event("a"))
    timers.advance(3600.0)
    assert 3600 / PAUSE_S_MAX <= len(receiver.got) <= 3600 / PAUSE_S_MAX + 8
    receiver.always(202)
    timers.advance(PAUSE_S_MAX)
    assert mail.settled == [("a", TAKEN)]
    receiver.says(503)
    handover.take(mail.event("b"))
    timers.advance(0.15)
    assert mail.settled[1:] == [("b", TAKEN)]


def test_nothing_is_sent_during_a_pause_and_then_the_first_goes_first(
    handover, receiver, timers, mail
):
    """One that came back keeps its place before those that came after it."""
    receiver.says(503)
    handover.take(mail.event("a"))
    timers.advance(0.05)
    for name in "bcd":
        handover.take(mail.event(name))
    timers.advance(0.04)
    assert receiver.got == ["a"]
    timers.advance(1.0)
    assert receiver.got == ["a", "a", "b", "c", "d"]


def test_requests_under_way_are_bounded(handover, receiver, timers, mail):
    """The rest waits here; nothing is lost of it."""
    receiver.otherwise = Step(receiver.otherwise.answer, after_s=1.0)
    names = [str(number) for number in range(3 * IN_FLIGHT_MAX)]
    for name in names:
        handover.take(mail.event(name))
    timers.advance(0.5)
    assert handover.in_flight == len(receiver.got) == IN_FLIGHT_MAX
    assert handover.waiting == 2 * IN_FLIGHT_MAX
    timers.advance(5.0)
    assert [name for name, _ in mail.settled] == names


def test_messages_of_a_run_that_is_over_are_forgotten(handover, receiver, timers, mail):
    """The broker gives them again: they are not sent, not settled, not tried again."""
    receiver.says(202, 503)
    handover.take(mail.event("a"))
    handover.take(mail.event("b"))
    handover.forget()
    timers.advance(10.0)
    assert mail.settled == []
    handover.take(mail.event("a"))
    timers.advance(1.0)
    assert mail.settled == [("a", TAKEN)]
    assert receiver.got == ["a", "b", "a"]


def test_a_closed_rollover_settles_what_is_under_way_and_sends_nothing(
    handover, receiver, timers, mail
):
    """What waits stays unsettled; the end of the last request is told."""
    receiver.otherwise = Step(receiver.otherwise.answer, after_s=1.0)
    ended = []
    for number in range(IN_FLIGHT_MAX + 1):
        handover.take(mail.event(str(number)))
    handover.idle = lambda: ended.append(handover.in_flight)
    handover.close()
    timers.advance(10.0)
    assert len(mail.settled) == IN_FLIGHT_MAX
    assert handover.waiting == 1
    assert ended == [0]


def test_a_closed_rollover_does_not_try_again(handover, receiver, timers, mail):
    """Neither what comes back later, nor what waits for the end of a pause."""
    receiver.always(503)
    handover.take(mail.event("a"))
    timers.advance(0.05)
    handover.close()
    timers.advance(10.0)
    assert receiver.got == ["a"]
    assert mail.settled == []


# -- the form on the way ------------------------------------------------------------------------


def _formats(receiver):
    return [destination.format for _, destination in receiver.transport.arrived]


def test_events_go_in_binary_mode_to_our_own_receiver(handover, receiver, mail):
    """Their data are not touched; the address rule is not asked about our own listener."""
    handover.take(mail.event("a", data=b'{ "x":1.0 }'))
    ((event, destination),) = receiver.transport.arrived
    assert event.data == b'{ "x":1.0 }'
    assert (destination.uri, destination.own, destination.format) == (URI, True, "binary")


@pytest.mark.parametrize(
    "more",
    [
        {"sequence": 7},
        {"flag": True},
        {"datacontenttype": "application/cloudevents+json"},
        {"datacontenttype": "Application/CloudEvents-batch+json; charset=utf-8"},
    ],
    ids=str,
)
def test_what_headers_would_say_wrongly_goes_in_structured_mode(handover, receiver, mail, more):
    """Types that headers do not have; data that are themselves an event."""
    handover.take(mail.event("a", **more))
    assert _formats(receiver) == ["structured"]


def test_attributes_too_long_for_headers_go_in_structured_mode(handover, receiver, timers, mail):
    """431 in binary mode is no refusal of the event; in structured mode it is."""
    receiver.says(431)
    handover.take(mail.event("a", long="x" * 600))
    timers.advance(0.0)
    assert mail.settled == [("a", TAKEN)]
    assert _formats(receiver) == ["binary", "structured"]
    receiver.says(431, 431)
    handover.take(mail.event("b"))
    timers.advance(0.0)
    assert mail.settled[1:] == [("b", REFUSED)]
