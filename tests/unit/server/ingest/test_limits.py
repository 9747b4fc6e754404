"""Every wire limit at limit - 1, limit and limit + 1."""

import pytest

from distributary.net.http1 import limits
from distributary.server.ingest import IngestSettings, _limits

AROUND = pytest.mark.parametrize("over", [-1, 0, 1], ids=["below", "at", "above"])


@AROUND
def test_request_line(client, event, over):
    """8 KiB without its CRLF; above: 414 and the end."""
    line_bytes = limits.REQUEST_LINE_BYTES_MAX + over
    padding = b"x" * (line_bytes - len(b"POST /events? HTTP/1.1"))
    request = event().replace(b"/events", b"/events?" + padding, 1)
    assert request.index(b"\r\n") == line_bytes
    assert client.statuses(request) == [414 if over > 0 else 202]
    assert client.ended is (over > 0)


@AROUND
def test_header_count(client, event, over):
    """100 fields; above: 431."""
    own = event().count(b"\r\n") - 2
    more = b"".join(b"x-%d: y\r\n" % n for n in range(limits.HEADER_COUNT_MAX + over - own))
    assert client.statuses(event(more=more)) == [431 if over > 0 else 202]


@AROUND
def test_one_header(client, event, over):
    """One field of 8 KiB, name and value, without its CRLF; above: 431."""
    more = b"x: " + b"y" * (limits.HEADER_BYTES_MAX + over - 3) + b"\r\n"
    assert client.statuses(event(more=more)) == [431 if over > 0 else 202]


@pytest.mark.parametrize("name", [b"ce-x", b"CE-X"])
def test_one_attribute_may_have_nearly_all_of_the_head(client, event, name):
    """Events of 64 KiB are forwarded, however they spend their bytes (CloudEvents 1.0)."""
    more = name + b": " + b"y" * (limits.HEADERS_BYTES_MAX - 512) + b"\r\n"
    assert client.statuses(event(more=more)) == [202]
    assert client.statuses(event(more=more + b"x: " + b"y" * limits.HEADER_BYTES_MAX)) == [431]


@AROUND
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "without its end"])
def test_all_headers(client, event, over, whole):
    """64 KiB of fields with their CRLFs; above: 431, even before the header has ended."""
    own = len(event()) - event().index(b"\r\n") - 2 - 2 - 2  # blank line and body
    missing = limits.HEADERS_BYTES_MAX + over - own
    more = b""
    while missing:
        size = missing if missing <= 8000 else min(8000, missing - 10)
        more += b"x: " + b"y" * (size - 5) + b"\r\n"
        missing -= size
    request = event(more=more)
    if whole:
        assert client.statuses(request) == [431 if over > 0 else 202]
    elif over > 0:
        assert client.statuses(request[:-4] + b"y:") == [431]
    else:
        assert client.statuses(request[:-4]) == []


@AROUND
def test_body_with_a_length(connect, event, over):
    """413 as soon as Content-Length says too much, before any of it is read."""
    client = connect(settings=IngestSettings(body_bytes_max=1000))
    request = event(b"x" * (1000 + over))
    if over > 0:
        assert client.statuses(request[: -(1000 + over)]) == [413]
        assert client.ended
    else:
        assert client.statuses(request) == [202]


@AROUND
@pytest.mark.parametrize("chunk", [1, 7, 1001], ids=["single bytes", "small", "one"])
def test_body_in_chunks(connect, post, over, chunk):
    """413 while the chunks stream in."""
    client = connect(settings=IngestSettings(body_bytes_max=1000))
    body = b"x" * (1000 + over)
    pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = post(b"transfer-encoding: chunked\r\n")
    assert client.statuses(head, sent) == [413 if over > 0 else 202]


def test_an_endless_chunked_body_is_cut(connect, post):
    """413 with no more than the limit in memory (H6)."""
    client = connect(settings=IngestSettings(body_bytes_max=1000))
    head = post(b"transfer-encoding: chunked\r\n")
    assert client.statuses(head, *[b"64\r\n" + b"x" * 100 + b"\r\n"] * 50) == [413]
    assert client.connection._context.counters.held_bytes == 0


def test_a_body_of_ten_gigabytes_is_refused_unread(client, post):
    """413 at once (H6)."""
    assert client.statuses(post(b"content-length: 10737418240\r\n")) == [413]


def test_a_million_chunks_of_one_byte_are_refused(client, post):
    """Framing may cost 16 KiB and twice the body: 1-byte chunks end at 16,384 / 3 of them."""
    client.send(post(b"transfer-encoding: chunked\r\n"))
    statuses = client.statuses(*[b"1\r\nx\r\n" * 1000] * 20)
    assert statuses == [413]


def test_small_chunks_within_the_ratio_pass(client, post):
    """3-byte chunks pass, however many."""
    client.send(post(b"transfer-encoding: chunked\r\n"))
    assert client.statuses(*[b"3\r\nxxx\r\n" * 1000] * 20, b"0\r\n\r\n") == [202]


@AROUND
def test_chunk_extension(client, post, over):
    """256 bytes of extension for one chunk; above: 400."""
    extension = b";" + b"e" * (limits.CHUNK_EXTENSION_BYTES_MAX + over - 1)
    sent = post(b"transfer-encoding: chunked\r\n") + b"1%s\r\nx\r\n0\r\n\r\n" % extension
    assert client.statuses(sent) == [400 if over > 0 else 202]


def test_an_endless_chunk_line_is_refused(client, post):
    """A chunk line without an end is refused at its limit, not collected."""
    client.send(post(b"transfer-encoding: chunked\r\n"))
    assert client.statuses(b"1;" + b"e" * 600) == [400]


@AROUND
def test_chunk_size_digits(client, post, over):
    """16 hexadecimal digits; more exist only to overflow."""
    digits = b"1".rjust(limits.CHUNK_SIZE_DIGITS_MAX + over, b"0")
    sent = post(b"transfer-encoding: chunked\r\n") + digits + b"\r\nx\r\n0\r\n\r\n"
    assert client.statuses(sent) == [400 if over > 0 else 202]


@AROUND
def test_trailer_count(client, post, over):
    """16 trailer fields; above: 431."""
    trailers = b"x: y\r\n" * (limits.TRAILER_COUNT_MAX + over)
    sent = post(b"transfer-encoding: chunked\r\n") + b"1\r\nx\r\n0\r\n" + trailers + b"\r\n"
    assert client.statuses(sent) == [431 if over > 0 else 202]


@AROUND
@pytest.mark.parametrize("count", [1, 3])
def test_trailer_bytes(client, post, over, count):
    """8 KiB of trailers with their CRLFs; above: 431."""
    first = b"x: y\r\n" * (count - 1)
    last = b"x: ".ljust(limits.TRAILERS_BYTES_MAX + over - len(first) - 2, b"y") + b"\r\n"
    sent = post(b"transfer-encoding: chunked\r\n") + b"1\r\nx\r\n0\r\n" + first + last + b"\r\n"
    assert client.statuses(sent) == [431 if over > 0 else 202]


def test_trailers_never_become_attributes(client, post):
    """A trailer that looks like an attribute is dropped."""
    sent = post(b"transfer-encoding: chunked\r\n") + b"1\r\nx\r\n0\r\nce-subject: s\r\n\r\n"
    assert client.statuses(sent) == [202]
    assert b"subject" not in client.appends.received[0].body


@pytest.mark.slow
@AROUND
def test_requests_of_one_connection(client, event, over):
    """The ten-thousandth answer says close."""
    count = _limits.REQUESTS_PER_CONNECTION_MAX + over
    answers = client.send(*[event()] * count)
    assert len(answers) == min(count, _limits.REQUESTS_PER_CONNECTION_MAX)
    assert (answers[-1].fields.get(b"connection") == b"close") is (over >= 0)
    assert client.ended is (over >= 0)


@AROUND
def test_connections(connect, event, over):
    """Where all are busy one above the limit is answered 503 and closed; leaving makes room."""
    first = connect(settings=IngestSettings(connections_max=3))
    others = []
    for _ in range(2 + over):
        [first, *others][-1].send(b"POST")
        others.append(connect(context=first.context))
    refused = [other for other in [first, *others] if other.ended]
    assert len(refused) == max(over, 0)
    for other in refused:
        assert [answer.status for answer in other.answers()] == [503]
    first.connection.connection_lost(None)
    assert connect(context=first.context).statuses(event())
    assert first.context.counters.connections_refused == max(over, 0)


def test_the_connection_that_is_idle_for_longest_makes_room(connect, event):
    """Never one that has something under way; and each newcomer gets its answer."""
    busy = connect(settings=IngestSettings(connections_max=6))
    busy.send(event(b"x" * 100)[:-1])
    waiting = connect(context=busy.context, clock=busy.clock, appends=busy.appends)
    busy.appends.held = True
    waiting.send(event())
    busy.appends.held = False
    idle = []
    for number in range(4):
        busy.clock.now_s += 1
        idle.append(connect(context=busy.context, clock=busy.clock, appends=busy.appends))
        if number % 2:
            assert idle[-1].statuses(event()) == [202]
    busy.clock.now_s += 1
    assert idle[0].statuses(event()) == [202]  # it was the oldest; now it is the youngest
    for expected in (1, 2, 3, 0):
        newcomer = connect(context=busy.context, clock=busy.clock, appends=busy.appends)
        assert newcomer.statuses(event()[:-1]) == []
        assert [number for number, one in enumerate(idle) if one.ended].count(expected) == 1
        assert len(busy.context.connections) == 6
    assert connect(context=busy.context, clock=busy.clock).ended  # nobody is idle any more
    assert busy.statuses(b"x") == [202]
    busy.appends.settle()
    assert [answer.status for answer in waiting.answers()] == [202]
    assert busy.context.counters.connections_cut == 4


@AROUND
def test_a_connection_that_says_nothing(client, over):
    """Ten seconds for the first byte of all; between two requests a client has a minute."""
    client.wait(_limits.FIRST_BYTE_S + over)
    assert client.transport.closed is (over >= 0)
    assert client.context.counters.connections_cut == (over >= 0)


@AROUND
def test_connections_of_one_address(connect, over):
    """The limit of one address leaves other addresses alone."""
    settings = IngestSettings(connections_per_address_max=3)
    first = connect(settings=settings, peer=("192.0.2.1", 1))
    others = [connect(context=first.context, peer=("192.0.2.1", 1)) for _ in range(2 + over)]
    assert sum(other.ended for other in others) == max(over, 0)
    assert not connect(context=first.context, peer=("192.0.2.2", 1)).ended
    first.connection.connection_lost(None)
    assert connect(context=first.context, peer=("192.0.2.1", 1)).ended is (over > 1)


def test_addresses_that_left_are_forgotten(connect):
    """No memory is kept of clients that are gone."""
    client = connect(peer=("192.0.2.1", 1))
    client.transport.close()
    assert client.context._by_address == {}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_has_no_limit_for_one_address(connect, address):
    """Clients on this machine share one address by nature."""
    settings = IngestSettings(connections_per_address_max=1)
    first = connect(settings=settings, peer=(address, 1))
    assert not connect(context=first.context, peer=(address, 1)).ended


def test_half_received_bodies_are_bounded_together(connect, event):
    """Bodies under way count over all connections; beyond the bound: 503, and it is freed."""
    first = connect(settings=IngestSettings(body_bytes_max=1000, held_bytes_max=1500))
    second = connect(context=first.context)
    first.send(event(b"x" * 1000)[:-1])
    assert second.statuses(event(b"x" * 1000)[:-1]) == [503]
    assert first.context.counters.held_bytes == 999
    assert first.statuses(b"x") == [202]
    assert first.context.counters.held_bytes == 0


def test_bodies_that_wait_for_the_log_are_bounded_together(connect, event):
    """Bytes that wait for the log count too."""
    client = connect(settings=IngestSettings(body_bytes_max=1000, held_bytes_max=1000))
    client.appends.held = True
    client.send(event(b"x" * 1000), event())
    client.appends.settle()
    assert [answer.status for answer in client.answers()] == [202, 503]
    assert client.context.counters.held_bytes == 0
