"""The receiver's look-up of header lines, against the plain decoder and encoder."""

import asyncio
import re
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.errors import EventError
from distributary.core.event import ATTRIBUTE_CHARS_MAX, BinaryEvent, Event, record
from distributary.net import AddressRule, CachingResolver, Connector
from distributary.protocols.http import binding as http
from distributary.protocols.http.receive import receive
from distributary.protocols.http.sink import HttpTransport

CANARY = b"must-never-leave"

REQUIRED = {
    b"ce-specversion": b"1.0",
    b"ce-id": b"1",
    b"ce-source": b"/s",
    b"ce-type": b"t",
}
NAMES = [
    *REQUIRED,
    b"content-type",
    b"ce-time",
    b"ce-subject",
    b"ce-dataschema",
    b"ce-datacontentencoding",
    b"ce-datacontenttype",
    b"ce-data",
    b"ce-knativebrokerttl",
    b"ce-partitionkey",
    b"ce-x",
    b"ce-x" + b"y" * 300,
    b"ce-",
    b"ce-a-b",
    b"ce-\xe9",
    b"ce-a\nce-b",
    b"ce-a: b\r\nce-c",
]
VALUES = [
    b"1.0",
    b"0.3",
    b"1",
    b"",
    b" ",
    b"a b",
    b" padded\t",
    b'"1.0"',
    b'"quoted \\" text"',
    b'"open',
    b'a"b',
    b"/s",
    b"/s/%41",
    b"https://example.com/x?y=z",
    b"https://[::1]/x",
    b"a:b:c d",
    b"%",
    b"%zz",
    b"%41",
    b"%c3%bc",
    b"%C3%BC",
    b"gr\xc3\xbc\xc3\x9fe",
    b"\xfc",
    b"%FF",
    b"%0D%0Ax: y",
    b"a\r\nx: y",
    b"a\rb",
    b"\x00",
    b"%7F",
    b"%EF%BF%BF",
    b"x" * 300,
    b"x" * 9_000,
    b"%C3%BC" * 3_000,
    b"2026-01-01T00:00:00Z",
    b"2026-02-30T00:00:00Z",
    b"2026-01-01T00%3A00:00Z",
    b" 2026-01-01t00:00:00.5+01:00",
    b"text/plain",
    b"text/plain ; charset=utf-8",
    b'text/plain; a="b c%41"',
    b'text/plain; a="\xc3\xbc"',
    b"text/plain;\tcharset=utf-8",
    b"TEXT/Plain",
    b"nonsense",
    b"application/cloudevents",
    b"application/cloudevents+json",
    b"application/cloudevents-batch+json; charset=utf-8",
    b"base64",
    b"true",
    b"-5",
]
OTHERS = [b"authorization", b"cookie", b"x-api-key", b"xce-id", b"ce", b"ce_id", b"content-types"]
OTHERS += [b"host", b"proxy-authorization", b"content-encoding", b"CE-ID", b"Content-Type"]

FITTING = [
    *REQUIRED.items(),
    (b"content-type", b"text/plain"),
    (b"content-type", b"text/plain ; charset=utf-8"),
    (b"ce-datacontenttype", b"text/plain"),
    (b"ce-data", b"1"),
    (b"ce-time", b"2026-01-01T00:00:00Z"),
    (b"ce-time", b"2026-02-30T00:00:00Z"),
    (b"ce-subject", b"%c3%bc"),
    (b"ce-dataschema", b"https://example.com/x?y=z"),
    (b"ce-dataschema", b"/x"),
    (b"ce-datacontentencoding", b"base64"),
    (b"ce-specversion", b"0.3"),
    (b"ce-knativebrokerttl", b"7"),
]

drawn_fields = st.lists(
    st.sampled_from(FITTING)
    | st.tuples(
        st.sampled_from(NAMES) | st.binary(max_size=3).map(lambda rest: b"ce-" + rest),
        st.sampled_from(VALUES) | st.binary(max_size=8),
    ),
    max_size=4,
)


@st.composite
def messages(draw):
    """Header fields and body: mostly valid, with what senders and strangers make of them."""
    required = dict(REQUIRED)
    for name in draw(st.lists(st.sampled_from(sorted(REQUIRED)), max_size=1)):
        del required[name]
    fields = [*required.items(), *draw(drawn_fields)]
    fields += [(name, CANARY) for name in draw(st.lists(st.sampled_from(OTHERS), max_size=4))]
    if draw(st.booleans()):
        fields += [(b"ce-n%d" % number, b"v") for number in range(draw(st.integers(0, 70)))]
    body = draw(st.sampled_from([b"", b"{}", b"e30=", b"\r\n\r\nce-id: 2\r\n", b"\xff" * 20_000]))
    return draw(st.permutations(fields)), body


def outcome(decode, *arguments):
    """What a decoder returns, or its refusal, comparable."""
    try:
        return decode(*arguments)
    except EventError as error:
        return type(error), error.code, error.faults


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None)
@given(messages())
@example(([*REQUIRED.items(), (b"content-type", b"text/plain; a=\xff")], b""))
@example(([*REQUIRED.items(), *[(b"content-type", b"text/plain")] * 2], b""))
@example(([*REQUIRED.items(), (b"ce-datacontenttype", b"text/plain")], b""))
@example(([(b"content-type", b"text/plain"), *REQUIRED.items()], b"x"))
@example(([(name, b"  %s " % value) for name, value in REQUIRED.items()], b"x"))
def test_the_look_up_agrees_with_the_plain_decoder_and_encoder(message):
    """The same faults, or the same attributes and bytes to a sink; also the second time."""
    fields, body = message
    expected = outcome(http.decode, fields, body)
    for _ in range(2):
        found = outcome(receive, fields, body)
        if isinstance(expected, tuple):
            assert found == expected
            continue
        events, made = found
        assert events == expected
        stored = record.decode(record.encode(events) if made is None else made)
        assert stored == expected
        for event, before in zip(stored, expected, strict=True):
            assert list(event.attributes.items()) == list(before.attributes.items())
            assert http.encode_binary(event) == http.encode_binary(before)
        if made is None:
            continue
        assert CANARY not in made
        (event,) = record.decode(made)
        assert type(event) is BinaryEvent
        assert re.fullmatch(rb"(?:(?:ce-[a-z0-9]+|content-type): [ -~]*\r\n)+", event.lines)
        for name, value in expected[0].attributes.items():
            assert event.text(name) == value


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (b"ce-subject", b"abc", b"ce-subject: abc"),
        (b"ce-subject", b" abc\t", b"ce-subject: abc"),
        (b"ce-subject", b'"abc"', b"ce-subject: abc"),
        (b"ce-subject", b"a b", b"ce-subject: a%20b"),
        (b"ce-subject", b"%61", b"ce-subject: a"),
        (b"ce-subject", b"%c3%bc", b"ce-subject: %C3%BC"),
        (b"ce-subject", b"\xc3\xbc", b"ce-subject: %C3%BC"),
        (b"ce-id", b"100%", b"ce-id: 100%25"),
        (b"ce-id", b"x" * 300, b"ce-id: " + b"x" * 300),
        (b"ce-time", b"2026-01-01T00:00:00Z", b"ce-time: 2026-01-01T00:00:00Z"),
        (b"ce-time", b"2026-01-01T00%3A00:00Z", b"ce-time: 2026-01-01T00:00:00Z"),
        (b"ce-x", b"", b"ce-x: "),
        (b"content-type", b" text/plain; a=b ", b"content-type: text/plain; a=b"),
    ],
)
def test_a_line_is_kept_as_the_sink_gets_it(name, value, line):
    """One that has our form as it came, any other written anew; the content type last."""
    fields = [(name, value), *((key, text) for key, text in REQUIRED.items() if key != name)]
    (event,), made = receive(fields, b"x")
    assert made is not None
    (stored,) = record.decode(made)
    assert stored == event
    lines = stored.lines.split(b"\r\n")
    assert lines[-2 if name == b"content-type" else 0] == line
    assert http.encode_binary(Event(event.attributes, event.data)) == (stored.lines, b"x")


@pytest.mark.parametrize(
    "more",
    [
        (b"ce-specversion", b"0.3"),
        (b"content-type", b""),
        (b"content-type", b"application/cloudevents+json"),
    ],
)
def test_what_has_no_binary_form_has_the_other_one(more):
    """Version 0.3, an empty content type, structured mode."""
    fields = [*({**REQUIRED, more[0]: more[1]}).items()]
    body = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
    events, made = receive(fields, body)
    assert events == http.decode(fields, body)
    assert made is None


def test_a_value_of_any_length_is_judged_as_by_the_plain_decoder():
    """Long ones are not remembered."""
    for chars in (ATTRIBUTE_CHARS_MAX, ATTRIBUTE_CHARS_MAX + 1):
        for name in (b"ce-id", b"ce-x"):
            fields = [*(REQUIRED | {name: b"x" * chars}).items()]
            expected = outcome(http.decode, fields, b"")
            found = outcome(receive, fields, b"")
            assert (found if isinstance(expected, tuple) else found[0]) == expected


def test_lines_that_never_come_again_take_bounded_memory():
    """A sender may make up as many as it likes."""
    tracemalloc.start()
    try:
        for number in range(30_000):
            receive([*REQUIRED.items(), (b"ce-x", b"%d" % number + b"x" * 200)], b"")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 * 1024 * 1024
    (event,), _ = receive([*REQUIRED.items(), (b"ce-x", b"1")], b"")
    assert event.attributes["x"] == "1"


class Wire(asyncio.Transport):
    """Takes what a connection to a sink writes."""

    def __init__(self, written):
        super().__init__({"peername": ("127.0.0.1", 80)})
        self._written = written

    def write(self, data):
        self._written.append(bytes(data))

    def writelines(self, pieces):
        self.write(b"".join(pieces))

    def is_closing(self):
        return False

    def abort(self):
        pass

    close = abort


class Wires(Connector):
    """Connects to nothing, and keeps what is written."""

    def __init__(self):
        clock = SystemClock()
        rule = AddressRule(loopback_allowed=True)
        super().__init__(rule, CachingResolver(None, clock), clock)
        self.written = []

    async def open(self, _endpoint, make):
        make().connection_made(Wire(self.written))


def sent(events, **settings):
    """The request for each of *events*, as an HTTP sink gets it."""

    async def scenario():
        wires = Wires()
        transport = HttpTransport(wires, SystemClock(), asyncio.get_running_loop())
        destination = Destination("http://127.0.0.1/in", **settings)
        for event in events:
            transport.send(event, destination, 5.0, lambda _answer: None, carried=CARRIED)
            for _ in range(3):
                await asyncio.sleep(0)
        await transport.close()
        return wires.written

    return asyncio.run(scenario())


CARRIED = b"traceparent: 00-ab-cd-01\r\n"
SECRETS = [(name, CANARY) for name in OTHERS if name.islower()]


@pytest.mark.parametrize("format", ["binary", "structured"])
@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 16 * 1024 + 1, 1024 * 1024])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {b"ce-subject": b"gr%c3%bc", b"content-type": b"text/plain; a=b"},
        {b"ce-subject": b"x" * 9_000},
        {b"ce-a": b"x" * 7_000, b"ce-b": b"x" * 7_000, b"ce-c": b"x" * 7_000},
        {b"ce-a": b"x" * 5_000, b"ce-b": b"x" * 5_000},
    ],
    ids=["plain", "anew", "long", "large", "allowed"],
)
def test_a_sink_gets_the_same_bytes_of_a_stored_event(format, size, more):
    """And of no other field of the publisher's request, in either mode, however large it is."""
    fields = [*SECRETS, *REQUIRED.items(), *more.items()]
    (event,), made = receive(fields, b"\r" * size)
    (stored,) = record.decode(made)
    assert type(stored) is BinaryEvent
    plain, kept = sent([event, stored], format=format)
    assert kept == plain
    assert kept.count(CARRIED) == 1
    assert CANARY not in kept
    assert b"ce-id: 1\r\n" in kept or b'"id":"1"' in kept
