"""Sink credentials: both spellings, and what each type needs."""

import pytest

from distributary.core.deliver.credential import Credential
from distributary.subscriptions import resource as api_subscription
from kit.subscription_faults import ACCESS, PLAIN, REFRESH, changed

EXPIRES_MS = 4_925_530_800_000

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


def test_a_complete_replacing_credential_is_complete(replacing):
    """Nothing is kept then."""
    credential = replacing(PLAIN).credential
    assert credential is not None
    assert credential.complete


def test_an_expired_token_is_taken_where_it_can_be_renewed_or_is_only_kept(parse, replacing):
    """The first is renewed at once; the second is what a client has read and sends back."""
    past = "2020-01-01T00:00:00Z"
    assert parse(sinkCredential=changed(REFRESH, accessTokenExpiresUtc=past)).credential
    assert replacing(changed(ACCESS, accessToken=..., accessTokenExpiresUtc=past)).credential
