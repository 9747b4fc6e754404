"""Clauses of destinations: what references and URIs stand for."""

import pytest

from distributary.knative.kinds import BROKER, CHANNEL, SERVICE, SUBSCRIPTION, TRIGGER
from kit.answering_sinks import AnsweringSinks
from kit.knative_client import condition, reference
from kit.running_server import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def subscriber_uri(world, destination) -> str:
    """Where a Trigger with this subscriber delivers."""
    world.create(BROKER, "own", {})
    world.create(TRIGGER, "resolved", {"broker": "own", "subscriber": destination})
    uri: str = world.ready(TRIGGER, "resolved")["status"]["subscriberUri"]
    return uri


@pytest.mark.clause("knative.destination.addressable")
@pytest.mark.clause("knative.destination.broker-and-channel")
@pytest.mark.clause("knative.destination.any-addressable")
@pytest.mark.clause("knative.destination.uri.optional")
@pytest.mark.parametrize(("kind", "path"), [(BROKER, "brokers"), (CHANNEL, "channels")])
def test_an_addressable_stands_for_its_url(world, kind, path):
    """A Broker, a Channel; and events of one go through the other."""
    sink = world.sink()
    world.create(kind, "target", {})
    target = world.ready(kind, "target")
    uri = subscriber_uri(world, {"ref": reference(kind, "target")})
    assert uri == target["status"]["address"]["url"]
    assert uri == f"{world.server.url}/{path}/{world.namespace}/target"
    if kind is BROKER:
        world.trigger(sink.url, broker="target")
    else:
        world.subscription(sink.url, channel="target")
    sink.wait_for(world.publish(world.address(BROKER, "own")))


@pytest.mark.clause("knative.destination.service")
def test_a_service_stands_for_its_name_in_the_cluster(world):
    """And is dialled where its annotation says; the name stays in Host."""
    sink = world.sink()
    place = {"distributary.dev/address": f"127.0.0.1:{world.sinks.port}"}
    world.create(SERVICE, "svc", {"ports": [{"port": 80}]}, annotations=place)
    name = f"svc.{world.namespace}.svc"
    destination = {"ref": reference(SERVICE, "svc"), "uri": f"/{world.namespace}/sink"}
    assert subscriber_uri(world, destination) == f"http://{name}/{world.namespace}/sink"
    sink.wait_for(world.publish(world.address(BROKER, "own")))
    assert sink.arrivals[0].headers["host"] == name
    world.create(TRIGGER, "t", {"broker": "own", "subscriber": {"ref": reference(SERVICE, "svc")}})
    assert world.ready(TRIGGER, "t")["status"]["subscriberUri"] == f"http://{name}/"


def test_a_service_of_type_external_name_is_dialled_there(world):
    """By its first port."""
    sink = world.sink()
    spec = {"type": "ExternalName", "externalName": "localhost"}
    ports = [{"port": world.sinks.port}]
    world.create(SERVICE, "svc", {**spec, "ports": ports})
    destination = {"ref": reference(SERVICE, "svc"), "uri": f"/{world.namespace}/sink"}
    subscriber_uri(world, destination)
    sink.wait_for(world.publish(world.address(BROKER, "own")))


@pytest.mark.clause("knative.destination.relative-uri")
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("path", "/brokers/{}/path"),
        ("/channels/x?query=1", "/channels/x?query=1"),
        ("?query=1", "/brokers/{}/target?query=1"),
        ("../x", "/brokers/x"),
        ("http://elsewhere.example/x", "http://elsewhere.example/x"),
    ],
)
def test_a_uri_beside_a_reference_is_relative_to_it(world, uri, path):
    """As RFC 3986 has it; one that is absolute counts alone."""
    world.create(BROKER, "target", {})
    resolved = subscriber_uri(world, {"ref": reference(BROKER, "target"), "uri": uri})
    expected = path.format(world.namespace)
    assert resolved == (expected if "://" in path else world.server.url + expected)


@pytest.mark.clause("knative.destination.unresolved.not-ready")
@pytest.mark.clause("knative.destination.unresolved.reason")
@pytest.mark.parametrize(
    "ref",
    [
        reference(SERVICE, "missing"),
        reference(BROKER, "missing"),
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube"},
        {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x"},
        reference(SERVICE, "there", namespace="other"),
    ],
    ids=["no Service", "no Broker", "not addressable", "unknown kind", "other namespace"],
)
def test_a_reference_that_leads_nowhere_makes_its_owner_not_ready(world, ref):
    """Trigger and Subscription; condition and message name what is missing."""
    world.create(SERVICE, "there", {"ports": [{"port": 80}]})
    world.broker()
    world.channel()
    world.create(TRIGGER, "t", {"broker": "b", "subscriber": {"ref": ref}})
    channel = {"channel": reference(CHANNEL, "c")}
    world.create(SUBSCRIPTION, "s", {**channel, "subscriber": {"ref": ref}})
    for kind, name, type_ in (
        (TRIGGER, "t", "SubscriberResolved"),
        (SUBSCRIPTION, "s", "ReferencesResolved"),
    ):
        found = condition(world.wait_condition(kind, name, "False"), type_)
        assert found["status"] == "False"
        assert found["reason"]
        assert ref["name"] in found["message"]


def test_a_destination_is_resolved_anew_when_what_it_names_changes(world):
    """The Service moves to another port, and its events with it; then it is deleted."""
    first, second = world.sink(), world.sink(name="second")
    place = "distributary.dev/address"
    here = {place: f"127.0.0.1:{world.sinks.port}"}
    world.create(SERVICE, "svc", {"ports": [{"port": 80}]}, annotations=here)
    uri = f"/{world.namespace}/sink"
    subscriber_uri(world, {"ref": reference(SERVICE, "svc"), "uri": uri})
    address = world.address(BROKER, "own")
    first.wait_for(world.publish(address))
    world.patch(TRIGGER, "resolved", subscriber={"uri": f"/{world.namespace}/second"})
    world.ready(TRIGGER, "resolved")
    second.wait_for(world.publish(address))
    with AnsweringSinks() as others:
        moved = others.sink(f"/{world.namespace}/second")
        there = {place: f"127.0.0.1:{others.port}"}
        answer = world.merge(SERVICE, "svc", {"metadata": {"annotations": there}})
        assert answer.status == 200
        # Nothing in the status tells when: the Service's name is what it shows.
        wait_until(lambda: bool(world.publish(address) and moved.ids), 20.0, "it moves", 0.2)
    world.delete(SERVICE, "svc")
    world.wait_condition(TRIGGER, "resolved", "False")


@pytest.mark.clause("knative.destination.ref.optional")
@pytest.mark.parametrize(
    ("destination", "fault"),
    [
        ({}, "spec.subscriber"),
        ({"uri": "relative"}, "spec.subscriber.uri"),
        ({"uri": "ftp://example.com/"}, "spec.subscriber.uri"),
        ({"uri": "http://"}, "spec.subscriber.uri"),
        ({"ref": {"kind": "Service", "name": "x"}}, "spec.subscriber.ref.apiVersion"),
        ({"uri": 1}, "spec.subscriber.uri"),
    ],
)
def test_a_destination_without_a_way_to_resolve_it_is_refused(world, destination, fault):
    """Neither ref nor uri, or one that can never be right; a uri alone is enough."""
    answer = world.propose(TRIGGER, "t", {"broker": "b", "subscriber": destination})
    assert fault in world.faulty_fields(answer)
    world.broker()
    world.trigger(world.sink().url)


@pytest.mark.clause("knative.reference.namespace.optional")
def test_a_reference_without_a_namespace_means_its_own(world):
    """With one it means that."""
    other = world.elsewhere()
    world.broker("target")
    other.broker("target")
    world.broker()
    urls = []
    for name, ref in (
        ("own", reference(BROKER, "target")),
        ("other", reference(BROKER, "target", namespace=other.namespace)),
    ):
        world.create(TRIGGER, name, {"broker": "b", "subscriber": {"ref": ref}})
        urls.append(world.ready(TRIGGER, name)["status"]["subscriberUri"])
    assert urls == [
        f"{world.server.url}/brokers/{space}/target" for space in (world.namespace, other.namespace)
    ]


@pytest.mark.clause("knative.reference.api-version.required")
@pytest.mark.clause("knative.reference.kind.required")
@pytest.mark.clause("knative.reference.name.required")
@pytest.mark.parametrize("missing", ["apiVersion", "kind", "name"])
def test_a_reference_says_api_version_kind_and_name(world, missing):
    """Each absence is named; so it is in a Subscription's channel."""
    whole = reference(CHANNEL, "c")
    part = {name: value for name, value in whole.items() if name != missing}
    answer = world.propose(TRIGGER, "t", {"broker": "b", "subscriber": {"ref": part}})
    assert world.faulty_fields(answer) == [f"spec.subscriber.ref.{missing}"]
    answer = world.propose(SUBSCRIPTION, "s", {"channel": part, "reply": {"uri": world.nowhere}})
    assert world.faulty_fields(answer) == [f"spec.channel.{missing}"]
