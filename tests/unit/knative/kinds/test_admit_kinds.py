"""What Broker, Channel, Subscription and the core kinds may hold, and what cannot be changed."""

import pytest

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.kinds import (
    BROKER,
    BROKER_CLASS,
    CHANNEL,
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    SERVICE,
    SERVICE_ADDRESS,
    SUBSCRIPTION,
    TRIGGER,
    admit,
    defaulted,
)

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}
CH = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "orders"}
ADDRESS = f"metadata.annotations[{SERVICE_ADDRESS}]"

BAD_CHANNELS = {
    "missing": (..., ("spec.channel", "Required")),
    "no object": ("orders", ("spec.channel", "TypeInvalid")),
    "no name": ({**CH, "name": ""}, ("spec.channel.name", "Required")),
    "name no DNS name": ({**CH, "name": "a_b"}, ("spec.channel.name", "Invalid")),
    "another kind": ({**CH, "kind": "Broker"}, ("spec.channel.kind", "NotSupported")),
    "another group": (
        {**CH, "apiVersion": "messaging.knative.dev/v1beta1"},
        ("spec.channel.apiVersion", "NotSupported"),
    ),
    "a namespace": ({**CH, "namespace": "default"}, ("spec.channel.namespace", "Forbidden")),
}

BAD_SERVICES = {
    "type unknown": ({"type": "Cluster"}, ("spec.type", "NotSupported")),
    "external without a name": ({"type": "ExternalName"}, ("spec.externalName", "Required")),
    "external name no name": ({"externalName": "a_b"}, ("spec.externalName", "Invalid")),
    "ports no list": ({"ports": {}}, ("spec.ports", "TypeInvalid")),
    "port missing": ({"ports": [{"name": "a"}]}, ("spec.ports[0].port", "Required")),
    "port zero": ({"ports": [{"port": 0}]}, ("spec.ports[0].port", "Invalid")),
    "port a boolean": ({"ports": [{"port": True}]}, ("spec.ports[0].port", "TypeInvalid")),
    "port null": ({"ports": [None]}, ("spec.ports[0]", "TypeInvalid")),
    "protocol unknown": (
        {"ports": [{"port": 1, "protocol": "QUIC"}]},
        ("spec.ports[0].protocol", "NotSupported"),
    ),
    "port twice": (
        {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]},
        ("spec.ports[1].port", "Duplicate"),
    ),
    "name twice": (
        {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]},
        ("spec.ports[1].name", "Duplicate"),
    ),
    "one of two without a name": (
        {"ports": [{"name": "a", "port": 1}, {"port": 2}]},
        ("spec.ports[1].name", "Required"),
    ),
    "selector no texts": ({"selector": {"app": 1}}, ("spec.selector[app]", "TypeInvalid")),
}

BAD_CONFIG_MAPS = {
    "value no text": ({"data": {"a": 1}}, ("data[a]", "TypeInvalid")),
    "bytes no base64": ({"binaryData": {"a": "é"}}, ("binaryData[a]", "Invalid")),
    "key odd": ({"data": {"a/b": "x"}}, ("data[a/b]", "Invalid")),
    "key of dots": ({"data": {"..": "x"}}, ("data[..]", "Invalid")),
    "key in both": ({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}, ("data[a]", "Invalid")),
    "immutable no boolean": ({"immutable": "yes"}, ("immutable", "TypeInvalid")),
}


def annotated(obj, **annotations):
    """*obj* with these annotations."""
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


@pytest.mark.parametrize(("channel", "cause"), BAD_CHANNELS.values(), ids=BAD_CHANNELS)
def test_a_subscription_names_a_channel_of_its_namespace(channel, cause, make, causes_of):
    """Nothing else can be subscribed to."""
    assert causes_of(SUBSCRIPTION, make(SUBSCRIPTION, channel=channel)) == [cause]


def test_a_subscription_leads_somewhere(make, causes_of):
    """A subscriber, or where its replies would go, or both."""
    nowhere = make(SUBSCRIPTION, subscriber=...)
    assert causes_of(SUBSCRIPTION, nowhere) == [("spec.subscriber", "Required")]
    reply_alone = make(SUBSCRIPTION, subscriber=..., reply={"uri": "http://a.example"})
    assert causes_of(SUBSCRIPTION, reply_alone) == []
    wrong = make(SUBSCRIPTION, reply={"uri": "a"})
    assert causes_of(SUBSCRIPTION, wrong) == [("spec.reply.uri", "Invalid")]


def test_an_empty_namespace_of_a_channel_is_none(make, causes_of):
    """The text: unset or the empty string."""
    assert causes_of(SUBSCRIPTION, make(SUBSCRIPTION, channel={**CH, "namespace": ""})) == []


def test_what_cannot_be_changed_is_named(make, causes_of):
    """Each immutable field, changed, set and removed."""
    broker = make(BROKER, config=CONFIG)
    other = make(BROKER, config={**CONFIG, "name": "other"})
    assert causes_of(BROKER, other, broker) == [("spec.config", "Invalid")]
    assert causes_of(BROKER, make(BROKER), broker) == [("spec.config", "Invalid")]
    assert causes_of(BROKER, broker, make(BROKER)) == [("spec.config", "Invalid")]
    channel = make(CHANNEL, channelTemplate={"kind": "InMemoryChannel"})
    assert causes_of(CHANNEL, make(CHANNEL), channel) == [("spec.channelTemplate", "Invalid")]
    moved = make(SUBSCRIPTION, channel={**CH, "name": "other"})
    assert causes_of(SUBSCRIPTION, moved, make(SUBSCRIPTION)) == [("spec.channel", "Invalid")]


def test_names_with_dots_are_taken(make, causes_of):
    """As the API server takes them, in references as well."""
    assert causes_of(TRIGGER, make(TRIGGER, broker="my.broker")) == []
    assert causes_of(SUBSCRIPTION, make(SUBSCRIPTION, channel={**CH, "name": "my.channel"})) == []


def test_a_reference_to_the_broker_says_what_its_name_says(make, causes_of):
    """It fills the name in; one that leads elsewhere is refused."""
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "b"}
    sent = make(TRIGGER, broker=..., brokerRef=ref)
    filled = defaulted(TRIGGER, sent, None)
    assert (filled["spec"]["broker"], causes_of(TRIGGER, filled)) == ("b", [])
    for member, value in (("namespace", "other"), ("kind", "Channel"), ("name", "c")):
        wrong = make(TRIGGER, broker="b", brokerRef={**ref, member: value})
        assert causes_of(TRIGGER, wrong) == [(f"spec.brokerRef.{member}", "Invalid")]


@pytest.mark.parametrize(
    ("text", "causes"),
    [("PT10S", []), ("PT0S", []), ("soon", ["Invalid"]), ("PT1000H", ["Invalid"])],
)
def test_how_much_a_sink_may_ask_for_is_checked(text, causes, make, causes_of):
    """``retryAfterMax``, a duration within the longest wait."""
    sent = make(TRIGGER, delivery={"retry": 1, "retryAfterMax": text})
    assert causes_of(TRIGGER, sent) == [("spec.delivery.retryAfterMax", each) for each in causes]


def test_what_cannot_be_changed_is_refused_in_the_words_of_both(make, rules):
    """Of the API server, and of Knative's webhook."""
    with pytest.raises(StatusError) as caught:
        admit(TRIGGER, make(TRIGGER, broker="other"), make(TRIGGER), rules)
    assert "field is immutable" in str(caught.value)
    assert "Immutable fields changed (-old +new)" in str(caught.value)


def test_the_class_of_a_broker_stays(make, causes_of):
    """Any class is taken, and none is changed."""
    kafka = annotated(make(BROKER), **{BROKER_CLASS: "Kafka"})
    field = f"metadata.annotations[{BROKER_CLASS}]"
    assert causes_of(BROKER, kafka) == []
    assert causes_of(BROKER, kafka, kafka) == []
    assert causes_of(BROKER, make(BROKER), kafka) == [(field, "Invalid")]


def test_the_broker_of_the_server_becomes_what_its_owner_wants_once(make, causes_of):
    """``default/default`` is there before anybody can say of which class it is to be."""
    wanted = annotated(make(BROKER, config=CONFIG), **{BROKER_CLASS: "MTChannelBasedBroker"})
    names = {"namespace": "default", "name": "default"}
    of_server = make(BROKER)
    of_server["metadata"] |= names
    wanted["metadata"] |= names
    assert causes_of(BROKER, wanted, of_server) == []
    written = {**wanted, "metadata": {**wanted["metadata"], "managedFields": []}}
    assert len(causes_of(BROKER, of_server, written)) == 2
    of_server["metadata"]["name"] = "other"
    assert len(causes_of(BROKER, wanted, of_server)) == 2


def test_a_channel_of_an_older_version_gets_its_template(make, causes_of):
    """It is filled in at the next write, which is no change of it."""
    template = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}
    assert causes_of(CHANNEL, make(CHANNEL, channelTemplate=template), make(CHANNEL)) == []


def test_an_in_memory_channel_is_a_channel_by_another_name(make, causes_of):
    """References that were written for Knative's own are taken."""
    assert (
        causes_of(SUBSCRIPTION, make(SUBSCRIPTION, channel={**CH, "kind": "InMemoryChannel"})) == []
    )


@pytest.mark.parametrize(
    ("annotation", "text", "causes"),
    [
        ("knative.dev/dependency", '{"apiVersion":"v1","kind":"Service","name":"s"}', []),
        ("knative.dev/dependency", "not-json", [("", "Invalid")]),
        ("knative.dev/dependency", "{}", [(".kind", "Required"), (".name", "Required"),
                                          (".apiVersion", "Required")]),
        ("knative.dev/dependency",
         '{"apiVersion":"v1","kind":"Service","name":"s","namespace":"other"}',
         [(".namespace", "Invalid")]),
        ("eventing.knative.dev/injection", "enabled", []),
        ("eventing.knative.dev/injection", "disabled", []),
        ("eventing.knative.dev/injection", "maybe", [("", "Invalid")]),
    ],
)  # fmt: skip
def test_annotations_that_knative_checks_are_checked(annotation, text, causes, make, causes_of):
    """What a Trigger waits for, and whether its Broker is made for it."""
    named = [(f"metadata.annotations[{annotation}]{place}", reason) for place, reason in causes]
    assert (
        causes_of(TRIGGER, annotated(make(TRIGGER, broker="default"), **{annotation: text}))
        == named
    )


def test_a_broker_is_made_for_nobody_but_the_default(make, causes_of):
    """The annotation makes no sense at another Broker."""
    elsewhere = annotated(
        make(TRIGGER, broker="b"), **{"eventing.knative.dev/injection": "enabled"}
    )
    assert causes_of(TRIGGER, elsewhere) == [
        ("metadata.annotations[eventing.knative.dev/injection]", "Invalid")
    ]


def test_a_broker_that_the_server_made_has_the_own_class(make, rules):
    """Nothing was filled into it; that a client's write does so is no change."""
    admit(BROKER, defaulted(BROKER, make(BROKER), make(BROKER)), make(BROKER), rules)


def test_a_broker_refers_to_its_settings(make, causes_of):
    """``spec.config`` is a reference like any other."""
    wrong = make(BROKER, config={"kind": "ConfigMap"})
    assert causes_of(BROKER, wrong) == [
        ("spec.config.apiVersion", "Required"),
        ("spec.config.name", "Required"),
    ]


@pytest.mark.parametrize(("spec", "cause"), BAD_SERVICES.values(), ids=BAD_SERVICES)
def test_refuses_services(spec, cause, make, causes_of):
    """Types, names and ports."""
    assert causes_of(SERVICE, make(SERVICE, **spec)) == [cause]


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":80", "host:0", "host:99999", "http://a:80", "a b:80", "::1:80"],
)
def test_refuses_what_cannot_be_dialled(address, make, causes_of):
    """The annotation is ``host:port``."""
    service = annotated(make(SERVICE), **{SERVICE_ADDRESS: address})
    assert causes_of(SERVICE, service) == [(ADDRESS, "Invalid")]


@pytest.mark.parametrize("address", ["127.0.0.1:9000", "sink.example:80", "[::1]:8443"])
def test_takes_what_can_be_dialled(address, make, causes_of):
    """Names and addresses, IPv6 in brackets."""
    assert causes_of(SERVICE, annotated(make(SERVICE), **{SERVICE_ADDRESS: address})) == []


def test_takes_a_service_as_clusters_have_it(make, causes_of):
    """Fields that mean nothing here are no fault."""
    service = make(
        SERVICE,
        type="ExternalName",
        externalName="sink.example.",
        selector={"app": "sink"},
        sessionAffinity="None",
        ports=[
            {"name": "http", "port": 80, "targetPort": "web"},
            {"name": "dns", "port": 80, "protocol": "UDP", "targetPort": 53},
        ],
    )
    assert causes_of(SERVICE, service) == []


@pytest.mark.parametrize(("members", "cause"), BAD_CONFIG_MAPS.values(), ids=BAD_CONFIG_MAPS)
def test_refuses_config_maps(members, cause, causes_of):
    """Keys and values."""
    assert causes_of(CONFIG_MAP, {"metadata": {"name": "x"}, **members}) == [cause]


def test_a_sealed_config_map_stays(causes_of):
    """``immutable`` cannot be taken back, and nothing behind it changes."""
    old = {"metadata": {"name": "x"}, "data": {"a": "b"}, "immutable": True}
    assert causes_of(CONFIG_MAP, old, old) == []
    new = {"metadata": {"name": "x"}, "data": {"a": "c"}}
    assert causes_of(CONFIG_MAP, new, old) == [("immutable", "Forbidden"), ("data", "Forbidden")]


def test_an_event_names_its_object(causes_of):
    """Times are times."""
    event = {"metadata": {"name": "x"}, "lastTimestamp": "today", "count": 2**31}
    assert causes_of(EVENT, event) == [
        ("involvedObject", "Required"),
        ("lastTimestamp", "Invalid"),
        ("count", "Invalid"),
    ]


def test_a_status_is_of_the_right_types(make, causes_of):
    """Clients may write a status; what reads it relies on its shape."""
    broker = {**make(BROKER), "status": {"conditions": [{"type": "Ready", "status": True}]}}
    assert causes_of(BROKER, broker) == [("status.conditions[0].status", "TypeInvalid")]
    assert causes_of(NAMESPACE, {"metadata": {"name": "x"}, "status": {"phase": "Gone"}}) == [
        ("status.phase", "NotSupported")
    ]


def test_nobody_makes_the_broker_of_the_server(make, causes_of):
    """One of an earlier version may be changed, and deleted."""
    own = make(BROKER, config=CONFIG)
    own["metadata"]["name"] = "lifecycle"
    assert causes_of(BROKER, own) == [("metadata.name", "Forbidden")]
    assert causes_of(BROKER, own, own) == []


@pytest.mark.parametrize("kind", [TRIGGER, SUBSCRIPTION], ids=lambda kind: kind.plural)
@pytest.mark.parametrize(("text", "faults"), [("true", 0), ("false", 0), ("yes", 1), ("", 1)])
def test_the_wish_for_events_about_itself_is_true_or_false(make, causes_of, kind, text, faults):
    """A wrong word would be a wish that nobody fulfils."""
    wish = annotated(make(kind), **{"distributary.dev/lifecycle": text})
    field = "metadata.annotations[distributary.dev/lifecycle]"
    assert causes_of(kind, wish) == [(field, "Invalid")] * faults
