"""The server side of SASL: whatever a client sends, it is in, out, or cut."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.protocols.amqp.engine import AmqpError, AmqpLogin, ClientLogin
from distributary.protocols.amqp.engine._login import Handshake
from distributary.protocols.amqp.engine._sasl_frames import HEADER, INIT, frame_of
from distributary.protocols.amqp.engine._server_login import FRAME_BYTES_MAX, ServerHandshake
from distributary.protocols.amqp.engine._values import Symbol

SECRET = "a-key"


class Known:
    """Accepts one secret."""

    mechanisms = ("OAUTHBEARER", "PLAIN")

    def accept(self, login: ClientLogin) -> bool:
        return login.secret == SECRET


def talk(login: AmqpLogin, size: int = 1 << 20) -> tuple[Handshake, ServerHandshake]:
    """Both ends, with pieces of *size* bytes between them, until neither says more."""
    client, server = Handshake(login, "host"), ServerHandshake(Known())
    to_server, to_client = HEADER, b""
    while to_server or to_client:
        piece, to_server = to_server[:size], to_server[size:]
        if piece:
            to_client += server.take(piece)[0]
        piece, to_client = to_client[:size], to_client[size:]
        if piece:
            to_server += client.take(piece)[0]
    return client, server


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize("login", [AmqpLogin("me", password=SECRET), AmqpLogin(token=SECRET)])
def test_our_own_client_logs_in(login, size):
    """In pieces of any size."""
    client, server = talk(login, size)
    assert client.done
    assert server.done


def test_what_follows_belongs_to_amqp():
    """Clients send it without waiting."""
    server = ServerHandshake(Known())
    init = frame_of(INIT, [Symbol("PLAIN"), f"\0me\0{SECRET}".encode()])
    _, rest = server.take(HEADER + init + b"AMQP\x00\x01\x00\x00more")
    assert rest == b"AMQP\x00\x01\x00\x00more"


RESPONSES = {
    "PLAIN": [b"", b"a-key", b"\0a-key", b"other\0me\0a-key", b"\0me\0a-key\0", b"\xff\0me\0a-key"],
    "OAUTHBEARER": [
        b"",
        b"n,,\x01auth=Basic a-key\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b",
    ],
    "EXTERNAL": [b"", b"root"],
    "ANONYMOUS": [b"", b"a-key"],
    "SCRAM-SHA-256": [b"n,,n=a-key"],
}


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [(name, response) for name, each in RESPONSES.items() for response in each],
)
def test_what_shows_nothing_is_refused(mechanism, response):
    """With an outcome, and nothing is let through."""
    server = ServerHandshake(Known())
    answer, rest = server.take(HEADER + frame_of(INIT, [Symbol(mechanism), response]) + b"AMQP")
    assert rest == b""
    assert not server.done
    if not server.refused:
        # The challenge of a token's refusal; whatever comes then ends it.
        answer, _ = ServerHandshake(Known()).take(HEADER)
        assert answer


@pytest.mark.parametrize(
    "raw",
    [
        HEADER + struct.pack(">IBBH", FRAME_BYTES_MAX + 1, 2, 1, 0),
        HEADER + struct.pack(">IBBH", 8, 2, 0, 0),
        HEADER + struct.pack(">IBBH", 8, 1, 1, 0),
        HEADER + struct.pack(">IBBH", 8, 2, 1, 0),
        HEADER + frame_of(0x44, [0]),
        HEADER + frame_of(0x43, [b""]),
    ],
)
def test_what_is_no_login_is_an_error(raw):
    """One known error."""
    with pytest.raises(AmqpError):
        ServerHandshake(Known()).take(raw)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_one_error(raw):
    """After the header, and instead of it."""
    for begin in (b"", HEADER):
        server = ServerHandshake(Known())
        try:
            server.take(begin + raw)
        except AmqpError:
            continue
        assert not server.done


def test_mutated_logins_let_nobody_in():
    """Ten thousand of them, from a seed."""
    chance = random.Random(5)
    sound = frame_of(INIT, [Symbol("PLAIN"), b"\0me\0a-key"])
    at_key = sound.index(SECRET.encode())
    for _ in range(10_000):
        at = chance.randrange(at_key, len(sound))
        mutated = bytearray(sound)
        mutated[at] ^= 1 << chance.randrange(8)
        server = ServerHandshake(Known())
        server.take(HEADER + bytes(mutated))
        assert not server.done
