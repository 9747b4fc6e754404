"""Contexts of traces: what a ``traceparent`` says, and how it stands in carried lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.event import Event, trace_context
from distributary.core.event.trace_context import TraceContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = TraceContext(int(TRACE, 16), int(SPAN, 16), sampled=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(f"00-{TRACE}-{SPAN}-01", CONTEXT, id="sampled"),
        pytest.param(f"00-{TRACE}-{SPAN}-00", CONTEXT._replace(sampled=False), id="not sampled"),
        pytest.param(f"00-{TRACE}-{SPAN}-03", CONTEXT, id="other flags are ignored"),
        pytest.param(f"01-{TRACE}-{SPAN}-01-more", CONTEXT, id="newer version"),
        pytest.param(f"00-{TRACE}-{SPAN}-01-more", None, id="more than version 0 has"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", None, id="no version"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", None, id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", None, id="no span"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", None, id="upper case"),
        pytest.param(f"00-{TRACE}-{SPAN}", None, id="no flags"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_traceparent_is_read_as_w3c_says(value: str, expected: TraceContext | None) -> None:
    """A valid value is a context; an invalid one is ignored."""
    assert trace_context.of_text(value) == expected
    assert trace_context.of_lines(b"x-request-id: 1\r\ntraceparent: %b\r\n" % value.encode()) == (
        expected
    )


@given(
    st.builds(
        TraceContext,
        st.integers(1, 2**128 - 1),
        st.integers(1, 2**64 - 1),
        st.booleans(),
    )
)
def test_a_context_survives_its_line(context: TraceContext) -> None:
    """What is written is read again."""
    assert trace_context.of_lines(context.line()) == context


@given(st.binary(max_size=80))
def test_any_bytes_are_a_context_or_none(value: bytes) -> None:
    """Publishers may send anything."""
    found = trace_context.parse(value)
    assert found is None or (found.trace_id and found.span_id)


def test_a_message_gets_the_context_as_an_attribute() -> None:
    """Unless the event has one, which says where it was made."""
    event = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t"}, b"d")
    found = trace_context.with_context(event, b"knative-a: 1\r\n" + CONTEXT.line())
    assert found.attributes == {**event.attributes, "traceparent": f"00-{TRACE}-{SPAN}-01"}
    assert found.data == b"d"
    assert trace_context.with_context(found, CONTEXT._replace(span_id=1).line()) is found
    assert trace_context.with_context(event, b"knative-a: 1\r\n") is event


def test_two_traceparents_are_none() -> None:
    """Nobody knows which is meant."""
    assert trace_context.of_lines(CONTEXT.line() * 2) is None


def test_a_replaced_context_keeps_other_lines() -> None:
    """The state of the trace goes on with it; that of another trace does not."""
    held = b"knative-a: 1\r\n" + CONTEXT.line() + b"tracestate: v=1\r\n"
    child = CONTEXT._replace(span_id=7)
    assert trace_context.replaced(held, child) == (
        child.line() + b"knative-a: 1\r\ntracestate: v=1\r\n"
    )
    other = TraceContext(1, 2, sampled=True)
    assert trace_context.replaced(held, other) == other.line() + b"knative-a: 1\r\n"
    assert trace_context.replaced(b"", other) == other.line()
