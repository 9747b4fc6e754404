"""Subscriptions API 3.2.1 and 3.2.2: the subscription object and its HTTP settings."""

import pytest


def fault_paths(answer) -> set[str]:
    """Where an answer says that the object is wrong."""
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    return {fault["path"] for fault in answer.json()["faults"]}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.id.unique",
    "MUST",
    "an id is unique within the manager: two creates never share one, and PUT to an existing id"
    " replaces that subscription",
)
def test_ids_are_unique(sut):
    """Created ones differ; a second PUT makes no second subscription."""
    assert sut.create().json()["id"] != sut.create().json()["id"]
    sut.put("mine")
    sut.put("mine")
    listed = [found["id"] for found in sut.ask("GET", "/subscriptions").json()]
    assert len(listed) == len(set(listed)) == 3


@pytest.mark.clause(
    "subscriptions-api.3.2.1.id.immutable",
    "MUST",
    "an id never changes: an update whose body names another id is refused",
)
def test_an_id_never_changes(sut):
    """Neither does the subscription that the refused update named."""
    sut.put("mine")
    assert fault_paths(sut.put("mine", id="other")) == {"$.id"}
    assert sut.ask("GET", "/subscriptions/other").status == 404


@pytest.mark.clause(
    "subscriptions-api.3.2.1.id.ignored",
    "MUST",
    "an id in a subscribe operation is ignored, whatever it is",
)
@pytest.mark.parametrize("proposed", ["mine", "", 7, None, {"a": 1}], ids=repr)
def test_a_proposed_id_is_ignored(sut, proposed):
    """The manager assigns one instead."""
    answer = sut.create(id=proposed)
    assert answer.status == 201
    assert answer.json()["id"] not in ("mine", "")


@pytest.mark.clause("subscriptions-api.3.2.1.id.retrieved", "MUST", "a retrieved object has its id")
def test_a_retrieved_object_has_its_id(sut):
    """Alone and in the list."""
    id_ = sut.create().json()["id"]
    assert sut.ask("GET", f"/subscriptions/{id_}").json()["id"] == id_
    assert [found["id"] for found in sut.ask("GET", "/subscriptions").json()] == [id_]


@pytest.mark.clause(
    "subscriptions-api.3.2.1.source.non-empty",
    "MUST",
    "a source is a URI-reference that is not empty",
)
def test_a_source_is_not_empty(sut):
    """Absent is another thing: no constraint."""
    assert fault_paths(sut.create(source="")) == {"$.source"}
    assert sut.create(source="/sensors/tn-1234567/alerts").status == 201


@pytest.mark.clause(
    "subscriptions-api.3.2.1.types.non-empty", "MUST", "each of the types is a string, not empty"
)
def test_types_are_not_empty(sut):
    """The place of the empty one is named."""
    assert fault_paths(sut.create(types=["a", ""])) == {"$.types[1]"}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.config.known-keys",
    "MUST",
    "config keys are those that the manager advertises; any other key is invalid",
)
def test_config_keys_are_the_advertised_ones(sut):
    """None are advertised, so each is refused; an empty map says nothing and is kept."""
    assert sut.ask("GET", "/").json()["subscriptionconfig"] == {}
    assert fault_paths(sut.create(config={"interval": 5})) == {"$.config.interval"}
    assert sut.create(config={}).json()["config"] == {}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.config.non-empty-keys", "MUST", "a config key is not empty"
)
def test_config_keys_are_not_empty(sut):
    """An empty key is invalid."""
    assert fault_paths(sut.create(config={"": 1})) == {'$.config[""]'}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.filters.unsupported",
    "MUST",
    "an unsupported filter dialect rejects the create or update with an error",
)
def test_an_unsupported_dialect_rejects_create_and_update(sut):
    """The subscription stays as it was."""
    before = sut.put("mine").body
    filters = [{"exact": {"type": "a"}}, {"https://example.com/dialect": {}}]
    assert any(path.startswith("$.filters[1]") for path in fault_paths(sut.create(filters=filters)))
    assert fault_paths(sut.put("mine", filters=filters))
    assert sut.ask("GET", "/subscriptions/mine").body == before


@pytest.mark.clause("subscriptions-api.3.2.1.sink.required", "MUST", "a sink is required")
def test_a_sink_is_required(sut):
    """Without one there is nowhere to send to."""
    assert fault_paths(sut.create(sink=...)) == {"$.sink"}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.sink.format",
    "MUST",
    "a sink is valid for its protocol: for HTTP an absolute http or https URI with a host",
)
@pytest.mark.parametrize(
    "sink", ["", "/relative", "example.com", "mqtt://example.com/", "http://", "http://a b/"]
)
def test_a_sink_is_valid_for_its_protocol(sut, sink):
    """Anything else is named as the fault."""
    assert fault_paths(sut.create(sink=sink)) == {"$.sink"}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.sinkcredential.write-only",
    "SHOULD",
    "secrets are write-only: they stand in no answer (credentials are refused for now)",
)
@pytest.mark.parametrize("name", ["sinkCredential", "sinkcredential"])
def test_a_secret_stands_in_no_answer(sut, name):
    """Not even in the refusal."""
    answer = sut.create(
        **{name: {"credentialType": "PLAIN", "identifier": "i", "secret": "canary"}}
    )
    assert fault_paths(answer) == {f"$.{name}"}
    assert b"canary" not in answer.body


@pytest.mark.clause("subscriptions-api.3.2.1.protocol.required", "MUST", "a protocol is required")
def test_a_protocol_is_required(sut):
    """The scheme of the sink does not say enough."""
    assert fault_paths(sut.create(protocol=...)) == {"$.protocol"}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.protocol.case",
    "MUST",
    "protocol names compare case-sensitively: http is no protocol",
)
@pytest.mark.parametrize("name", ["http", "Http", "HTTP ", "kafka"])
def test_protocol_names_are_case_sensitive(sut, name):
    """Only the six names, exactly."""
    assert fault_paths(sut.create(protocol=name)) == {"$.protocol"}


@pytest.mark.clause(
    "subscriptions-api.3.2.1.description",
    "SHOULD",
    "the service description says which properties to use: protocols, settings, dialects, config",
)
def test_the_service_description_says_what_can_be_used(sut):
    """At the root of the server."""
    described = sut.ask("GET", "/").json()
    assert set(described["protocols"]) == {"HTTP"}
    assert {"exact", "prefix", "suffix", "all", "any", "not"} <= set(described["dialects"])


@pytest.mark.clause(
    "subscriptions-api.3.2.2.1.headers", "SHOULD", "custom HTTP headers are supported"
)
def test_custom_headers_are_supported(sut):
    """They are part of the realized object."""
    realized = sut.create(protocolsettings={"headers": {"X-Tenant": "a"}}).json()
    assert realized["protocolsettings"]["headers"] == {"X-Tenant": "a"}


@pytest.mark.clause(
    "subscriptions-api.3.2.2.1.method", "SHOULD", "the HTTP method can be set; POST is the default"
)
def test_the_method_can_be_set(sut):
    """The default is shown."""
    assert sut.create().json()["protocolsettings"]["method"] == "POST"
    realized = sut.create(protocolsettings={"method": "PUT"}).json()
    assert realized["protocolsettings"]["method"] == "PUT"
