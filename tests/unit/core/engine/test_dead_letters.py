"""What a dead letter says of the failure (decision 16, extensions of a dead letter)."""

import base64

import pytest

from distributary.core.engine.dead_letter import dead_letter_event, failure_of
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.outcome import Failure
from distributary.core.policy import Reply

SINK = "http://sink.example/"
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t", "x": 5}, b"data")


def test_a_failure_tells_the_answer_that_came():
    """Destination, code and body."""
    found = failure_of(Reply(503, None, None, b"busy"), "status-503", SINK)
    assert found == Failure("status-503", SINK, 503, base64.b64encode(b"busy").decode())


@pytest.mark.parametrize("size", [1023, 1024, 1025, 9999])
def test_the_body_is_cut_before_it_is_encoded(size):
    """At most 1,024 bytes of it."""
    found = failure_of(Reply(500, None, None, b"x" * size), "status-500", SINK)
    assert len(base64.b64decode(found.data)) == min(size, 1024)


@pytest.mark.parametrize("reason", ["attempts-used-up", "attempts-used-up: refused"])
def test_no_answer_has_no_code(reason):
    """A status is never invented (decision 13), and the reason is told once."""
    found = failure_of(TransportError("refused", "Nobody listens"), reason, SINK)
    assert (found.code, found.data) == (None, None)
    assert found.reason == "attempts-used-up: refused: Nobody listens"


def test_a_dead_letter_is_the_event_with_its_error():
    """Nothing else of it changes, and the event itself does not change at all."""
    dead_letter = dead_letter_event(EVENT, Failure("r", SINK, 503, "YQ=="))
    extra = {"knativeerrordest": SINK, "knativeerrorcode": 503, "knativeerrordata": "YQ=="}
    assert dead_letter == Event(EVENT.attributes | extra, b"data")
    assert "knativeerrordest" not in EVENT.attributes


def test_a_dead_letter_forgets_an_earlier_failure():
    """Code and data of another destination would be read as this one's."""
    earlier = dead_letter_event(EVENT, Failure("r", "http://other.example/", 503, "YQ=="))
    dead_letter = dead_letter_event(earlier, Failure("r", SINK))
    assert dead_letter.attributes == EVENT.attributes | {"knativeerrordest": SINK}


def test_a_dead_letter_names_its_sink_without_the_query():
    """Queries hold tokens, and the dead letter goes to another party; rows of before had them."""
    whole = SINK + "?access_token=canary#canary"
    assert failure_of(Reply(403, None, None, b""), "status-403", whole).dest == SINK
    dead_letter = dead_letter_event(EVENT, Failure("r", whole, 403))
    assert dead_letter.attributes["knativeerrordest"] == SINK
