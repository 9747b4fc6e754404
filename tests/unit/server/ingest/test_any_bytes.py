"""Any bytes, in any cuts: the same answers, only 2xx and 4xx, never an exception."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HOST = b"host: localhost\r\n"
CE = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
STRUCTURED = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":[1,2]}}'
VALID = (
    b"POST /events HTTP/1.1\r\n" + HOST + CE + b"content-length: 3\r\n\r\nabc",
    b"POST /events HTTP/1.1\r\n" + HOST + CE + b"transfer-encoding: chunked\r\n\r\n"
    b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\na: b\r\n\r\n",
    b"POST /events HTTP/1.1\r\n" + HOST + b"content-type: application/cloudevents+json\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(STRUCTURED), STRUCTURED),
    b"POST /brokers/default/default HTTP/1.1\r\n"
    + HOST
    + b"content-type: application/cloudevents-batch+json; charset=utf-8\r\n"
    b"content-length: %d\r\n\r\n[%s,%s]" % (2 * len(STRUCTURED) + 3, STRUCTURED, STRUCTURED),
    b"POST /events HTTP/1.0\r\nconnection: keep-alive\r\n" + CE + b"content-length: 0\r\n\r\n",
    b"OPTIONS /events HTTP/1.1\r\n" + HOST + b"webhook-request-origin: o\r\n\r\n",
    b"GET /events HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET http://h/subscriptions?limit=1 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"POST /events HTTP/1.1\r\n"
    + HOST
    + CE
    + b"content-encoding: gzip\r\ncontent-length: 1\r\n\r\nx",
    b"\r\nOPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
)
BROKEN = (
    b"POST /events HTTP/1.1\r\n" + HOST + b"content-length: 99999999\r\n\r\n",
    b"GET / HTTP/1.1\nhost: localhost\r\n\r\n",
    b"POST /events HTTP/1.1\r\n" + HOST + CE + b"transfer-encoding: chunked\r\n\r\n5\r\nabc\r\n",
    b"GET /../x HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /" + b"x" * 9000,
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20 + b"c: " + b"d" * 70_000,
)


def meaning(answers):
    """What must not depend on the cuts."""
    return [(answer.status, sorted(answer.fields.items()), answer.body) for answer in answers]


@pytest.mark.parametrize("message", [*VALID, *BROKEN[:4]])
def test_one_cut_anywhere_changes_nothing(connect, message):
    """Every message, cut in two at each byte, with a request behind it."""
    sent = message + VALID[0]
    whole = connect()
    expected = meaning(whole.send(sent))
    for at in range(1, len(sent)):
        cut = connect()
        assert meaning(cut.send(sent[:at], sent[at:])) == expected, at
        assert cut.appends.received == whole.appends.received, at
        assert cut.ended is whole.ended, at


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    requests=st.lists(st.sampled_from(VALID), min_size=1, max_size=6),
    end=st.sampled_from((b"", *BROKEN)),
    seed=st.integers(0, 2**32),
)
def test_answers_do_not_depend_on_how_bytes_are_cut(connect, requests, end, seed):
    """One read, or any number of reads: the same answers, appends and end."""
    sent = b"".join(requests) + end
    whole = connect()
    expected = meaning(whole.send(sent))
    cut = connect()
    rng = random.Random(seed)
    pieces = []
    at = 0
    while at < len(sent):
        size = rng.choice((1, 1, 2, 3, 7, 50, 1000, 20_000))
        pieces.append(sent[at : at + size])
        at += size
    assert meaning(cut.send(*pieces)) == expected
    assert cut.appends.received == whole.appends.received
    assert cut.ended is whole.ended
    assert cut.context.counters.held_bytes == whole.context.counters.held_bytes


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sent=st.lists(st.binary(max_size=300), max_size=5))
def test_rubbish_is_refused_or_waited_for(connect, sent):
    """No bytes raise anything; no rubbish is accepted."""
    client = connect()
    assert all(400 <= status < 500 for status in client.statuses(*sent))
    assert client.appends.received == []


def mutate(rng: random.Random, message: bytes) -> bytes:
    """*message* with one to four small damages."""
    changed = bytearray(message)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        kind = rng.randrange(6)
        if kind == 0:
            changed[at] = rng.randrange(256)
        elif kind == 1:
            del changed[at : at + rng.randint(1, 8)]
        elif kind == 2:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 4)))
        elif kind == 3:
            changed[at:at] = rng.choice((b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"%", b"\xff"))
        elif kind == 4:
            start = rng.randrange(len(changed))
            changed[at:at] = changed[start : start + rng.randint(1, 40)]
        else:
            other = rng.choice(VALID)
            changed[at:] = other[rng.randrange(len(other)) :]
        if not changed:
            return b"x"
    return bytes(changed)


@pytest.mark.slow
def test_twenty_thousand_damaged_requests(connect):
    """Seeded damage to valid requests: 2xx or 4xx with problem details, never 5xx (H1)."""
    rng = random.Random(20_260_101)
    seen = set()
    for number in range(20_000):
        client = connect()
        damaged = mutate(rng, rng.choice(VALID))
        cut = rng.randrange(len(damaged) + 1)
        for answer in client.send(damaged[:cut], damaged[cut:]):
            assert answer.status in {200, 202} or 400 <= answer.status < 500, (number, damaged)
            if answer.status >= 400 and damaged[:4] != b"HEAD":
                assert answer.problem["status"] == answer.status, (number, damaged)
            seen.add(answer.status)
        counters = client.context.counters
        assert counters.held_bytes == client.connection._body.bytes, (number, damaged)
        assert counters.appends_in_flight == 0
    assert {200, 202, 400, 404, 405, 415} <= seen
