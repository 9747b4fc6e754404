"""Subscriptions API 3.2.3: what authorizes deliveries at the sink."""

import asyncio

import pytest

from distributary.core.deliver import Destination
from distributary.core.deliver import endpoint as _endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.protocol import schemes
from distributary.protocols.http.sink import HttpTransport
from distributary.testing.virtual import VirtualClock

CREDENTIALS = {
    "PLAIN": {"credentialType": "PLAIN", "identifier": "account", "secret": "canary-secret"},
    "ACCESSTOKEN": {
        "credentialType": "ACCESSTOKEN",
        "accessToken": "canary-access",
        "accessTokenExpiresUtc": "2999-01-01T00:00:00Z",
        "accessTokenType": "Bearer",
    },
    "REFRESHTOKEN": {
        "credentialType": "REFRESHTOKEN",
        "accessToken": "canary-access",
        "accessTokenExpiresUtc": "2999-01-01T00:00:00Z",
        "accessTokenType": "Bearer",
        "refreshToken": "canary-refresh",
        "refreshTokenEndpoint": "https://login.example.com/token",
    },
}
SECRETS = ("secret", "accessToken", "refreshToken")


def without(credential: dict[str, str], *names: str) -> dict[str, str]:
    """*credential* without these members."""
    return {name: value for name, value in credential.items() if name not in names}


@pytest.mark.clause("subscriptions-api.credential.not-returned")
@pytest.mark.clause("subscriptions-api.credential.write-only")
@pytest.mark.clause("subscriptions-api.credential.secret.returned")
@pytest.mark.clause("subscriptions-api.credential.token.returned")
@pytest.mark.parametrize("spelling", ["camelCase", "lower case"])
@pytest.mark.parametrize("type_", CREDENTIALS)
def test_secrets_are_taken_and_never_returned(sut, type_, spelling):
    """Not by Create, Update, Retrieve, Query or Delete; what is no secret comes back."""
    credential = CREDENTIALS[type_]
    member, sent = "sinkCredential", credential
    if spelling == "lower case":
        member = "sinkcredential"
        sent = {name.lower(): value for name, value in credential.items()}
    answers = [sut.create(**{member: sent}), sut.put("mine", **{member: sent})]
    answers += [
        sut.put("mine", **{member: sent}),
        sut.ask("GET", "/subscriptions/mine"),
        sut.ask("GET", "/subscriptions"),
        sut.ask("DELETE", "/subscriptions/mine"),
    ]
    for answer in answers:
        assert answer.status in (200, 201), answer.body
        assert b"canary" not in answer.body
        found = answer.json()[-1] if isinstance(answer.json(), list) else answer.json()
        assert found["sinkCredential"] == without(credential, *SECRETS)


@pytest.mark.clause("subscriptions-api.credential.type")
@pytest.mark.parametrize("type_", [..., None, "", "plain", "BASIC", 7], ids=repr)
def test_a_credential_has_one_of_the_three_types(sut, type_):
    """No other; the secret is not repeated in the refusal."""
    credential = without(CREDENTIALS["PLAIN"], "credentialType")
    if type_ is not ...:
        credential["credentialType"] = type_
    answer = sut.create(sinkCredential=credential)
    assert "$.sinkCredential.credentialType" in sut.faults(answer)
    assert b"canary" not in answer.body


@pytest.mark.clause("subscriptions-api.credential.identifier")
@pytest.mark.clause("subscriptions-api.credential.secret")
@pytest.mark.parametrize("name", ["identifier", "secret"])
def test_plain_has_an_identifier_and_a_secret(sut, name):
    """Both, and neither empty."""
    path = f"$.sinkCredential.{name}"
    plain = CREDENTIALS["PLAIN"]
    assert sut.faults(sut.create(sinkCredential=without(plain, name))) == {path: "missing"}
    assert list(sut.faults(sut.create(sinkCredential=plain | {name: ""}))) == [path]


@pytest.mark.clause("subscriptions-api.credential.token")
@pytest.mark.clause("subscriptions-api.credential.expires")
@pytest.mark.clause("subscriptions-api.credential.token-type")
@pytest.mark.parametrize("name", ["accessToken", "accessTokenExpiresUtc", "accessTokenType"])
@pytest.mark.parametrize("type_", ["ACCESSTOKEN", "REFRESHTOKEN"])
def test_tokens_have_a_value_a_type_and_an_end(sut, type_, name):
    """Each of the three, for both types."""
    path = f"$.sinkCredential.{name}"
    whole = CREDENTIALS[type_]
    assert sut.faults(sut.create(sinkCredential=without(whole, name))) == {path: "missing"}
    assert list(sut.faults(sut.create(sinkCredential=whole | {name: 7}))) == [path]


@pytest.mark.clause("subscriptions-api.credential.refresh-token")
def test_a_refresh_credential_has_its_refresh_token(sut):
    """An access token alone is another type."""
    credential = without(CREDENTIALS["REFRESHTOKEN"], "refreshToken")
    path = "$.sinkCredential.refreshToken"
    assert sut.faults(sut.create(sinkCredential=credential)) == {path: "missing"}


def test_all_that_is_missing_is_named_at_once(sut):
    """One answer is enough to mend it."""
    faults = sut.faults(sut.create(sinkCredential={"credentialType": "ACCESSTOKEN"}))
    names = ("accessToken", "accessTokenExpiresUtc", "accessTokenType")
    assert faults == {f"$.sinkCredential.{name}": "missing" for name in names}


def test_a_put_that_repeats_type_and_identifier_keeps_the_stored_secret(sut):
    """Secrets cannot be read, so a client must not have to write them again (decision 10)."""
    plain = CREDENTIALS["PLAIN"]
    sut.put("mine", sinkCredential=plain)
    kept = sut.put("mine", source="/s", sinkCredential=without(plain, "secret"))
    assert (kept.status, kept.json()["source"]) == (200, "/s")
    other = without(plain, "secret") | {"identifier": "other"}
    refused = sut.put("mine", sinkCredential=other)
    assert sut.faults(refused) == {"$.sinkCredential.secret": "missing"}


class Dials:
    """Counts what would leave this machine, and lets nothing out."""

    count = 0

    def endpoint_of(self, destination):
        """As the real one."""
        return _endpoint.parse(destination.uri, schemes())

    async def open(self, _endpoint, _make):
        """Refuse."""
        self.count += 1
        raise TransportError("refused", "nobody listens")


@pytest.mark.clause("subscriptions-api.credential.expired")
@pytest.mark.parametrize("type_", ["ACCESSTOKEN", "REFRESHTOKEN"])
def test_from_the_instant_that_a_token_expires_no_request_leaves(type_):
    """One millisecond before it is good; then every attempt fails without one, to be retried."""
    clock, dials = VirtualClock(), Dials()
    expires_ms = clock.wall_ms() + 60_000
    credential = Credential(
        type_,
        access_token="canary",
        access_token_type="Bearer",
        access_token_expires_ms=expires_ms,
        refresh_token="canary",
        refresh_token_endpoint="https://login.example.com/token",
    )
    destination = Destination("https://sink.example.com/", credential=credential)
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"")

    async def attempts():
        loop = asyncio.get_running_loop()
        transport = HttpTransport(dials, clock, loop)
        found = []
        for jump_ms in (59_999, 1, 1_000_000, -2_000_000):
            clock.jump(jump_ms)
            answer = loop.create_future()
            transport.send(event, destination, 5.0, answer.set_result)
            error = await answer
            found.append((error.reason, error.retryable, dials.count))
        await transport.close()
        return found

    expired = ("credential-expired", True, 1)
    assert asyncio.run(attempts()) == [("refused", True, 1), expired, expired, ("refused", True, 2)]
