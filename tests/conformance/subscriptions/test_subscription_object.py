"""Subscriptions API 3.2.1: the members of the subscription object."""

import pytest

from distributary.core.protocol import protocols
from distributary.subscriptions.service import PROTOCOLS_ABSENT


@pytest.mark.clause("subscriptions-api.push.complete")
@pytest.mark.clause("subscriptions-api.object.members")
@pytest.mark.clause("subscriptions-api.settings.optional")
@pytest.mark.clause("subscriptions-api.config.optional")
@pytest.mark.clause("subscriptions-api.credential.optional")
def test_sink_and_protocol_are_enough(sut):
    """What is left out has a default; the realized object says all that delivery needs."""
    realized = sut.create().json()
    assert (realized["sink"], realized["protocol"]) == (
        "https://example.com/event-processor",
        "HTTP",
    )
    assert set(realized["protocolsettings"]) == {"headers", "method", "format", "delivery"}
    assert not {"source", "types", "sinkCredential"} & set(realized)


@pytest.mark.clause("subscriptions-api.id.unique")
def test_ids_are_unique(sut):
    """Created ones differ; a second PUT makes no second subscription."""
    assert sut.create().json()["id"] != sut.create().json()["id"]
    sut.put("mine")
    sut.put("mine")
    listed = [found["id"] for found in sut.ask("GET", "/subscriptions").json()]
    assert len(listed) == len(set(listed)) == 3


@pytest.mark.clause("subscriptions-api.id.immutable")
@pytest.mark.clause("subscriptions-api.update.id")
def test_an_id_never_changes(sut):
    """An update whose body names another one is refused; neither subscription is touched."""
    before = sut.put("mine").json()
    assert sut.faults(sut.put("mine", id="other", source="/s")) == {"$.id": "immutable"}
    assert sut.ask("GET", "/subscriptions/mine").json() == before
    assert sut.ask("GET", "/subscriptions/other").status == 404


@pytest.mark.clause("subscriptions-api.id.ignored")
@pytest.mark.clause("subscriptions-api.create.id-assigned")
@pytest.mark.clause("subscriptions-api.create.proposal.id")
@pytest.mark.parametrize("proposed", ["mine", "", 7, None, {"a": 1}, ...], ids=repr)
def test_a_proposed_id_is_ignored(sut, proposed):
    """Whatever it is, or none: one is assigned."""
    answer = sut.create(id=proposed)
    assert answer.status == 201
    assert answer.json()["id"] not in ("mine", "")


@pytest.mark.clause("subscriptions-api.id.retrieved")
def test_a_retrieved_object_has_its_id(sut):
    """Alone and in the list."""
    id_ = sut.create().json()["id"]
    assert sut.ask("GET", f"/subscriptions/{id_}").json()["id"] == id_
    assert [found["id"] for found in sut.ask("GET", "/subscriptions").json()] == [id_]


@pytest.mark.clause("subscriptions-api.source.non-empty")
@pytest.mark.parametrize("source", ["", "a b", 7, None, ["/s"]], ids=repr)
def test_a_source_is_a_uri_that_is_not_empty(sut, source):
    """Absent is another thing: no constraint."""
    assert list(sut.faults(sut.create(source=source))) == ["$.source"]


@pytest.mark.clause("subscriptions-api.types.non-empty")
@pytest.mark.parametrize(
    ("types", "path"),
    [(["a", ""], "$.types[1]"), ([], "$.types"), ("a", "$.types"), (["a", None], "$.types[1]")],
    ids=repr,
)
def test_types_are_strings_that_are_not_empty(sut, types, path):
    """The place of the wrong one is named; no types at all is a mistake (decision 7)."""
    assert list(sut.faults(sut.create(types=types))) == [path]


CONFIG = {
    "interval": 5,
    "data": {"a": [1, None]},
    "type": "com.example.tick",
    "start": "earliest",
    "expires": "2999-01-01T00:00:00Z",
    "maxevents": 3,
    "broker": "default",
    "lifecycle": True,
}


@pytest.mark.clause("subscriptions-api.config.known-keys")
def test_config_keys_are_the_advertised_ones(sut):
    """Each advertised key is taken; any other is refused, with its place."""
    assert set(sut.ask("GET", "/").json()["subscriptionconfig"]) == set(CONFIG)
    assert sut.create(config=CONFIG).json()["config"].items() >= CONFIG.items()
    assert sut.faults(sut.create(config={"intervall": 5})) == {"$.config.intervall": "unknown"}
    assert sut.create(config={}).json()["config"] == {}


@pytest.mark.clause("subscriptions-api.config.value-types")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("interval", "5"),
        ("interval", True),
        ("interval", 0),
        ("interval", None),
        ("type", 5),
        ("type", ""),
        ("start", "tomorrow"),
        ("start", 0),
        ("expires", "2001-01-01"),
        ("expires", 5),
        ("maxevents", "3"),
        ("maxevents", 0),
        ("maxevents", 1.5),
    ],
)
def test_config_values_have_the_advertised_types(sut, key, value):
    """A value of another type is refused, with its place."""
    config = {"interval": 5, key: value} if key == "type" else {key: value}
    assert set(sut.faults(sut.create(config=config))) == {f"$.config.{key}"}


@pytest.mark.clause("subscriptions-api.config.non-empty-keys")
def test_config_keys_are_not_empty(sut):
    """An empty key is invalid."""
    assert list(sut.faults(sut.create(config={"": 1}))) == ['$.config[""]']


@pytest.mark.clause("subscriptions-api.sink.required")
@pytest.mark.clause("subscriptions-api.protocol.required")
def test_a_sink_and_a_protocol_are_required(sut):
    """The scheme of the sink does not say enough."""
    assert sut.faults(sut.create(sink=...)) == {"$.sink": "missing"}
    assert sut.faults(sut.create(protocol=...)) == {"$.protocol": "missing"}


@pytest.mark.clause("subscriptions-api.sink.valid")
@pytest.mark.parametrize(
    "sink",
    ["", "/relative", "example.com", "mqtt://example.com/", "http://", "http://a b/", 7, None],
    ids=repr,
)
def test_a_sink_is_valid_for_its_protocol(sut, sink):
    """For HTTP an absolute http or https URI with a host."""
    assert list(sut.faults(sut.create(sink=sink))) == ["$.sink"]


@pytest.mark.clause("subscriptions-api.protocol.case")
@pytest.mark.parametrize("name", ["http", "Http", "HTTP ", "kafka", "MQTT", ""])
def test_protocol_names_are_case_sensitive(sut, name):
    """Only the six names, exactly (decision 20)."""
    assert sut.faults(sut.create(protocol=name)) == {"$.protocol": "unknown"}


@pytest.mark.clause("subscriptions-api.protocols")
@pytest.mark.parametrize(
    ("name", "sink", "settings"),
    [
        ("AMQP", "amqp://example.com/orders", {}),
        ("AMQP", "wss://example.com/amqp", {"address": "orders"}),
        ("MQTT3", "mqtt://example.com", {"topicname": "t"}),
        ("MQTT5", "wss://example.com/mqtt", {"topicname": "t"}),
        ("KAFKA", "kafka://example.com,b.example.com:9093/t", {}),
        ("NATS", "nats://example.com", {"subject": "s"}),
    ],
)
def test_all_six_protocols_are_taken(sut, name, sink, settings):
    """With a sink of one of their schemes, tunnels among them."""
    realized = sut.create(protocol=name, sink=sink, protocolsettings=settings)
    assert realized.status == 201, realized.body
    assert (realized.json()["protocol"], realized.json()["sink"]) == (name, sink)


@pytest.mark.clause("subscriptions-api.manager.transport")
@pytest.mark.clause("subscriptions-api.description")
def test_the_service_description_says_what_can_be_used(sut):
    """At the root of the server: protocols with settings, dialects, config keys, credentials."""
    described = sut.ask("GET", "/").json()
    assert set(described["protocols"]) == set(protocols()) - set(PROTOCOLS_ABSENT)
    for protocol in described["protocols"].values():
        assert protocol["settings"]["properties"]["delivery"]["description"]
        assert protocol["sinkschemes"]
    assert {"headers", "method"} <= set(described["protocols"]["HTTP"]["settings"]["properties"])
    assert set(described["dialects"]) == {"exact", "prefix", "suffix", "all", "any", "not", "sql"}
    assert all("description" in schema for schema in described["subscriptionconfig"].values())
    assert set(described["credentialtypes"]) == {"PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"}
