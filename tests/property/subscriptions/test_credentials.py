"""Any JSON as a credential gives a credential that can be sent, or faults without its secrets."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.deliver.credential import CREDENTIAL_TYPES, Credential
from distributary.core.errors import ResourceError, StoreError
from distributary.protocols.http.sink._authorization import authorization
from distributary.resource import SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import CREDENTIAL_SHAPE
from distributary.subscriptions.service import rules
from distributary.subscriptions.store import Keys, Sealer

RULES = rules(SinkRule(local_allowed=True))
CANARY = "canary-7f3a"

NAMES = sorted({name for shape in CREDENTIAL_SHAPE.values() for name in shape})
texts = st.text(max_size=20) | st.just("Bearer") | st.just("2030-01-01T00:00:00Z")
secrets = st.text(max_size=20).map(lambda text: CANARY + text)
values = st.one_of(
    texts, secrets, st.none(), st.booleans(), st.integers(), st.lists(texts, max_size=2),
    st.just("https://example.com/token"),
)  # fmt: skip
spelled = st.sampled_from(NAMES + [name.lower() for name in NAMES])
types = st.sampled_from([*CREDENTIAL_TYPES, "plain", ""])
wild = st.builds(
    lambda members, type_: {**members, "credentialType": type_},
    st.dictionaries(spelled, values, max_size=7),
    types,
)
printable = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
tokens = {
    "credentialType": st.just("REFRESHTOKEN"),
    "accessToken": printable,
    "accessTokenType": st.sampled_from(["Bearer", "bearer", "DPoP"]),
    "accessTokenExpiresUtc": st.times().map(lambda time: f"2126-01-31T{time.isoformat()}Z"),
    "refreshToken": printable,
    "refreshTokenEndpoint": st.just("https://example.com/token"),
}
plain = {
    "credentialType": st.just("PLAIN"),
    "identifier": st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters=":"),
        min_size=1,
        max_size=40,
    ),
    "secret": st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=40
    ),
}
good = st.fixed_dictionaries(tokens) | st.fixed_dictionaries(plain)


def parse(credential: object) -> api_subscription.ApiSubscriptionSpec:
    """The spec with this credential."""
    body = {"sink": "https://e.com/", "protocol": "HTTP", "sinkCredential": credential}
    return api_subscription.parse(body, RULES)


def parsed(credential: object) -> api_subscription.ApiSubscriptionSpec | ResourceError:
    """What comes of *credential*; any other exception fails the test."""
    try:
        return parse(credential)
    except ResourceError as error:
        return error


@given(wild)
@settings(max_examples=200)
@pytest.mark.slow
def test_anything_gives_what_can_be_sent_or_faults(credential):
    """And no fault repeats a value."""
    outcome = parsed(credential)
    if isinstance(outcome, ResourceError):
        assert CANARY not in str(outcome)
        assert all(fault.path.startswith("$.sinkCredential") for fault in outcome.faults)
    else:
        assert outcome.credential is not None
        value = authorization(outcome.credential)
        assert b"\r" not in value
        assert b"\n" not in value


@given(good)
@settings(max_examples=150)
@pytest.mark.slow
def test_a_good_credential_is_taken_whole_and_shown_in_part(credential):
    """What is shown is what was written, without its secrets."""
    spec = parse(credential)
    hidden = {"secret", "accessToken", "refreshToken"}
    shown = spec.to_json()["sinkCredential"]
    assert shown == {name: value for name, value in credential.items() if name not in hidden}
    assert spec.credential is not None
    assert authorization(spec.credential)
    lower = {name.lower(): value for name, value in credential.items()}
    assert parse(lower).credential == spec.credential
    assert json.loads(spec.realized)["sinkCredential"] == shown


words = st.none() | st.text(st.characters(codec="utf-8"), max_size=20)
any_credential = st.builds(
    Credential,
    st.sampled_from(CREDENTIAL_TYPES),
    words, words, words, words,
    st.none() | st.integers(-(2**53), 2**53),
    words, words,
)  # fmt: skip


@given(any_credential, st.text(st.characters(codec="utf-8"), max_size=20), st.binary(max_size=99))
@settings(max_examples=150)
@pytest.mark.slow
def test_what_is_sealed_comes_back_and_nothing_else_does(tmp_path_factory, credential, uid, noise):
    """Whatever stands in it; and no bytes open by chance."""
    sealer = Sealer(Keys(tmp_path_factory.getbasetemp() / "none", "A" * 43 + "="))
    sealed = sealer.seal(uid, credential)
    assert sealer.open(uid, sealed) == credential
    with pytest.raises(StoreError):
        sealer.open(uid, noise)
