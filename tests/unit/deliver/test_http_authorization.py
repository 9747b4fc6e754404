"""Credentials as HTTP carries them, and what a sink may not hand on of them."""

import base64

import pytest

from distributary.deliver import Admission, BreakerState, Destination
from distributary.deliver.transports.http._authorization import authorization, masked, secrets_of
from distributary.errors import TransportError
from distributary.policy import Reply
from distributary.resource import Credential
from distributary.testing.scripted_transport import Step

URI = "http://sink.example/"
TOKEN = Credential("ACCESSTOKEN", access_token="abc.def", access_token_type="bearer")


def test_an_account_is_basic():
    """RFC 7617, in UTF-8."""
    credential = Credential("PLAIN", identifier="mé", secret="a:b")
    assert authorization(credential) == b"Basic " + base64.b64encode("mé:a:b".encode())


@pytest.mark.parametrize("kind", ["ACCESSTOKEN", "REFRESHTOKEN"])
def test_a_token_is_sent_with_its_type_as_it_is_spelled(kind):
    """Some sinks compare its case."""
    credential = Credential(kind, access_token="abc.def", access_token_type="bearer")
    assert authorization(credential) == b"bearer abc.def"


@pytest.mark.parametrize(
    "credential",
    [
        Credential("ACCESSTOKEN", access_token="a\r\nx: y", access_token_type="Bearer"),
        Credential("ACCESSTOKEN", access_token="a", access_token_type="Bearer x"),
        Credential("ACCESSTOKEN", access_token_type="Bearer"),
        Credential("ACCESSTOKEN", access_token="a"),
    ],
)
def test_what_cannot_be_a_header_is_never_written(credential):
    """Requests are not to be split, whoever filled the store; the message repeats nothing."""
    with pytest.raises(TransportError, match="cannot be written") as caught:
        authorization(credential)
    assert not caught.value.retryable


def test_no_secret_shows_where_a_destination_is_printed():
    """Nor where its credential is."""
    credential = Credential(
        "REFRESHTOKEN", secret="canary", access_token="canary", refresh_token="canary"
    )
    assert "canary" not in repr(Destination(URI, credential=credential))
    assert "canary" not in repr(credential)


def test_destinations_with_other_credentials_are_others():
    """A transport keeps requests by them."""
    plain, other = Destination(URI), Destination(URI, credential=TOKEN)
    assert plain != other
    assert len({plain, other, Destination(URI, credential=TOKEN)}) == 2


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"you sent bearer abc.def, go", b"you sent bearer ***, go"),
        (b"abc.defabc.def", b"******"),
        (b"cut off at abc.", b"cut off at ***"),
        (b"cut off at abc", b"cut off at abc"),
        (b"nothing of it", b"nothing of it"),
        (b"abc. and more", b"abc. and more"),
        (b"", b""),
    ],
)
def test_an_answer_is_kept_without_the_secret(body, kept):
    """A sink may repeat the request in its error page; dead letters carry that on."""
    assert masked(body, secrets_of(TOKEN)) == kept


def test_an_account_is_masked_in_both_forms():
    """The password, and what Basic makes of it."""
    credential = Credential("PLAIN", identifier="me", secret="hunter22")
    encoded = base64.b64encode(b"me:hunter22")
    body = b"password hunter22 of Basic " + encoded
    assert masked(body, secrets_of(credential)) == b"password *** of Basic ***"


# -- what a lane makes of attempts that were not made -----------------------------------------


@pytest.mark.parametrize("reason", ["credential-expired", "unreadable-settings"])
def test_an_attempt_that_was_not_made_says_nothing_about_the_sink(stage, reason):
    """Other subscriptions have the same sink: its breaker stays closed for them."""
    stage.script = lambda _event, _destination: Step(TransportError(reason, "x"), 0.01)
    for _ in range(30):
        assert stage.offer() == [Admission.ADMITTED]
        stage.advance(0.1)
    assert stage.lane().breaker is BreakerState.CLOSED
    assert {attempt.answer.reason for attempt in stage.attempts} == {reason}


def test_a_probe_that_was_not_made_proves_no_life(stage):
    """The breaker opens again, and the next probe may be made."""
    stage.script = lambda _event, _destination: Step(TransportError("refused", "x"), 0.01)
    stage.offer(10)
    stage.advance(0.2)
    assert stage.lane().breaker is BreakerState.OPEN
    stage.script = lambda _event, _destination: Step(TransportError("credential-expired", ""), 0.01)
    stage.advance(1.0)
    stage.offer()
    stage.advance(0.02)
    assert stage.lane().breaker is BreakerState.OPEN
    stage.script = lambda _event, _destination: Step(Reply(204, None, None, b""), 0.01)
    stage.advance(2.0)
    assert stage.offer() == [Admission.ADMITTED]
    stage.advance(0.1)
    assert stage.lane().breaker is BreakerState.CLOSED


def test_an_unusable_destination_fails_and_may_be_tried_again(stage):
    """The transport is not asked; the reason is told."""
    to = Destination(URI, unusable="the key is lost")
    assert stage.dispatcher.offer(stage.task(), to) is Admission.ADMITTED
    assert stage.attempts == []
    stage.advance(0.1)
    (attempt,) = stage.attempts
    assert attempt.answer.reason == "unreadable-settings"
    assert attempt.answer.retryable
    assert "the key is lost" in str(attempt.answer)
    assert stage.lane().in_flight == 0


@pytest.mark.parametrize(
    ("page", "form"),
    [
        ('{"password":"%s"}', r"p\"\u00e4/<w>"),
        ('{"password":"%s"}', r"p\"ä/<w>"),
        ('{"password":"%s"}', r"p\"\u00e4\/<w>"),
        ("<p>%s</p>", "p&quot;ä/&lt;w&gt;"),
        ("login?password=%s", "p%22%C3%A4%2F%3Cw%3E"),
    ],
    ids=["json", "json-utf8", "json-php", "html", "uri"],
)
def test_a_secret_is_masked_as_error_pages_write_it(page, form):
    """They quote it in ways of their own."""
    secrets = secrets_of(Credential("PLAIN", identifier="me", secret='p"ä/<w>'))
    assert masked((page % form).encode(), secrets) == (page % "***").encode()
