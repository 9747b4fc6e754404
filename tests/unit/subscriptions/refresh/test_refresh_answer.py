"""Whatever a token endpoint answers: a token that can be used, or a reason that tells nothing."""

import json

import pytest

from distributary.subscriptions.refresh._answer import (
    LIFETIME_S_DEFAULT,
    LIFETIME_S_MAX,
    Refused,
    Token,
    TokenReply,
    read_answer,
)

GOOD = {"access_token": "new", "token_type": "bearer", "expires_in": 60}


def answer(status: int = 200, **members: object) -> Token | Refused:
    """What the answer with these members comes to."""
    return read_answer(TokenReply(status, json.dumps(GOOD | members).encode()))


def test_a_good_answer_is_a_token():
    """RFC 6749, section 5.1."""
    assert answer() == Token("new", 60.0, None)
    assert answer(refresh_token="rotated") == Token("new", 60.0, "rotated")


@pytest.mark.parametrize(
    ("expires_in", "lifetime_s"),
    [("3600", 3600.0), (0.5, 0.5), (10**12, LIFETIME_S_MAX), (1e300, LIFETIME_S_MAX)],
)
def test_a_lifetime_is_read_as_endpoints_write_it(expires_in, lifetime_s):
    """Text too; and never longer than we trust it."""
    assert answer(expires_in=expires_in) == Token("new", lifetime_s, None)


def test_an_answer_without_a_lifetime_gets_the_usual_one():
    """RFC 6749 only recommends to say it."""
    reply = TokenReply(200, b'{"access_token": "new"}')
    assert read_answer(reply) == Token("new", LIFETIME_S_DEFAULT, None)


@pytest.mark.parametrize(
    "members",
    [
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": True},
        {"expires_in": None},
        {"expires_in": "soon"},
        {"expires_in": "1" * 400},
        {"expires_in": [60]},
        {"access_token": ""},
        {"access_token": None},
        {"access_token": 5},
        {"access_token": "canary\r\nx: y"},
        {"access_token": "c" * 9000},
        {"refresh_token": 5},
        {"refresh_token": ""},
        {"refresh_token": "canary\n"},
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_used_is_refused(members):
    """The last good token stays."""
    refused = answer(**members)
    assert isinstance(refused, Refused)
    assert "canary" not in refused.reason
    assert not refused.for_good


@pytest.mark.parametrize(
    "body", [b"", b"canary", b"[]", b"null", b'{"access_token":', b"\xff", b"[" * 60_000, b"1e999"]
)
@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_that_is_no_object_is_refused(status, body):
    """Any bytes; and nothing of them is repeated."""
    refused = read_answer(TokenReply(status, body))
    assert isinstance(refused, Refused)
    assert "canary" not in refused.reason


@pytest.mark.parametrize(
    ("status", "error", "for_good"),
    [
        (400, "invalid_grant", True),
        (400, "invalid_client", False),
        (401, "invalid_grant", False),
        (500, "invalid_grant", False),
        (400, "canary", False),
        (302, None, False),
    ],
)
def test_an_error_is_told_by_its_code_where_that_is_known(status, error, for_good):
    """What else the endpoint says may hold the refresh token."""
    refused = answer(status, error=error, error_description="canary")
    assert isinstance(refused, Refused)
    assert refused.for_good is for_good
    assert str(status) in refused.reason
    assert "canary" not in refused.reason


def test_neither_an_answer_nor_its_token_is_printed():
    """They stand in the results of tasks, which a loop prints when it complains."""
    reply = TokenReply(200, b'{"access_token":"canary","refresh_token":"canary-too"}')
    assert "canary" not in repr((reply, read_answer(reply)))
