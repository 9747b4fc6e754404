"""Requests in plain form: whatever lines are known, they mean what the parser says."""

import random
import tracemalloc

import pytest

from distributary.core.event import record
from distributary.protocols.http import plain
from distributary.protocols.http.plain import PlainRequests

CANARY = b"must-never-leave"
HEAD = b"POST /events HTTP/1.1\r\n"
CE = b"ce-specversion: 1.0\r\nce-id: %d\r\nce-source: /s\r\nce-type: t\r\n"
PUBLISHERS = (
    HEAD + b"host: localhost\r\n" + CE + b"content-length: 2\r\n\r\n{}",
    HEAD + b"Host: localhost:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 2\r\n"
    b"Ce-Id: %d\r\nCe-Source: /s/1\r\nCe-Specversion: 1.0\r\nCe-Time: 2026-01-01T00:00:%02dZ\r\n"
    b"Ce-Type: t\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{}",
    HEAD + b"host: 127.0.0.1\r\naccept: */*\r\nconnection: keep-alive\r\n"
    b"authorization: Bearer "
    + CANARY
    + b"-%d\r\ncookie: "
    + CANARY
    + b"\r\n"
    + CE
    # no line break
    + b"content-type: text/plain; a=b\r\nce-subject: %d\r\nce-partitionkey: k%d\r\n"
    b"x-forwarded-for: 10.0.0.1\r\ncontent-length: 4\r\n\r\nabcd",
    HEAD.replace(b"/events", b"/brokers/default/other")
    + b"host: localhost\r\n"
    + CE.replace(b"ce-source: /s", b"ce-source: /s/%d").replace(b"ce-type: t", b"ce-type: t%d")
    + b"ce-dataschema: https://example.com/x?y=%d\r\nce-x: %d\r\ncontent-length: 0\r\n\r\n",
)
PUBLISHERS = (
    *PUBLISHERS,
    PUBLISHERS[0].replace(
        b"ce-type", b"Traceparent: 00-%d-ab-01\r\ntracestate: a=%d, b\r\nx-b3-flags:1\r\nce-type"
    ),
    PUBLISHERS[3].replace(b"ce-type", b"knative-error-dest: x\r\nX-Request-Id: %d\r\nce-type"),
)
LINES = (
    *(b"transfer-encoding: chunked", b"Transfer-Encoding: identity", b"content-length: 2"),
    *(b"content-length: +2", b"content-length: 3", b"content-length: 2, 2", b"content-length: 02"),
    *(b"content-length : 2", b"content-length: 2 ", b"content-length:2", b"content-length:  2"),
    *(b"host: localhost", b"host: other.example", b"host: a/b", b"host:", b" folded: x", b"\tx"),
    *(b"connection: close", b"connection: keep-alive, x", b"connection: upgrade", b"upgrade: h2c"),
    *(b"expect: 100-continue", b"origin: http://evil.example", b"sec-fetch-site: cross-site"),
    *(b"content-encoding: gzip", b"webhook-request-origin: o", b"traceparent: 00-a-b-01"),
    *(
        b"tracestate: a, b",
        b"tracestate:  a",
        b"tracestate: a ",
        b"tracestate: \xff",
        b"traceparent:",
    ),
    *(b"knative-x: 1", b"ce-knativebrokerttl: 1", b"ce-knativebrokerttl: 0", b"ce-data: x"),
    *(b"ce-specversion: 0.3", b"ce-specversion: 2", b"ce-id: a b", b'ce-id: "1"', b"ce-id: %41"),
    *(b"ce-id:", b"ce-id: ", b"ce-id:1", b"Ce-Id: 9", b"ce-id: \xc3\xbc", b"ce-id: a\rb"),
    *(b"ce-id: a\nb", b"ce-id : 1", b"ce id: 1", b"ce-: 1", b"ce-a-b: 1", b"ce-a_b: 1"),
    *(b"ce-time: yesterday", b"ce-time: 2026-02-30T00:00:00Z", b"ce-time: 2026-02-03t00:00:00Z"),
    *(b"ce-source: a b", b"ce-source: %zz", b"ce-source: ", b"ce-source: a:b:[", b"ce-source: x"),
    *(b"ce-dataschema: x", b"ce-dataschema: a:b", b"ce-subject: ", b"ce-subject: gr%C3%BC%C3%9F"),
    *(b"ce-partitionkey: z", b"ce-partitionkey: ", b"ce-datacontenttype: text/plain"),
    *(b"content-type: application/cloudevents+json", b"content-type: nonsense", b"content-type:"),
    *(b"content-type: text/plain ; a=b", b"Content-Type: text/xml", b"x: \x00", b"x: \x7f", b"x:"),
    *(b"x: \xff", b"x: a\tb", b"x\xff: a", b": x", b"x", b"", b"x: " + b"y" * 9_000),
    *(b"ce-long: " + b"y" * 300, b"ce-%b: 1" % (b"n" * 300)),
)


ONLY_CARRIED = b"".join(b"x-b3-%d: v\r\n" % number for number in range(33))


def filled(template, number):
    """The request of a publisher with the *number*-th values."""
    return template % ((number % 60,) * template.count(b"%"))


class Warm:
    """A receiver that publishers have used before; counts what it reads in plain form.

    It outlives all examples of a test, so that they see each other's lines.
    """

    def __init__(self, connect):
        self.connect = connect
        first = connect()
        self.context = first.context
        self.context.addresses.learn({"brokers/default/other": "uid"})
        self.appends = first.appends
        self.read_count = 0
        read = self.context.plain.read

        class Counting:
            renew = staticmethod(self.context.plain.renew)

            @staticmethod
            def read(*arguments):
                found = read(*arguments)
                self.read_count += found is not None
                return found

        self.context.plain = Counting()
        for number in range(6):
            for template in PUBLISHERS:
                assert self.seen(filled(template, number))[0][0][0] == 202

    def seen(self, *pieces):
        """What becomes of *pieces* on a connection of their own."""
        self.appends.received.clear()
        client = self.connect(appends=self.appends, context=self.context)
        answers = client.send(*pieces)
        meaning = [(each.status, sorted(each.fields.items()), each.body) for each in answers]
        found = meaning, list(self.appends.received), client.ended
        client.transport.close()
        self.context.plain.renew()
        assert self.context.counters.held_bytes == 0
        assert self.context.counters.appends_in_flight == 0
        return found

    def parsed(self, request):
        """The same by the parser alone: of a cut request it gets all bytes."""
        before = self.read_count
        found = self.seen(request[:1], request[1:])
        assert self.read_count == before
        return found


@pytest.fixture
def warm(connect):
    """A receiver with known lines."""
    return Warm(connect)


@pytest.mark.parametrize("template", PUBLISHERS)
def test_requests_of_a_known_shape_are_not_parsed(warm, template):
    """From the fourth request on; the record is the one that the parser leads to."""
    for number in range(6, 12):
        request = filled(template, number)
        expected = warm.parsed(request)
        before = warm.read_count
        assert warm.seen(request) == expected
        assert warm.read_count == before + 1
        (received,) = expected[1]
        assert CANARY not in received.body


def changed(rng, request):
    """*request* with some of its lines added, left out, moved or exchanged."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(1, len(lines))
        kind = rng.randrange(8)
        if kind <= 1:
            lines.insert(at, rng.choice(LINES))
        elif kind == 2:
            name = lines[at].partition(b":")[0].lower()
            same = [line for line in LINES if line.partition(b":")[0].lower() == name]
            lines[at] = rng.choice(same or LINES)
        elif kind == 3 and len(lines) > 2:
            del lines[at]
        elif kind == 4:
            lines.insert(at, lines[rng.randrange(1, len(lines))])
        elif kind == 5:
            other = rng.randrange(1, len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 6:
            lines[at] = lines[at].swapcase()
        else:
            line = bytearray(lines[at] or b"x")
            line[rng.randrange(len(line))] = rng.choice((*b' :\t\r\n%"', *rng.randbytes(4)))
            lines[at] = bytes(line)
    return b"\r\n".join(lines) + b"\r\n\r\n" + rng.choice((body, body, body, body + b"x", b""))


@pytest.mark.slow
def test_two_thousand_changed_requests_mean_what_the_parser_says(warm):
    """Each five times, so that its lines and its shape are known: same answers, records and end.

    No header field of the publisher but the event's enters a record.
    """
    rng = random.Random(20_260_102)
    plainly = 0
    for number in range(2_000):
        request = changed(rng, filled(rng.choice(PUBLISHERS), rng.randrange(60)))
        expected = warm.parsed(request)
        for _ in range(5):
            before = warm.read_count
            assert warm.seen(request) == expected, (number, request)
            plainly += warm.read_count - before
        for received in expected[1]:
            assert CANARY not in received.body
    assert plainly > 800


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("template", PUBLISHERS[1:3], ids=["go", "python"])
def test_no_line_has_another_meaning_when_it_is_known(warm, template, line):
    """Beside the line of that name and in its place, and then the publisher's own request again."""
    own = filled(template, 7)
    head, _, body = own.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    name = line.partition(b":")[0].strip().lower()
    others = [each for each in lines if each.partition(b":")[0].lower() != name]
    expected_of_own = warm.parsed(own)
    for made in ([*lines, line], [lines[0], line, *lines[1:]], [*others, line]):
        request = b"\r\n".join(made) + b"\r\n\r\n" + body
        expected = warm.parsed(request)
        for _ in range(3):
            assert warm.seen(request) == expected
    assert warm.seen(own) == expected_of_own


def test_values_that_vary_are_checked(warm):
    """A shape accepts no value that the parser's way refuses or writes anew."""
    for name, bad in (
        (b"source", b"a b"),
        (b"dataschema", b"relative"),
        (b"x", b"a%20b"),
        (b"id", b'"quoted"'),
    ):
        request = filled(PUBLISHERS[3], 9)
        lines = [
            b"ce-%b: %b" % (name, bad) if line.startswith(b"ce-%b:" % name) else line
            for line in request.split(b"\r\n")
        ]
        request = b"\r\n".join(lines)
        expected = warm.parsed(request)
        before = warm.read_count
        assert warm.seen(request) == expected
        assert warm.read_count == before


@pytest.mark.parametrize("value", [b" a", b"a ", b"a\t", b"", b"\xff", b"a b"])
def test_carried_values_are_trimmed_as_by_the_parser(warm, value):
    """Whatever surrounds them."""
    request = filled(PUBLISHERS[4], 9)
    lines = [
        b"tracestate: " + value if line.startswith(b"tracestate:") else line
        for line in request.split(b"\r\n")
    ]
    request = b"\r\n".join(lines)
    expected = warm.parsed(request)
    before = warm.read_count
    assert warm.seen(request) == expected
    assert (warm.read_count > before) is (value == b"a b")


def test_too_many_carried_lines_are_refused_as_ever(warm):
    """As many as are allowed are not parsed; one more has no shape."""
    for lines, status in ((ONLY_CARRIED[13:], 202), (ONLY_CARRIED, 431)):
        request = filled(PUBLISHERS[0], 8).replace(b"ce-type", lines + b"ce-type")
        expected = warm.parsed(request)
        assert expected[0][0][0] == status
        before = warm.read_count
        for _ in range(5):
            assert warm.seen(request) == expected
        assert (warm.read_count > before) is (status == 202)


def test_a_request_behind_another_or_in_pieces_is_parsed(warm):
    """Two requests in one read, and one in two: both are answered."""
    request = filled(PUBLISHERS[0], 8)
    before = warm.read_count
    assert [status for status, *_ in warm.seen(request + request)[0]] == [202, 202]
    assert [status for status, *_ in warm.seen(request[:-1], request[-1:])[0]] == [202]
    assert warm.read_count == before


def test_limits_hold_for_plain_requests(warm, connect):
    """A closed log, one that is behind, and shutting down are refused as ever."""
    request = filled(PUBLISHERS[0], 8)
    client = connect(appends=warm.appends, context=warm.context)
    counters, most = warm.context.counters, warm.context.settings.held_bytes_max
    for of, attribute, kept, limited in (
        (warm.appends, "open", True, False),
        (counters, "held_bytes", 0, most),
    ):
        setattr(of, attribute, limited)
        assert client.statuses(request) == [503]
        setattr(of, attribute, kept)
        assert client.statuses(request) == [202]
    warm.context.draining = True
    assert client.statuses(request) == [503]
    assert client.ended


def test_the_last_request_of_a_connection_closes_it(warm, connect, monkeypatch):
    """Plain requests count."""
    monkeypatch.setattr("distributary.server.ingest._limits.REQUESTS_PER_CONNECTION_MAX", 3)
    client = connect(appends=warm.appends, context=warm.context)
    answers = [client.send(filled(PUBLISHERS[0], number))[0] for number in range(3)]
    assert [b"connection" in answer.fields for answer in answers] == [False, False, True]
    assert client.transport.closed


def test_a_removed_broker_takes_no_plain_request(warm):
    """Request lines are looked up anew for each request."""
    assert warm.seen(filled(PUBLISHERS[3], 8))[0][0][0] == 202
    warm.context.addresses.learn({})
    assert warm.seen(filled(PUBLISHERS[3], 8))[0][0][0] == 404


ADDRESSES = {b"POST /events HTTP/1.1": ""}


def test_lines_that_never_come_again_take_bounded_memory():
    """A sender may make up as many lines, and as long ones, as it likes."""
    reader = PlainRequests()
    tracemalloc.start()
    try:
        for number in range(6_000):
            more = b"ce-x%d: %b\r\nce-y: %b%d\r\n" % (number, b"v" * 200, b"y" * 5_000, number % 9)
            request = filled(PUBLISHERS[0], 1).replace(b"ce-type", more + b"ce-type")
            for _ in range(2):
                reader.read(request, ADDRESSES, 100)
            reader.renew()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 * 1024 * 1024


def test_few_heads_a_second_are_looked_at():
    """Publishers whose heads have no shape cost no more than a bounded share of the processor."""
    reader = PlainRequests()
    for number in range(plain.LEARNED_MAX):
        reader.read(HEAD + b"x%d: y\r\n\r\n" % number, ADDRESSES, 100)
    requests = [filled(PUBLISHERS[0], number) for number in range(4)]
    assert [reader.read(each, ADDRESSES, 100) for each in requests] == [None] * 4
    reader.renew()
    found = [reader.read(each, ADDRESSES, 100) for each in requests]
    assert found[:3] == [None] * 3
    (event,) = record.decode(found[3][5])
    assert event.attributes == {"specversion": "1.0", "id": "3", "source": "/s", "type": "t"}


def test_a_body_above_the_limit_is_left_to_the_parser():
    """It refuses it."""
    reader = PlainRequests()
    requests = [filled(PUBLISHERS[0], number) for number in range(4)]
    for each in requests:
        reader.read(each, ADDRESSES, 2)
    assert reader.read(requests[0], ADDRESSES, 2) is not None
    assert reader.read(requests[0], ADDRESSES, 1) is None
