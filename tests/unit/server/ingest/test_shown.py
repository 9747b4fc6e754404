"""The line ``Authorization`` that a connection repeats: taken out, and read as by the parser."""

import random

import pytest
from tests.unit.server.ingest.conftest import event

from distributary.access import LOCAL, AccessSnapshot, Credentials, Gate, IssuerRecord, Verb
from distributary.access.issuers import ClaimRule, Issuer
from distributary.protocols.http.plain import TAKEN_OUT, PlainRequests
from distributary.server.ingest._shown import MISSES_MAX, Shown
from kit.minted import AUDIENCE, URL, claims_of, signing_key

TOKEN = b"t" * 300
VALUE = b"Bearer " + TOKEN
LINE = b"Authorization: " + VALUE + b"\r\n"
HEAD = (
    b"POST /events HTTP/1.1\r\nhost: a\r\n%bcontent-length: 2\r\nce-specversion: 1.0\r\n"
    b"ce-id: 1\r\nce-source: s\r\nce-type: t\r\n\r\n"
) % LINE
ADDRESSES = {b"POST /events HTTP/1.1": ""}
NOW_S = 1_767_225_600
RULE = ClaimRule(may=(Verb.PUBLISH,), subjects=("till",), namespaces=("default",))
SNAPSHOT = AccessSnapshot(
    required=True,
    issuers=(
        IssuerRecord(
            issuer=Issuer(
                name="a", url=URL, audiences=(AUDIENCE,), algorithms=("ES256",), grants=(RULE,)
            ),
            keys=(signing_key().jwk(),),
            asked_ms=NOW_S * 1000,
        ),
    ),
)
LINES = {
    name: b"authorization: Bearer %b\r\n"
    % signing_key().mint(claims_of(sub=name, iat=NOW_S, exp=NOW_S + 60))
    for name in ("till", "reader", "other")
}


def shown(name: str) -> bytes:
    """The header line with a token of *name*."""
    return LINES[name]


def remembered(request: bytes = HEAD) -> Shown:
    """What is known after *request*."""
    found = Shown()
    found.remember(request, VALUE)
    return found


def learned(request: bytes) -> PlainRequests:
    """A reader that knows the lines and the shape of *request*, without what it shows."""
    plain = PlainRequests()
    for _ in range(4):
        plain.read(request, ADDRESSES, 100)
    return plain


def test_the_line_is_taken_out_where_it_was():
    """Other lines may change, while the place stays."""
    known = remembered()
    plain = learned(HEAD.replace(LINE, b""))
    other = HEAD.replace(b"ce-id: 1", b"ce-id: longer")
    for request in (HEAD, other):
        found = plain.read(request + b"{}", ADDRESSES, 100, known.line, known.at)
        assert found is not None
        without = plain.read(request.replace(LINE, b"") + b"{}", ADDRESSES, 100)
        assert found == (*without[:-1], TAKEN_OUT)


@pytest.mark.parametrize(
    "request_",
    [
        HEAD.replace(TOKEN, TOKEN[:-1] + b"u"),
        HEAD.replace(TOKEN, TOKEN + b"t"),
        HEAD.replace(TOKEN, TOKEN + b" "),
        HEAD.replace(b"Authorization", b"authorization"),
        HEAD.replace(b"Authorization", b"Cookie-------"),
        HEAD.replace(b"host: a", b"host: aa"),
        HEAD.replace(b"host: a\r\n", b"h:\r\n\r\n" + b"x" * 3),
        HEAD.replace(b"host: a\r\n", b"host:a\r\n\r\n"),
        HEAD.replace(b"host: a", b"\r\n\r\na: b"),
        HEAD.replace(LINE, LINE + LINE),
        HEAD.replace(LINE, LINE + b"authorization:\r\n"),
        HEAD[:40],
        b"",
    ],
)
def test_another_line_or_place_is_left_to_the_parser(request_):
    """Also the same bytes in a body, behind the end of the head."""
    known = remembered()
    plain = learned(HEAD.replace(LINE, b""))
    assert plain.read(request_ + b"{}", ADDRESSES, 100, known.line, known.at) is None


@pytest.mark.parametrize(
    "request_",
    [
        HEAD.replace(b"Authorization:", b"x-authorization:"),
        HEAD.replace(TOKEN + b"\r\n", TOKEN + b" \r\n"),
        HEAD.replace(b"Authorization: ", b"Auth: "),
        b"POST /" + VALUE + b" HTTP/1.1\r\nAuthorization: " + VALUE + b"\r\n\r\n",
    ],
)
def test_a_line_that_is_not_clear_is_not_remembered(request_):
    """The value stands elsewhere first, or a blank is behind it."""
    assert remembered(request_).line == b""


def test_a_connection_whose_lines_move_is_let_alone():
    """To look for the place each time would cost more than it saves."""
    known = remembered()
    moved = HEAD.replace(b"host: a", b"host: aa")
    for number in range(MISSES_MAX):
        assert known.line
        known.remember((moved, HEAD)[number % 2], VALUE)
    assert not known.line
    known.remember(HEAD, VALUE)
    assert not known.line


def test_the_gate_is_asked_again_only_where_it_has_forgotten():
    """An answer holds for one line, one address, and one generation of the gate."""
    gate = Gate(lambda: NOW_S * 1000)
    gate.replace(AccessSnapshot(required=True))
    known, credentials = remembered(), Credentials(VALUE)
    assert known.ask(gate, "", TAKEN_OUT, None) is None
    gate.admit(credentials, "", LOCAL)
    assert known.ask(gate, "", TAKEN_OUT, None) is known.sender is LOCAL
    assert (known.address, known.generation) == ("", gate.generation)
    assert known.ask(gate, "", b"Bearer another", None) is None
    assert known.ask(gate, "", None, None) is None
    assert known.sender is LOCAL
    assert known.ask(gate, "shop", TAKEN_OUT, None) is known.sender is None
    gate.replace(AccessSnapshot(required=True))
    assert known.generation != gate.generation


def _changed(rng: random.Random, request: bytes) -> bytes:
    """*request* with one to three changes, most of them around the credential."""
    for _ in range(rng.randint(1, 3)):
        line_at = request.find(b"authorization")
        near = line_at >= 0 and rng.random() < 0.7
        at = line_at + rng.randint(-6, 40) if near else rng.randrange(len(request))
        at = min(max(at, 0), len(request) - 1)
        kind = rng.randrange(6)
        if kind == 0:
            put = rng.choice((b"\r\n", b"\r\n\r\n", b" ", b":", b"\x00", b"x", shown("till")))
            request = request[:at] + put + request[at:]
        elif kind == 1:
            request = request[:at] + request[at + rng.randint(1, 4) :]
        elif kind == 2:
            request = request.replace(shown("till"), shown(rng.choice(("reader", "other"))), 1)
        elif kind == 3:
            request = request.replace(shown("till"), b"", 1) + shown("till")
        elif kind == 4:
            request = request.replace(b"\r\n\r\n", b"\r\n" + shown("till") + b"\r\n", 1)
        else:
            request = request[:at] + rng.randbytes(1) + request[at + 1 :]
    return request


@pytest.mark.slow
def test_whatever_follows_means_what_the_parser_says(connect):
    """On a connection that repeats its credential, and on one that sends the same in two pieces."""
    rng = random.Random(14)
    first = connect()
    first.context.gate.replace(SNAPSHOT)
    own = event(more=shown("till"))
    accepted = 0
    for _ in range(1_500):
        request = _changed(rng, own)
        meanings = []
        for pieces in ((request,), (request[:1], request[1:])):
            first.appends.received.clear()
            first.context.plain.renew()
            client = connect(appends=first.appends, context=first.context)
            for _ in range(3):
                assert client.statuses(own) == [202]
            answers = client.send(*pieces)
            meaning = [(each.status, sorted(each.fields.items()), each.body) for each in answers]
            meanings.append((meaning, list(first.appends.received), client.ended))
            client.transport.close()
        assert meanings[0] == meanings[1], request
        accepted += len(meanings[0][1]) > 3
    assert accepted > 50


def test_what_is_taken_out_is_still_looked_up(connect):
    """A token that is refused counts no longer on a connection that repeats it."""
    client = connect()
    client.context.gate.replace(SNAPSHOT)
    for _ in range(5):
        assert client.statuses(event(more=shown("till"))) == [202]
    client.context.gate.replace(AccessSnapshot(required=True))
    assert client.statuses(event(more=shown("till"))) == [401]


def test_a_second_credential_is_refused_as_ever(connect):
    """Also an empty one, which the plain form could take for none."""
    client = connect()
    client.context.gate.replace(SNAPSHOT)
    for more in (b"authorization:\r\n", b"Authorization: x\r\n", shown("reader")):
        for _ in range(4):
            assert client.statuses(event(more=shown("till"))) == [202]
        both = connect(appends=client.appends, context=client.context)
        for _ in range(4):
            assert both.statuses(event(more=shown("till"))) == [202]
        assert both.statuses(event(more=shown("till") + more)) == [400]
