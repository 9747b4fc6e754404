"""The schemas of the API description, held against examples of each revision and real answers."""

import pytest
from jsonschema import Draft202012Validator

from distributary.subscriptions.http import build_openapi

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

BAD = {
    "nothing": {},
    "no sink": {"protocol": "HTTP"},
    "no protocol": {"sink": SINK["sink"]},
    "protocol in another case": SINK | {"protocol": "http"},
    "unknown member": SINK | {"filtres": []},
    "unknown config key": SINK | {"config": {"intervall": 5}},
    "unknown setting": SINK | {"protocolsettings": {"qos": 1}},
    "MQTT without a topic": {"sink": "mqtt://e.com", "protocol": "MQTT5"},
    "NATS with a wildcard": {
        "sink": "nats://e.com",
        "protocol": "NATS",
        "protocolsettings": {"subject": "a.>"},
    },
    "a sink of another protocol": SINK | {"protocol": "KAFKA"},
    "both filter and filters": SINK | {"filter": {"exact": {"type": "a"}}, "filters": []},
    "empty filter": SINK | {"filter": {}},
    "empty types": SINK | {"types": []},
    "empty type": SINK | {"types": [""]},
    "empty source": SINK | {"source": ""},
    "empty all": SINK | {"filters": [{"all": []}]},
    "empty exact": SINK | {"filters": [{"exact": {}}]},
    "empty value": SINK | {"filters": [{"exact": {"type": ""}}]},
    "empty attribute name": SINK | {"filters": [{"exact": {"": "a"}}]},
    "two dialects": SINK | {"filters": [{"exact": {"type": "a"}, "prefix": {"type": "a"}}]},
    "unknown dialect": SINK | {"filters": [{"regex": {"type": "a"}}]},
    "not of an array": SINK | {"filters": [{"not": [{"exact": {"type": "a"}}]}]},
    "basic without conditions": SINK | {"filter": {"dialect": "basic"}},
    "data without a timer": SINK | {"config": {"data": 1}},
    "password without a name": SINK
    | {"sinkCredential": {"credentialType": "PLAIN", "secret": "x"}},
    "both spellings": SINK
    | {
        "sinkCredential": {
            "credentialType": "PLAIN",
            "credentialtype": "PLAIN",
            "identifier": "me",
            "secret": "x",
        }
    },
    "user information": SINK | {"sink": "https://me:secret@example.com/"},
    "mass assignment": SINK | {"uid": "1", "revision": 9},
}


def validator(name: str) -> Draft202012Validator:
    """Of the schema *name*."""
    document = build_openapi()
    reference = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return Draft202012Validator(reference)


@pytest.mark.parametrize("name", build_openapi()["components"]["schemas"])
def test_every_schema_is_one(name):
    """JSON Schema 2020-12, the dialect of OpenAPI 3.1."""
    schema = build_openapi()["components"]["schemas"][name]
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


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_bad_bodies_are_refused_by_both(api, body):
    """The document is as strict as the server."""
    assert not validator("SubscriptionProposal").is_valid(body)
    assert not validator("SubscriptionReplacement").is_valid(body)
    answer = api.send("POST", "/subscriptions", body)
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    validator("Problem").validate(answer.json())


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
