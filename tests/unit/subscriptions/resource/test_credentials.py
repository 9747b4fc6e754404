"""Sink credentials: both spellings, what each type needs, and nothing secret in any fault."""

import pytest

from distributary.core.deliver.credential import Credential
from distributary.core.errors import ResourceError
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import (
    IDENTIFIER_BYTES_MAX,
    SECRET_BYTES_MAX,
    TOKEN_CHARS_MAX,
)

C = "$.sinkCredential"
EXPIRES = "2030-01-31T12:00:00+01:00"
EXPIRES_MS = 1_896_087_600_000

PLAIN = {"credentialType": "PLAIN", "identifier": "me", "secret": "canary"}
ACCESS = {
    "credentialType": "ACCESSTOKEN",
    "accessToken": "canary",
    "accessTokenType": "Bearer",
    "accessTokenExpiresUtc": EXPIRES,
}
REFRESH = {
    **ACCESS,
    "credentialType": "REFRESHTOKEN",
    "refreshToken": "canary-too",
    "refreshTokenEndpoint": "https://example.com/token",
}


def changed(credential, **members):
    """*credential* with some members changed; ``...`` leaves one out."""
    return {name: value for name, value in {**credential, **members}.items() if value is not ...}


GOOD = {
    "PLAIN": (PLAIN, Credential("PLAIN", identifier="me", secret="canary")),
    "ACCESSTOKEN": (
        ACCESS,
        Credential(
            "ACCESSTOKEN",
            access_token="canary",
            access_token_type="Bearer",
            access_token_expires_ms=EXPIRES_MS,
        ),
    ),
    "REFRESHTOKEN": (
        REFRESH,
        Credential(
            "REFRESHTOKEN",
            access_token="canary",
            access_token_type="Bearer",
            access_token_expires_ms=EXPIRES_MS,
            refresh_token="canary-too",
            refresh_token_endpoint="https://example.com/token",
        ),
    ),
}


@pytest.mark.parametrize(("written", "read"), GOOD.values(), ids=GOOD.keys())
@pytest.mark.parametrize("name", ["sinkCredential", "sinkcredential"])
@pytest.mark.parametrize("spell", [str, str.lower], ids=["camelCase", "lower case"])
def test_a_credential_is_read_in_both_spellings(parse, written, read, name, spell):
    """The reference's names, and the later all-lower-case ones (decision 10)."""
    spec = parse(**{name: {spell(member): value for member, value in written.items()}})
    assert spec.credential == read


@pytest.mark.parametrize("written", [PLAIN, ACCESS, REFRESH], ids=lambda c: c["credentialType"])
def test_what_is_shown_holds_no_secret(parse, written):
    """``realized`` has the members that may be returned, in the names of the reference."""
    spec = parse(sinkcredential={name.lower(): value for name, value in written.items()})
    secrets = {"secret", "accessToken", "refreshToken"}
    shown = {name: value for name, value in written.items() if name not in secrets}
    assert spec.to_json()["sinkCredential"] == shown
    assert b"canary" not in spec.realized
    assert "canary" not in repr(spec)


def test_a_refresh_token_without_an_endpoint_is_taken(parse):
    """The text does not require one; then its access token is used until it expires."""
    credential = parse(sinkCredential=changed(REFRESH, refreshTokenEndpoint=...)).credential
    assert credential is not None
    assert not credential.refreshable


@pytest.mark.parametrize(
    "endpoint", ["http://localhost:1/t", "http://127.0.0.1/t", "http://[::1]/t", "HTTPS://e.com/"]
)
def test_a_refresh_token_may_go_to_this_machine_in_the_clear(parse, endpoint):
    """Nobody listens between here and here."""
    read = parse(sinkCredential=changed(REFRESH, refreshTokenEndpoint=endpoint)).credential
    assert read is not None
    assert read.refresh_token_endpoint == endpoint


FAULTY = {
    "no type": (changed(PLAIN, credentialType=...), ("credentialType", "missing")),
    "type in lower case": (changed(PLAIN, credentialType="plain"), ("credentialType", "unknown")),
    "type is no string": (changed(PLAIN, credentialType=1), ("credentialType", "type")),
    "no identifier": (changed(PLAIN, identifier=...), ("identifier", "missing")),
    "no secret": (changed(PLAIN, secret=...), ("secret", "missing")),
    "identifier with a colon": (changed(PLAIN, identifier="a:b"), ("identifier", "value")),
    "identifier with a line end": (changed(PLAIN, identifier="a\r\n"), ("identifier", "value")),
    "identifier is too long": (
        changed(PLAIN, identifier="é" * (IDENTIFIER_BYTES_MAX // 2 + 1)),
        ("identifier", "too-long"),
    ),
    "secret is empty": (changed(PLAIN, secret=""), ("secret", "empty")),
    "secret with NUL": (changed(PLAIN, secret="canary\0"), ("secret", "value")),
    "secret with a surrogate": (changed(PLAIN, secret="canary\ud800"), ("secret", "text")),
    "secret is too long": (
        changed(PLAIN, secret="x" * (SECRET_BYTES_MAX + 1)),
        ("secret", "too-long"),
    ),
    "secret is a number": (changed(PLAIN, secret=1), ("secret", "type")),
    "token of another type": (changed(PLAIN, accessToken="x"), ("accessToken", "not-applicable")),
    "identifier of another type": (
        changed(ACCESS, identifier="me"),
        ("identifier", "not-applicable"),
    ),
    "refresh token of another type": (
        changed(ACCESS, refreshToken="x"),
        ("refreshToken", "not-applicable"),
    ),
    "no access token": (changed(ACCESS, accessToken=...), ("accessToken", "missing")),
    "no token type": (changed(ACCESS, accessTokenType=...), ("accessTokenType", "missing")),
    "no expiry": (
        changed(ACCESS, accessTokenExpiresUtc=...),
        ("accessTokenExpiresUtc", "missing"),
    ),
    "token with a line end": (changed(ACCESS, accessToken="canary\n"), ("accessToken", "value")),
    "token with an accent": (changed(ACCESS, accessToken="canaré"), ("accessToken", "value")),
    "token is too long": (
        changed(ACCESS, accessToken="x" * (TOKEN_CHARS_MAX + 1)),
        ("accessToken", "too-long"),
    ),
    "token type of two words": (
        changed(ACCESS, accessTokenType="Bearer x"),
        ("accessTokenType", "value"),
    ),
    "expiry without an offset": (
        changed(ACCESS, accessTokenExpiresUtc="2030-01-01T00:00:00"),
        ("accessTokenExpiresUtc", "time"),
    ),
    "expiry is a number": (
        changed(ACCESS, accessTokenExpiresUtc=1),
        ("accessTokenExpiresUtc", "type"),
    ),
    "no refresh token": (changed(REFRESH, refreshToken=...), ("refreshToken", "missing")),
    "endpoint without TLS": (
        changed(REFRESH, refreshTokenEndpoint="http://example.com/"),
        ("refreshTokenEndpoint", "uri"),
    ),
    "endpoint that only looks local": (
        changed(REFRESH, refreshTokenEndpoint="http://localhost.example.com/"),
        ("refreshTokenEndpoint", "uri"),
    ),
    "endpoint with user information": (
        changed(REFRESH, refreshTokenEndpoint="https://u:canary@example.com/"),
        ("refreshTokenEndpoint", "uri"),
    ),
    "endpoint that is relative": (
        changed(REFRESH, refreshTokenEndpoint="/token"),
        ("refreshTokenEndpoint", "uri"),
    ),
    "endpoint that hands out credentials of the machine": (
        changed(REFRESH, refreshTokenEndpoint="https://169.254.169.254/"),
        ("refreshTokenEndpoint", "blocked-address"),
    ),
    "unknown member": (changed(PLAIN, secrett="canary"), ("secrett", "unknown")),
    "a member twice": (changed(ACCESS, accesstoken="canary"), ("accesstoken", "conflict")),
}


@pytest.mark.parametrize(("written", "fault"), FAULTY.values(), ids=FAULTY.keys())
def test_one_fault_is_named_alone(parse, written, fault):
    """Where it was made, and without a word of what the client wrote there."""
    with pytest.raises(ResourceError) as caught:
        parse(sinkCredential=written)
    name, code = fault
    assert [(f.path, f.code) for f in caught.value.faults] == [(f"{C}.{name}", code)]
    assert "canary" not in str(caught.value)


def test_every_fault_is_named_at_once(faults_of):
    """Those of the credential and those of the rest."""
    credential = {"credentialtype": "REFRESHTOKEN", "accesstokenexpiresutc": 5, "identifier": "x"}
    assert set(faults_of(sinkcredential=credential, types=[])) == {
        ("$.types", "empty"),
        ("$.sinkcredential.accesstokenexpiresutc", "type"),
        ("$.sinkcredential.accessToken", "missing"),
        ("$.sinkcredential.accessTokenType", "missing"),
        ("$.sinkcredential.refreshToken", "missing"),
        ("$.sinkcredential.identifier", "not-applicable"),
    }


def test_both_names_of_the_member_are_a_conflict(faults_of):
    """Which of them would count nobody could tell."""
    assert faults_of(sinkCredential=PLAIN, sinkcredential=PLAIN) == [
        ("$.sinkcredential", "conflict")
    ]


@pytest.mark.parametrize("name", ["Authorization", "AUTHORIZATION"])
def test_a_custom_authorization_beside_a_credential_is_a_conflict(faults_of, name):
    """A sink reads one of them, and which one nobody could tell."""
    settings = {"headers": {name: "Bearer x", "X-Other": "y"}}
    assert faults_of(sinkCredential=PLAIN, protocolsettings=settings) == [
        (f"$.protocolsettings.headers.{name}", "conflict")
    ]


def test_a_custom_authorization_alone_is_taken(parse):
    """As before there were credentials."""
    settings = {"headers": {"Authorization": "Bearer x"}}
    assert parse(protocolsettings=settings).credential is None


@pytest.fixture
def replacing(rules):
    """Parse what may replace a subscription."""

    def call(credential):
        body = {"sink": "https://example.com/", "protocol": "HTTP", "sinkCredential": credential}
        return api_subscription.parse(body, rules, secrets_kept=True)

    return call


@pytest.mark.parametrize(
    "written",
    [
        {"credentialType": "PLAIN", "identifier": "me"},
        {"credentialType": "ACCESSTOKEN"},
        {"credentialType": "REFRESHTOKEN"},
        changed(REFRESH, accessToken=..., refreshToken=...),
    ],
)
def test_a_replacing_credential_may_leave_its_secrets_out(replacing, written):
    """Whether there are any to keep is the store's to know."""
    credential = replacing(written).credential
    assert credential is not None
    assert not credential.complete


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ({"credentialType": "PLAIN"}, "identifier"),
        (changed(REFRESH, refreshToken=...), "refreshToken"),
        (changed(REFRESH, accessToken=...), "accessToken"),
    ],
)
def test_secrets_are_left_out_all_together_or_not_at_all(replacing, written, name):
    """Half of a credential would be half of another one; and whose secret it is must be said."""
    with pytest.raises(ResourceError) as caught:
        replacing(written)
    assert [(f.path, f.code) for f in caught.value.faults] == [(f"{C}.{name}", "missing")]


def test_a_complete_replacing_credential_is_complete(replacing):
    """Nothing is kept then."""
    credential = replacing(PLAIN).credential
    assert credential is not None
    assert credential.complete


@pytest.mark.parametrize("settings", ["x", None, [], {"headers": "x"}])
def test_settings_that_are_none_are_their_own_fault(faults_of, settings):
    """A credential beside them hides nothing."""
    found = faults_of(sinkCredential=PLAIN, protocol=..., protocolsettings=settings)
    assert ("$.protocol", "missing") in found


@pytest.mark.parametrize("written", [ACCESS, changed(REFRESH, refreshTokenEndpoint=...)])
def test_a_new_token_that_has_expired_for_good_is_refused(faults_of, written):
    """It would be stored, and silently deliver nothing."""
    stale = changed(written, accessTokenExpiresUtc="2020-01-01T00:00:00Z")
    assert faults_of(sinkCredential=stale) == [(f"{C}.accessTokenExpiresUtc", "value")]


def test_an_expired_token_is_taken_where_it_can_be_renewed_or_is_only_kept(parse, replacing):
    """The first is renewed at once; the second is what a client has read and sends back."""
    past = "2020-01-01T00:00:00Z"
    assert parse(sinkCredential=changed(REFRESH, accessTokenExpiresUtc=past)).credential
    assert replacing(changed(ACCESS, accessToken=..., accessTokenExpiresUtc=past)).credential
