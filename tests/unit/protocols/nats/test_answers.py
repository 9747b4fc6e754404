"""What a NATS server says, as answers."""

import pytest

from distributary.core.policy import Acknowledgement
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX
from distributary.protocols.nats.sink import _answers

REPLIES = {
    "stored": (b"", b'{"stream":"S","seq":7}', "stored"),
    "with-domain": (b"", b'{"stream":"S","seq":7,"domain":"hub"}', "stored"),
    "duplicate": (b"", b'{"stream":"S","seq":7,"duplicate":true}', "duplicate"),
    "refused": (b"", b'{"error":{"code":400,"err_code":10054},"stream":"S","seq":0}', "10054"),
    "nobody": (b"NATS/1.0 503\r\n\r\n", b"", "no-responders"),
    "other-status": (b"NATS/1.0 408 Timeout\r\n\r\n", b"", "other"),
    "no-stream": (b"", b'{"seq":7}', "no-puback"),
    "no-json": (b"", b"thanks", "no-puback"),
    "nothing": (b"", b"", "no-puback"),
    "not-utf-8": (b"", b'{"stream":"\xff"}', "no-puback"),
    "wrong-types": (b"", b'{"stream":7}', "no-puback"),
    "a-list": (b"", b"[]", "no-puback"),
    "with-headers": (b"NATS/1.0\r\na: b\r\n\r\n", b'{"stream":"S","seq":7}', "stored"),
}


@pytest.mark.parametrize(("headers", "payload", "code"), REPLIES.values(), ids=REPLIES)
def test_only_the_acknowledgement_of_a_stream_is_one(headers, payload, code):
    """Whoever else answers has not stored anything."""
    assert _answers.of_reply(headers, payload).code == code


LOOK_UPS = {
    "one": (b"", b'{"streams":["S"]}', ["S"]),
    "none": (b"", b'{"streams":null,"total":0}', []),
    "no-jetstream": (b"NATS/1.0 503\r\n\r\n", b"", []),
    "not-enabled": (b"", b'{"error":{"err_code":10039}}', []),
}


@pytest.mark.parametrize(("headers", "payload", "streams"), LOOK_UPS.values(), ids=LOOK_UPS)
def test_who_holds_a_subject_is_read_from_the_answer(headers, payload, streams):
    """Without JetStream nobody does."""
    assert _answers.of_look_up(headers, payload) == streams


@pytest.mark.parametrize(
    ("headers", "payload", "code"),
    [
        (b"NATS/1.0 409 x\r\n\r\n", b"", "other"),
        (b"", b'{"error":{"err_code":10008,"description":"unavailable"}}', "10008"),
        (b"", b"no", "other"),
    ],
)
def test_a_look_up_that_fails_says_why(headers, payload, code):
    """It is not the same as a no."""
    found = _answers.of_look_up(headers, payload)
    assert isinstance(found, Acknowledgement)
    assert found.code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("'Authorization Violation'", "authorization-violation"),
        ("nats: maximum connections exceeded", "maximum-connections-exceeded"),
        (
            "'Permissions Violation for Publish to \"a.b\"'",
            "permissions-violation-for-publish",
        ),
        (
            'permissions violation for publish with reply of "_inbox.x.1"',
            "permissions-violation-for-publish",
        ),
        (
            'permissions violation for subscription to "_inbox.x.*" using queue "q"',
            "permissions-violation-for-subscription",
        ),
        ("''", "other"),
    ],
)
def test_the_words_of_an_error_are_its_code(text, code):
    """With whatever subject is named in them."""
    assert _answers.of_error(text).code == code


def test_long_words_are_cut():
    """A server may say as much as it likes."""
    answer = _answers.of_error("x" * 5000)
    assert len(answer.code) <= 64
    assert len(answer.text) <= TEXT_CHARS_MAX


def test_the_subject_that_was_denied_is_found():
    """Whatever stands before and behind it."""
    text = 'nats: permissions violation for publish to "orders.x"'
    assert _answers.denied_subject(text) == "orders.x"
    assert not _answers.denied_subject("nats: slow consumer")
