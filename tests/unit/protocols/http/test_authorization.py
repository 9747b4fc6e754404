"""Credentials as HTTP carries them, and what a sink may not hand on of them."""

import base64

import pytest

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.protocols.http.settings import HttpSettings
from distributary.protocols.http.sink._authorization import authorization, masked, secrets_of

URI = "http://sink.example/"
TOKEN = Credential("ACCESSTOKEN", access_token="abc.def", access_token_type="bearer")


def test_an_account_is_basic():
    """RFC 7617, in UTF-8."""
    credential = Credential("PLAIN", identifier="mé", secret="a:b")
    assert authorization(credential) == b"Basic " + base64.b64encode("mé:a:b".encode())


@pytest.mark.parametrize("kind", ["ACCESSTOKEN", "REFRESHTOKEN"])
@pytest.mark.parametrize("spelled", ["bearer", "Bearer", "BEARER"])
def test_a_bearer_token_is_sent_as_the_registered_scheme(kind, spelled):
    """Token endpoints give ``bearer``, and some sinks compare the case of the scheme."""
    credential = Credential(kind, access_token="abc.def", access_token_type=spelled)
    assert authorization(credential) == b"Bearer abc.def"


def test_another_token_is_sent_with_its_type_as_it_is_spelled():
    """Nobody but the subscriber knows what its sink takes."""
    credential = Credential("ACCESSTOKEN", access_token="abc", access_token_type="gNAP")
    assert authorization(credential) == b"gNAP abc"


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
    assert masked(body, secrets_of(Destination(URI, credential=TOKEN))) == kept


def test_an_account_is_masked_in_both_forms():
    """The password, and what Basic makes of it."""
    credential = Credential("PLAIN", identifier="me", secret="hunter22")
    encoded = base64.b64encode(b"me:hunter22")
    body = b"password hunter22 of Basic " + encoded
    assert (
        masked(body, secrets_of(Destination(URI, credential=credential)))
        == b"password *** of Basic ***"
    )


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"no such page: /in?access_token=canary-q&v=1", b"no such page: /in?***"),
        (b'{"access_token": "canary-q"}', b'{"access_token": "***"}'),
        (b"v=1 is fine", b"v=1 is fine"),
        (b"key canary%21key or canary!key", b"key *** or ***"),
        (b"cookie: a=canary-cookie; b", b"cookie: ***; b"),
        (b"x-plain: in the open", b"x-plain: in the open"),
    ],
)
def test_an_answer_is_kept_without_headers_and_queries_that_hold_secrets(body, kept):
    """Where the keys of many sinks stand; what names no secret stays."""
    destination = Destination(
        URI + "in?access_token=canary-q&v=1",
        settings=HttpSettings(
            headers=(
                ("X-Api-Key", "canary!key"),
                ("Cookie", "a=canary-cookie"),
                ("X-Plain", "in the open"),
            )
        ),
    )
    assert masked(body, secrets_of(destination)) == kept


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
    credential = Credential("PLAIN", identifier="me", secret='p"ä/<w>')
    secrets = secrets_of(Destination(URI, credential=credential))
    assert masked((page % form).encode(), secrets) == (page % "***").encode()
