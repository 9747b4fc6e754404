"""What is published refuses what the checker refuses, though a validator reads it in its own way.

The checker walks the schemas that are published: types, bounds and settings cannot differ. These
tests hold what stands beside them: patterns of two dialects, sinks, credentials, filters, and what
members ask of one another.
"""

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distributary.core.errors import ResourceError
from distributary.resource import SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from kit.published_schemas import validator
from kit.subscription_faults import BEYOND, CERTIFICATE, place_of

# Whatever is installed here: AMQP is judged in any case.
RULES = dataclasses.replace(rules(SinkRule(local_allowed=True)), protocols_absent={})

PROPOSALS = (Path(__file__).parent / "good_proposals.json").read_text("utf-8")
"""Good ones of every protocol, and of every revision."""

VALIDATORS = {
    False: validator("SubscriptionProposal"),
    True: validator("SubscriptionReplacement"),
}
REALIZED = validator("Subscription")

words = st.text("abz09.-_/:% \t\n$é\x00\U0010ffff{", max_size=8)
uris = st.sampled_from(
    [
        "https://example.com/event-processor",
        "http://127.0.0.1:9000/a?b=c",
        "HTTP://[::1]:80/",
        "http://[2606:4700::1.2.3.4]",
        "http://a_b.0x1g.com.:00080",
        "http://xn--p1ai/%41",
        "http://10.0.0.1",
        "http://localhost?x",
        # and what is none
        "http://",
        "http:///x",
        "http://127.1",
        "http://0x7f.1/",
        "http://1.2.3.256",
        "http://[1::2::3]",
        "http://[::1%eth0]/",
        "http://u:p@h/",
        "http://h/#f",
        "http://h:0",
        "http://h:65536",
        "http://h:/",
        "http://-h",
        "http://h/%4",
        "http://h/\n",
        "http://ü.de/",
        "http://169.254.169.254/",
        "ftp://h/",
        "h",
        "",
    ]
)
broker_uris = st.sampled_from(
    [
        *("mqtt://h", "MQTTS://h:1883/", "wss://h/mqtt?a=b", "ws://h"),
        *("amqp://h", "amqps://[::1]:5671/a%20b", "amqp://h//exchange/x", "amqp://h/%ff"),
        *("kafka://h1:9092,h2,[::1]/orders", "kafka+ssl://h/", "kafka://h"),
        *("nats://h:4222", "tls://h/"),
        # and what is none
        *("mqtt://h/x", "mqtt://h?x", "mqtt://u@h", "mqtt://h,g", "mqtt://h#f", "ws://h#f"),
        *("amqp://h/a?b", "amqp://h/%0a", "amqp://", "kafka://h,", "kafka://h/a/b", "kafka://h/.."),
        *("kafka://h?x", "kafka://h/%41", "nats://h/x", "tls://h:0", "kafka://10.0.0.1,127.1"),
        "kafka://" + ",".join(["h"] * 33),
    ]
)
any_uris = uris | broker_uris
durations = st.sampled_from(
    [
        *("PT1S", "PT0,2S", "PT1H30M", "P1D", "P2W", "P1DT2H3M4.5S", "PT1M0.5S", "PT700S", "PT0S"),
        # and what is none, or too long
        *("P8D", "PT9999999999S", "", "P", "P1Y", "PT", "P1M", "PT1.5H3M", "-PT1S", "1S"),
        *("PT1S\n", "pt1s", "P1WT1S", "P1DT"),
    ]
)
times = st.sampled_from(
    [
        *("2126-01-31T12:00:00Z", "2126-02-30t00:00:00.5+23:59", "2026-01-01T00:00:60Z"),
        *("latest", "earliest", "Latest", "2126-13-01T00:00:00Z", "2126-01-01"),
        "2126-01-01T00:00:00",
    ]
)
headers = st.dictionaries(
    st.sampled_from(["X-A", "x-a", "Authorization", "b!", "Ce-x", "HOST", "te", "tex", "a b", ""]),
    st.sampled_from(["v", "", "a b", "a\tb", " a", "a ", "a\n", "é", "x" * 9000]) | st.integers(),
    max_size=3,
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2000) | st.floats(0, 9) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


def members(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these members."""
    return st.fixed_dictionaries({}, optional=optional)


formats = st.sampled_from(["binary", "structured", "json", "xml"])
DELIVERY = {
    "retry": st.sampled_from([-1, 0, 3, 3.0, 1000, 1001, True, "3"]),
    "backoffPolicy": st.sampled_from(["linear", "exponential", "Linear"]),
    "backoffDelay": durations,
    "backoffMax": durations,
    "timeout": durations,
    "rateLimit": st.sampled_from([-1, 0, 1e-9, 1_000_000, 1_000_001, False]) | st.floats(-1, 2),
    "format": formats,
}
HTTP = {
    "headers": headers,
    "method": st.sampled_from(["POST", "PUT", "PATCH", "post", "GET"]),
}
small_maps = st.dictionaries(
    st.sampled_from(["a", "big", "tenant", "id", "a b", "", "é", "a\x01", "\ufffe"]),
    st.sampled_from(["v", "", "é", "a\x00", 1, 1.5, True, None, 2**63, [], "x" * 9000]),
    max_size=3,
)
MQTT = {
    "topicname": st.sampled_from(
        ["a", "a/b", "/", "é", "a+", "#", "", "$SYS", "$SYS/a", "$SYSa", "a\x00", "é" * 40_000]
    ),
    "qos": st.sampled_from([0, 1, 2, 3, -1, 1.0, True, "1"]),
    "retain": st.sampled_from([True, False, 1]),
    "expiry": st.sampled_from([0, 1, 2**32 - 1, 2**32, 1.0, True]),
    "userproperties": small_maps,
}
AMQP = {
    "address": st.sampled_from(["a b", "/a b", "orders", "é" * 900, "a\n", ""]),
    "linkname": st.sampled_from(["l", "é" * 200, "a\x7f", ""]),
    "sendersettlementmode": st.sampled_from(["settled", "unsettled", "mixed", True]),
    "linkproperties": small_maps,
}
KAFKA = {
    "topicname": st.sampled_from(["orders", "a.b_c-D9", ".", "..", "...", "a b", "x" * 250, ""]),
    "partitionkeyextractor": st.sampled_from(["partitionkey", "data", "a-b", "", "x" * 257]),
    "clientid": st.sampled_from(["me", "a b", " a", "é", ""]),
    "acks": st.sampled_from(["all", "-1", "1", "0", "2", 1]),
}
NATS = {
    "subject": st.sampled_from(
        ["a", "a.b", "é.b", ".", "a.", "a..b", "a.*", "a.>", "a b", "$JS", "$SYS.a", "$KV.a", ""]
    ),
    "jetstream": st.sampled_from([True, False, 1]),
}
cacerts = st.sampled_from(
    [CERTIFICATE, f"text\n{CERTIFICATE}", CERTIFICATE * 2, "-----BEGIN CERTIFICATE-----", "x", ""]
)
SHARED = {"format": formats, "cacerts": cacerts}
OWN = {"HTTP": HTTP, "MQTT3": MQTT, "MQTT5": MQTT, "AMQP": AMQP, "KAFKA": KAFKA, "NATS": NATS}
CONFIG = {
    "interval": st.sampled_from([0, 0.99, 1, 1.5, 31_536_000, 31_536_001, True]),
    "data": anything,
    "type": words,
    "start": times,
    "expires": times,
    "maxevents": st.sampled_from([0, 1, 1.0, 10**9, 10**9 + 1, False]),
}


dead_letters = any_uris | st.fixed_dictionaries(
    {"sink": any_uris},
    optional={
        "protocol": st.sampled_from([*OWN, "http"]),
        "protocolsettings": members(**HTTP, **SHARED, delivery=members(**DELIVERY)),
        "sinkCredential": st.just({}),
    },
)

comparisons = st.dictionaries(
    st.sampled_from(["type", "source", "ext1", "Type", "a_b", ""]),
    st.sampled_from(["a", "com.example.", "é", "", "x" * 8193]) | st.none(),
    max_size=2,
)
filters = st.recursive(
    st.builds(lambda d, v: {d: v}, st.sampled_from(["exact", "prefix", "suffix"]), comparisons)
    | st.sampled_from(
        [
            {"sql": "type = 'a'"},
            {"sql": ""},
            {"sql": " "},
            {"sql": "("},
            {"sql": "'a'"},
            {"sql": "F()"},
            {},
            {"regex": {}},
        ]
    ),
    lambda inner: (
        st.builds(lambda d, v: {d: v}, st.sampled_from(["all", "any"]), st.lists(inner, max_size=3))
        | st.builds(lambda v: {"not": v}, inner)
    ),
    max_leaves=4,
)
conditions = st.lists(
    members(
        type=st.sampled_from(["exact", "prefix", "suffix", "sql"]),
        property=st.sampled_from(["type", "Type", ""]),
        value=st.sampled_from(["a", "", "x" * 8193]),
    ),
    max_size=2,
)
basics = st.fixed_dictionaries(
    {"dialect": st.sampled_from(["basic", "Basic"])},
    optional={"filters": conditions, "conditions": conditions, "x": anything},
)

CREDENTIAL_MEMBERS = {
    "credentialType": st.sampled_from(["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN", "plain"]),
    "identifier": st.sampled_from(["me", "a:b", "", "é", "a\n"]),
    "secret": st.sampled_from(["s", "a:b", "", "é" * 4000, "a\x00"]),
    "accessToken": st.sampled_from(["t", "a b", "a ", "é", "x" * 8193, ""]),
    "accessTokenType": st.sampled_from(["Bearer", "a b", ""]),
    "accessTokenExpiresUtc": times,
    "refreshToken": st.sampled_from(["r", " r"]),
    "refreshTokenEndpoint": uris,
}
GOOD_CREDENTIALS = [
    {"credentialType": "PLAIN", "identifier": "me", "secret": "s"},
    {
        "credentialType": "REFRESHTOKEN",
        "accessToken": "t",
        "accesstokentype": "Bearer",
        "accessTokenExpiresUtc": "2126-01-31T12:00:00Z",
        "refreshtoken": "r",
    },
    {"credentialtype": "PLAIN", "identifier": "me"},
    {"credentialType": "ACCESSTOKEN"},
]
credentials = st.sampled_from(GOOD_CREDENTIALS) | st.fixed_dictionaries(
    {},
    optional=CREDENTIAL_MEMBERS
    | {name.lower(): values for name, values in CREDENTIAL_MEMBERS.items()},
)

PROTOCOLS = st.sampled_from(["HTTP", "HTTP", "HTTP", "http", *OWN])
SELECTION = {
    "source": words | st.sampled_from(["/sensors/é", "a%20b", "urn:x"]),
    "types": st.lists(words, max_size=3),
}
BY_NAME = (
    {"sink": any_uris, "protocol": PROTOCOLS, "filters": st.lists(filters, max_size=2)}
    | {"filter": filters | basics, "deadLetterSink": dead_letters, "dialect": words}
    | {"property": words, "value": words, "sinkCredential": credentials}
    | (SELECTION | DELIVERY | HTTP | CONFIG | CREDENTIAL_MEMBERS | SHARED)
    | (MQTT | AMQP | NATS | KAFKA | {"topicname": MQTT["topicname"] | KAFKA["topicname"]})
    | {name.lower(): values for name, values in CREDENTIAL_MEMBERS.items()}
)
"""Member -> what may be tried for it, good and bad."""

GOOD = [
    *json.loads(PROPOSALS),
    *(
        {"sink": "https://e.com/", "protocol": "HTTP", "sinkCredential": credential}
        for credential in GOOD_CREDENTIALS
    ),
]
"""Good ones, each rule of which a mutation may break."""


def places(value: object) -> list[tuple[Any, Any]]:
    """Every (container, key or index) inside *value*."""
    found: list[tuple[Any, Any]] = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]
    for key, inner in pairs:
        found.append((value, key))
        if isinstance(inner, dict | list):
            found += places(inner)
    return found


@st.composite
def mutants(draw: st.DrawFn) -> object:
    """A good proposal with one thing changed: left out, replaced, renamed, added."""
    body = copy.deepcopy(draw(st.sampled_from(GOOD)))
    container, key = draw(st.sampled_from(places(body)))
    how = draw(st.sampled_from(["remove", "replace", "rename", "add", "empty"]))
    if how == "remove":
        del container[key]
    elif how == "replace":
        container[key] = draw(BY_NAME.get(key, anything) | anything)
    elif how == "empty":
        container[key] = type(container[key])()
    elif isinstance(container, dict):
        name = draw(words | st.sampled_from([*BY_NAME, key.swapcase()]))
        value = container.pop(key) if how == "rename" else draw(BY_NAME.get(name, anything))
        container[name] = value
    return body


def faults_of(body: object, *, kept: bool) -> list[tuple[str, str]]:
    """Code and path of every fault that the code finds."""
    try:
        api_subscription.parse(body, RULES, secrets_kept=kept)
    except ResourceError as error:
        return [(fault.code, fault.path) for fault in error.faults]
    return []


def hold_against_the_schema(body: object, *, kept: bool) -> None:
    """Both agree, but for what the code alone can tell."""
    faults = faults_of(body, kept=kept)
    if VALIDATORS[kept].is_valid(body):
        told = [(code, path) for code, path in faults if (code, place_of(path)) not in BEYOND]
        assert told == [], "the schema could tell, or the table lacks a case"
    else:
        reason = next(VALIDATORS[kept].iter_errors(body)).message
        assert faults, f"the schema refuses what is good: {reason}"


slow_to_draw = [HealthCheck.too_slow]


@given(mutants(), st.booleans())
@settings(max_examples=800, deadline=None, suppress_health_check=slow_to_draw)
@pytest.mark.slow
def test_the_schema_and_the_code_agree_on_mutants_of_good_proposals(body, kept):
    """One change at a time, so that each rule is met alone; what is realized fits its schema."""
    hold_against_the_schema(body, kept=kept)
    if not faults_of(body, kept=kept):
        realized = api_subscription.parse(body, RULES, secrets_kept=kept).to_json()
        REALIZED.validate({"id": "a", **realized})


@pytest.mark.parametrize("body", GOOD, ids=range(len(GOOD)))
def test_good_proposals_are_good_to_both_and_answers_fit_their_schema(body):
    """The ground that the mutants stand on; what is realized has a schema of its own."""
    assert VALIDATORS[True].is_valid(body)
    assert faults_of(body, kept=True) == []
    realized = api_subscription.parse(body, RULES, secrets_kept=True).to_json()
    REALIZED.validate({"id": "a", **realized})


@pytest.mark.parametrize("uri", ["http://h/%41", "http://[::ffff:1.2.3.4]:65535?q", "hTTps://a.b."])
def test_sinks_at_the_edge_are_good_to_both(uri):
    """The pattern of a URI is long: some that it must take."""
    hold_against_the_schema({"sink": uri, "protocol": "HTTP"}, kept=False)
    assert VALIDATORS[False].is_valid({"sink": uri, "protocol": "HTTP"})
