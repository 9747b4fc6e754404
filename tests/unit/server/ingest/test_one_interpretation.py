"""Request smuggling: every message has one meaning, or 400 and the end of the connection (H2).

Each row is also given to h11, an independent reading of RFC 9112. Where we accept, h11 must
accept and see the same body; where we refuse and h11 does not, the reason is in a table.
"""

import h11
import pytest

HOST = b"host: localhost\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
POST = b"POST /events HTTP/1.1\r\n" + HOST
GET = b"OPTIONS /events HTTP/1.1\r\n"
CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"

REFUSED = {
    "length and chunks": POST + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS,
    "chunks and length": POST + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n" + CHUNKS,
    "two lengths": POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}x",
    "one length twice": POST + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "a list of lengths": POST + b"content-length: 2, 2\r\n\r\n{}",
    "length +2": POST + b"content-length: +2\r\n\r\n{}",
    "length -2": POST + b"content-length: -2\r\n\r\n{}",
    "length 0x2": POST + b"content-length: 0x2\r\n\r\n{}",
    "length 2 2": POST + b"content-length: 2 2\r\n\r\n{}",
    "length 2e0": POST + b"content-length: 2e0\r\n\r\n{}",
    "length 2_0": POST + b"content-length: 2_0\r\n\r\n{}",
    "empty length": POST + b"content-length: \r\n\r\n",
    "length of 20 digits": POST + b"content-length: 00000000000000000002\r\n\r\n{}",
    "length beyond 64 bits": POST + b"content-length: 99999999999999999999\r\n\r\n",
    "xchunked": POST + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS,
    "chunked, identity": POST + b"transfer-encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "identity, chunked": POST + b"transfer-encoding: identity, chunked\r\n\r\n" + CHUNKS,
    "gzip, chunked": POST + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS,
    "chunked twice": POST
    + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n"
    + CHUNKS,
    "identity": POST + b"transfer-encoding: identity\r\n\r\n",
    "empty coding": POST + b"transfer-encoding: \r\n\r\n",
    "quoted chunked": POST + b'transfer-encoding: "chunked"\r\n\r\n' + CHUNKS,
    "vertical tab chunked": POST + b"transfer-encoding: \x0bchunked\r\n\r\n" + CHUNKS,
    "chunks in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKS,
    "folded line": POST + b"a: b\r\n c: d\r\n\r\n",
    "folded length": POST + b"content-length:\r\n 2\r\n\r\n{}",
    "first line folded": b"POST /events HTTP/1.1\r\n host: localhost\r\n\r\n",
    "bare LF after the request line": b"GET / HTTP/1.1\nhost: localhost\r\n\r\n",
    "bare LF after a field": POST + b"a: b\nc: d\r\n\r\n",
    "bare LF at the end": POST + b"a: b\n\n",
    "bare LF alone": b"\n",
    "bare CR in a value": POST + b"a: b\rc: d\r\n\r\n",
    "bare CR in the request line": b"GET /\r HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "NUL in a value": POST + b"a: b\x00c\r\n\r\n",
    "NUL in a name": POST + b"a\x00: b\r\n\r\n",
    "control in a value": POST + b"a: b\x01\r\n\r\n",
    "DEL in a value": POST + b"a: b\x7f\r\n\r\n",
    "space before the colon": POST + b"content-length : 2\r\n\r\n{}",
    "tab before the colon": POST + b"content-length\t: 2\r\n\r\n{}",
    "space in a name": POST + b"content length: 2\r\n\r\n{}",
    "empty name": POST + b": b\r\n\r\n",
    "no colon": POST + b"content-length 2\r\n\r\n{}",
    "name beyond ASCII": POST + b"\xc3\xa9: b\r\n\r\n",
    "no host": b"OPTIONS /events HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"host: a\r\nhost: b\r\n\r\n",
    "one host twice": GET + b"host: a\r\nhost: a\r\n\r\n",
    "two hosts in HTTP/1.0": b"OPTIONS /events HTTP/1.0\r\nhost: a\r\nhost: a\r\n\r\n",
    "host with a path": GET + b"host: a/b\r\n\r\n",
    "host with user": GET + b"host: u@a\r\n\r\n",
    "host with a space": GET + b"host: a b\r\n\r\n",
    "HTTP/0.9": b"GET /events\r\n\r\n",
    "HTTP/0.9 with version": b"GET /events HTTP/0.9\r\nhost: localhost\r\n\r\n",
    "HTTP/2.0": b"GET /events HTTP/2.0\r\nhost: localhost\r\n\r\n",
    "HTTP/1.2": b"GET /events HTTP/1.2\r\nhost: localhost\r\n\r\n",
    "HTTP/1.10": b"GET /events HTTP/1.10\r\nhost: localhost\r\n\r\n",
    "h2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "RTSP": b"DESCRIBE /events RTSP/1.0\r\nhost: localhost\r\n\r\n",
    "lower-case http": b"GET /events http/1.1\r\nhost: localhost\r\n\r\n",
    "two spaces": b"GET  /events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "space at the end of the line": b"GET /events HTTP/1.1 \r\nhost: localhost\r\n\r\n",
    "tab in the line": b"GET\t/events\tHTTP/1.1\r\nhost: localhost\r\n\r\n",
    "space in the target": b"GET /a b HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "space before the line": b" GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "two empty lines before": b"\r\n\r\nGET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "chunk shorter than its size": CHUNKED + b"3\r\n{}\r\n0\r\n\r\n",
    "chunk longer than its size": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "chunk size 0x2": CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
    "chunk size +2": CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    "chunk size -2": CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
    "chunk size empty": CHUNKED + b"\r\n{}\r\n0\r\n\r\n",
    "space before a chunk size": CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n",
    "space after a chunk size": CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n",
    "chunk line with a bare LF": CHUNKED + b"2\n{}\r\n0\r\n\r\n",
    "chunk ends with a bare LF": CHUNKED + b"2\r\n{}\n0\r\n\r\n",
    "chunk extension with a control": CHUNKED + b"2;a=\x01\r\n{}\r\n0\r\n\r\n",
    "chunk extension with a bare CR": CHUNKED + b"2;a=\rb\r\n{}\r\n0\r\n\r\n",
    "trailer without a colon": CHUNKED + b"2\r\n{}\r\n0\r\nabc\r\n\r\n",
    "folded trailer": CHUNKED + b"2\r\n{}\r\n0\r\na: b\r\n c\r\n\r\n",
    "trailers end with a bare LF": CHUNKED + b"2\r\n{}\r\n0\r\n\n",
    "path with dot segments": b"GET /a/../events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "path with one dot": b"GET /./events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "path ends with dots": b"GET /a/.. HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "coded dots": b"GET /a/%2e%2E/events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "coded slash": b"GET /a%2fevents HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "coded backslash": b"GET /a%5cevents HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "backslash": b"GET /a\\events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "two slashes": b"POST //events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "coded NUL": b"GET /events%00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "coded line feed": b"GET /events%0a HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "half a triplet": b"GET /events%2 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "fragment": b"GET /events#a HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "path beyond ASCII": "GET /é HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(),
    "other scheme": b"POST ftp://h/events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "user in an absolute target": b"POST http://u@h/events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "absolute without a host": b"POST http:///events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "no slash": b"POST events HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "star for POST": b"POST * HTTP/1.1\r\nhost: localhost\r\n\r\n",
}

LENIENT = "h11 is lenient here on purpose; two readings are the start of smuggling"
TARGET = "h11 does not look into targets"
HOST_VALUE = "h11 does not look into the host"
VERSION = "h11 leaves the version to its caller"
EXTENSION = "h11 drops chunk extensions unseen"
# h11 accepts these, we do not: each with why we refuse more than another careful reader.
STRICTER = {
    "length and chunks": "RFC 9112 6.1: a server MAY reject; h11 lets the chunks win",
    "chunks and length": "the same",
    "chunks in HTTP/1.0": "RFC 9112 6.1: faulty framing; h11 reads the chunks",
    "one length twice": "RFC 9110 8.6: a recipient MAY reject; nobody sends it in good faith",
    "a list of lengths": "the same",
    "length of 20 digits": "leading zeros only serve to overflow somebody",
    "folded line": "RFC 9112 5.2: a server MUST reject or unfold; h11 unfolds",
    "folded length": "the same",
    "folded trailer": "the same",
    "bare LF after the request line": LENIENT,
    "bare LF after a field": LENIENT,
    "bare LF at the end": LENIENT,
    "trailers end with a bare LF": LENIENT,
    "space after a chunk size": LENIENT,
    "control in a value": LENIENT,
    "DEL in a value": LENIENT,
    "chunk extension with a control": EXTENSION,
    "chunk extension with a bare CR": EXTENSION,
    "host with a path": HOST_VALUE,
    "host with user": HOST_VALUE,
    "host with a space": HOST_VALUE,
    "HTTP/0.9 with version": VERSION,
    "HTTP/2.0": VERSION,
    "HTTP/1.2": VERSION,
    "h2 preface": VERSION,
    "path with dot segments": TARGET,
    "path with one dot": TARGET,
    "path ends with dots": TARGET,
    "coded dots": TARGET,
    "coded slash": TARGET,
    "coded backslash": TARGET,
    "backslash": TARGET,
    "two slashes": TARGET,
    "coded NUL": TARGET,
    "coded line feed": TARGET,
    "half a triplet": TARGET,
    "fragment": TARGET,
    "other scheme": TARGET,
    "user in an absolute target": TARGET,
    "absolute without a host": TARGET,
    "no slash": TARGET,
    "star for POST": TARGET,
}

ACCEPTED = {
    "plain": (POST + b"content-length: 2\r\n\r\n{}", b"{}"),
    "length with zeros": (POST + b"content-length: 002\r\n\r\n{}", b"{}"),
    "blanks around a length": (POST + b"content-length: \t 2 \t\r\n\r\n{}", b"{}"),
    "chunks": (CHUNKED + CHUNKS, b"{}"),
    "Chunked": (POST + b"Transfer-Encoding: Chunked\r\n\r\n" + CHUNKS, b"{}"),
    "chunk size with zeros": (CHUNKED + b"0002\r\n{}\r\n000\r\n\r\n", b"{}"),
    "chunk extension": (CHUNKED + b'2;a=b;c="d"\r\n{}\r\n0;x\r\n\r\n', b"{}"),
    "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\na: b\r\n\r\n", b"{}"),
    "upgrade to h2c": (
        POST + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n{}",
        b"{}",
    ),
    "upgrade to websocket": (
        POST + b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-protocol: \xff\r\n"
        b"content-length: 2\r\n\r\n{}",
        b"{}",
    ),
    "HTTP/1.0 without a host": (
        b"POST /events HTTP/1.0\r\n"
        + HOST.replace(b"host: localhost\r\n", b"")
        + b"content-length: 2\r\n\r\n{}",
        b"{}",
    ),
    "absolute target": (
        POST.replace(b"/events", b"http://192.0.2.1:80/events") + b"content-length: 2\r\n\r\n{}",
        b"{}",
    ),
    "empty host": (
        POST.replace(b": localhost\r\n", b":\r\n", 1) + b"content-length: 2\r\n\r\n{}",
        b"{}",
    ),
    "host of IPv6": (
        POST.replace(b": localhost\r\n", b": [::1]:80\r\n", 1) + b"content-length: 2\r\n\r\n{}",
        b"{}",
    ),
}


def read_by_h11(sent: bytes) -> tuple[bool, bytes]:
    """Whether h11 accepts *sent* as one whole request, and its body."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(sent)
    body = b""
    try:
        while True:
            found = connection.next_event()
            if isinstance(found, h11.Data):
                body += bytes(found.data)
            elif isinstance(found, h11.EndOfMessage):
                return True, body
            elif found is h11.NEED_DATA or found is h11.PAUSED:
                return False, body
    except h11.RemoteProtocolError:
        return False, body


@pytest.mark.parametrize("name", REFUSED)
def test_a_message_of_two_meanings_is_400_and_the_end(client, name):
    """400, nothing appended, nothing after it is read as a request."""
    smuggled = b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert client.statuses(REFUSED[name] + smuggled) == [400]
    assert client.ended
    assert client.appends.received == []


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_400_byte_by_byte_too(client, name):
    """The same verdict when every byte comes alone."""
    sent = REFUSED[name] + b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert client.statuses(*[sent[at : at + 1] for at in range(len(sent))]) == [400]


@pytest.mark.parametrize("name", REFUSED)
def test_what_we_refuse_and_h11_accepts_is_named(name):
    """No refusal of ours is by accident: h11 refuses as well, or the table says why we do."""
    accepted, _ = read_by_h11(REFUSED[name])
    assert accepted is (name in STRICTER)


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_we_accept_h11_reads_the_same_way(client, name):
    """Accepted messages have the same body for h11, and leave the next request intact."""
    sent, body = ACCEPTED[name]
    assert client.statuses(sent)[:1] == [202]
    assert body in client.appends.received[0].body
    assert read_by_h11(sent) == (True, body)
    if not client.ended:
        assert client.statuses(b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n") == [200]


def test_one_empty_line_before_a_request_is_skipped(client, event):
    """RFC 9112 2.2: old clients end their body with a line too many; h11 refuses it."""
    assert client.statuses(event() + b"\r\n" + event()) == [202, 202]


def test_a_line_feed_after_a_body_that_ends_in_cr_is_bare(client, event):
    """The CR belongs to the body: it does not make the next request's LF a line end."""
    accepted, refused = client.send(event(b"a\r") + b"\n" + event())
    assert (accepted.status, refused.status) == (202, 400)
    assert refused.problem["detail"] == "A line of the header ends without CR."


def test_names_of_fields_are_case_insensitive(client, event):
    """Framing fields in any case frame."""
    assert client.statuses(event().replace(b"content-length", b"CoNtEnT-LeNgTh")) == [202]


def test_a_thousand_pipelined_requests_are_answered_in_order(client, event):
    """Good and bad events in turn, one read; answers keep the order (H2)."""
    bad = event().replace(b"ce-id: 1", b"ce-id: ")
    assert client.statuses((event() + bad) * 500) == [202, 400] * 500
