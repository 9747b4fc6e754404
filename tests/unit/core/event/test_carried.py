"""Which header fields go along with an event, and how many."""

import pytest

from distributary.core.event import carried

CANARY = b"must-never-leave"
OTHERS = [
    (name, CANARY)
    for name in (
        b"authorization", b"cookie", b"set-cookie", b"proxy-authorization", b"proxy-connection",
        b"x-forwarded-for", b"x-api-key", b"x-b3", b"x-request-ids", b"knative", b"kn-namespace",
        b"traceparents", b"host", b"connection", b"te", b"ce-traceparent", b"content-type",
    )
]  # fmt: skip
ALONG = [
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    (b"knative-hello", b"world"),
    (b"x-b3-traceid", b"a"),
    (b"tracestate", b"a=1"),
    (b"tracestate", b"b=2"),
    (b"x-request-id", b"r1"),
    (b"knative-", b""),
]


def test_knative_and_tracing_fields_go_along_and_no_other():
    """In their order, each as often as it was sent."""
    mixed = [field for pair in zip(OTHERS, ALONG * 3, strict=False) for field in pair]
    assert carried.pick(mixed) == (ALONG * 3)[: len(OTHERS)]
    assert carried.pick(OTHERS) == []


@pytest.mark.parametrize(("name", "_value"), ALONG)
@pytest.mark.parametrize("spelling", [bytes.lower, bytes.upper, bytes.title])
def test_no_head_that_holds_one_is_passed_over(name, _value, spelling):
    """However the name is spelled; a head without them is not looked at further."""
    head = b"POST /x HTTP/1.1\r\nHost: a\r\n%b: 1\r\nce-id: tracestate\r\n\r\n"
    assert carried.may_hold(head % spelling(name))
    assert not carried.may_hold(head % b"accept")


def test_they_are_kept_as_the_lines_that_are_sent():
    """Each with its end."""
    assert carried.lines([(b"x-request-id", b"r1"), (b"tracestate", b"a=1")]) == (
        b"x-request-id: r1\r\ntracestate: a=1\r\n"
    )
    assert carried.lines([]) == b""


@pytest.mark.parametrize("value", [b"a\r\nauthorization: x", b"a\nb", b"a\rb", b"\x00", b"\x7f"])
def test_no_value_can_add_a_line(value):
    """A field that no request could hold is left out."""
    assert carried.lines([(b"knative-a", value), (b"knative-b", b"1")]) == b"knative-b: 1\r\n"
    assert carried.lines([(b"knative-a:b", b"1"), (b"knative-a b", b"1")]) == b""


def test_what_goes_along_is_bounded():
    """In number and in bytes."""
    most = [(b"knative-%02d" % number, b"") for number in range(carried.CARRIED_COUNT_MAX)]
    assert carried.lines(most) is not None
    assert carried.lines([*most, (b"tracestate", b"")]) is None
    room = carried.CARRIED_BYTES_MAX - len(b"tracestate: \r\n")
    assert carried.lines([(b"tracestate", b"x" * room)]) is not None
    assert carried.lines([(b"tracestate", b"x" * (room + 1))]) is None


def test_the_trace_is_told_from_the_rest():
    """It goes on with a reply, which has fields of its own."""
    lines = carried.lines(ALONG)
    assert carried.trace(lines) == carried.lines([ALONG[0], *ALONG[2:5]])
