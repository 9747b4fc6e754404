"""The schemas of the API description, held against examples of each revision and real answers."""

import pytest
from jsonschema import Draft202012Validator

from distributary.subscriptions.http import BEYOND_SCHEMAS, build_openapi
from kit.published_schemas import validator
from kit.subscription_faults import BEYOND, TABLE

SINK = {"sink": "https://example.com/event-processor", "protocol": "HTTP"}
NESTED = {"all": [{"exact": {"type": "a"}}, {"any": [{"not": {"suffix": {"subject": ".b"}}}]}]}

GOOD = {
    "newest": SINK | {"config": {"interval": 5, "data": "hello"}, "filters": [NESTED]},
    "newest, sql": SINK | {"filters": [{"sql": "source LIKE '%cloudevents%'"}]},
    "one filter, as before": SINK | {"id": "mine", "filter": {"prefix": {"type": "com.example."}}},
    "basic, by its text": SINK
    | {
        "filter": {
            "dialect": "basic",
            "conditions": [{"type": "exact", "property": "type", "value": "a"}],
        }
    },
    "basic, by its examples, empty": SINK | {"filter": {"dialect": "basic", "filters": []}},
    "credential": SINK
    | {"sinkCredential": {"credentialType": "PLAIN", "identifier": "me", "secret": "x"}},
    "credential in lower case": SINK
    | {
        "sinkcredential": {
            "credentialtype": "ACCESSTOKEN",
            "accesstoken": "t",
            "accesstokentype": "Bearer",
            "accesstokenexpiresutc": "2126-01-31T12:00:00Z",
        }
    },
    "dead letters to a URI": SINK
    | {"protocolsettings": {"delivery": {"deadLetterSink": "http://127.0.0.1:9/dead"}}},
    "MQTT": {
        "sink": "mqtts://e.com",
        "protocol": "MQTT5",
        "protocolsettings": {"topicname": "a/b", "userproperties": {"k": "v"}},
    },
    "Kafka, dead letters elsewhere": {
        "sink": "kafka://h1,h2/orders",
        "protocol": "KAFKA",
        "protocolsettings": {
            "delivery": {
                "deadLetterSink": {
                    "sink": "nats://e.com",
                    "protocol": "NATS",
                    "protocolsettings": {"subject": "dead"},
                }
            }
        },
    },
    "dead letters to a sink": SINK
    | {"protocolsettings": {"delivery": {"deadLetterSink": {"sink": "http://e.com/"}}}},
}


DESCRIPTION = build_openapi()


@pytest.mark.parametrize("name", DESCRIPTION["components"]["schemas"])
def test_every_schema_is_one(name):
    """JSON Schema 2020-12, the dialect of OpenAPI 3.1."""
    schema = DESCRIPTION["components"]["schemas"][name]
    Draft202012Validator.check_schema(schema)
    for example in schema.get("examples", ()):
        validator(name).validate(example)


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD)
def test_good_bodies_of_every_revision_are_taken(api, body):
    """By the schemas of POST and PUT, and by the server."""
    validator("SubscriptionProposal").validate(body)
    validator("SubscriptionReplacement").validate(body)
    answer = api.send("POST", "/subscriptions", body)
    assert answer.status == 201
    validator("Subscription").validate(answer.json())


@pytest.mark.parametrize("kept", [False, True], ids=["create", "update"])
@pytest.mark.parametrize("group", TABLE)
def test_bad_documents_are_refused_but_for_those_that_no_schema_can_tell(group, kept):
    """These are marked in the table, and no others."""
    schema = validator("SubscriptionReplacement" if kept else "SubscriptionProposal")
    cases = [case for case in TABLE[group] if case.holds(kept=kept, local=False)]
    taken = [case.name for case in cases if schema.is_valid(case.body)]
    assert taken == [case.name for case in cases if case.beyond]


def test_what_no_schema_can_say_is_documented():
    """Codes of the table, and those that the id and what is installed decide."""
    assert {code for code, _ in BEYOND} | {"immutable", "unsupported"} == set(BEYOND_SCHEMAS)
    description = build_openapi()["info"]["description"]
    assert all(f"`{code}`" in description for code in BEYOND_SCHEMAS)


def test_an_update_may_leave_secrets_out_and_a_create_may_not(api):
    """Decision 10: the stored ones are kept."""
    body = SINK | {"sinkCredential": {"credentialType": "PLAIN", "identifier": "me"}}
    assert validator("SubscriptionReplacement").is_valid(body)
    assert not validator("SubscriptionProposal").is_valid(body)
    api.put("mine", **SINK, sinkCredential={**body["sinkCredential"], "secret": "x"})
    assert api.send("PUT", "/subscriptions/mine", body).status == 200
    assert api.send("POST", "/subscriptions", body).status == 400


def test_secrets_are_write_only(api):
    """The document says it, and answers have no place for them."""
    schemas = build_openapi()["components"]["schemas"]
    plain = schemas["SinkCredential"]["anyOf"][0]["properties"]
    assert plain["secret"]["writeOnly"]
    assert "writeOnly" not in plain["identifier"]
    shown = schemas["ShownSinkCredential"]["properties"]
    assert set(shown).isdisjoint({"secret", "accessToken", "refreshToken"})
    created = api.put("mine", **GOOD["credential"])
    assert created.status == 201
    assert b'"x"' not in created.body


def test_the_service_description_fits_its_schema(api):
    """All of its members are described, and there are no others."""
    validator("ServiceDescription").validate(api.request("GET", "/").json())


@pytest.mark.parametrize("scheme", ["v1", "v1a"])
def test_signed_subscriptions_are_as_described(api, scheme):
    """The answers with a secret, those after a rotation, and what is read."""
    shown = validator("Subscription")
    settings = {"signature": {"scheme": scheme}}
    made = api.put("signed", **SINK, protocolsettings=settings)
    rotated = api.request("POST", "/subscriptions/signed/signature/rotate")
    read = api.request("GET", "/subscriptions/signed")
    for answer in (made, rotated, read):
        assert answer.status in {200, 201}
        assert list(shown.iter_errors(answer.json())) == []
    proposal = validator("SubscriptionReplacement")
    assert proposal.is_valid({**SINK, **{k: v for k, v in read.json().items() if k != "id"}})
    assert not proposal.is_valid(made.json()) or scheme == "v1a"
    assert validator("SignatureRotation").is_valid({"overlap": "PT1H", "scheme": scheme})


@pytest.mark.parametrize("part", ["/runs", "/pause", "/resume", "/retry", "/replay"])
def test_steering_and_runs_stand_together_in_the_description(part: str) -> None:
    """A reader of the description finds a run beside what starts it."""
    paths = build_openapi()["paths"]
    operations = [
        operation
        for path, item in paths.items()
        if part in path
        for name, operation in item.items()
        if name != "parameters"
    ]
    assert operations
    assert all(operation["tags"] == ["runs"] for operation in operations)
