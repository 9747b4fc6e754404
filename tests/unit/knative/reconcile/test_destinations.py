"""Destinations: references, URIs relative to them, and what is dialled."""

import dataclasses

import pytest
from structlog.testing import capture_logs
from tests.unit.knative.reconcile.conftest import SINK, SITE

from distributary.knative.apiserver.machinery import Key
from distributary.knative.reconcile import Site
from distributary.resource import SinkRule
from distributary.routes.settings import encode_settings
from kit.servers import Authority

CERTS = "PEM"


def sink(world, destination, name="t"):
    """The endpoint that a Trigger with this subscriber gets; None: it does not resolve."""
    spec = {"broker": "default", "subscriber": destination}
    settings = world.settings(world.apply("Trigger", name, spec))
    return None if settings is None else settings.sink


def test_a_service_is_dialled_where_it_says(world):
    """The status has its cluster name; outside of a cluster something else is dialled."""
    world.service("plain")
    world.service("external", type="ExternalName", externalName="svc.example")
    world.service("local", {"distributary.dev/address": "127.0.0.1:9001"})
    found = [sink(world, world.at("Service", name)) for name in ("plain", "external", "local")]
    assert [each.uri for each in found] == [
        "http://plain.default.svc/",
        "http://external.default.svc/",
        "http://local.default.svc/",
    ]
    assert [each.dial for each in found] == [None, "svc.example:8081", "127.0.0.1:9001"]


def test_a_sink_that_new_settings_forbid_is_refused_until_they_allow_it(world):
    """Its route stands meanwhile: what is for it waits, and is not lost."""
    world.apply("Trigger", "t", {"broker": "default", "subscriber": world.to()})
    sites = (Site(SITE.public_url, SITE.dial, SinkRule(local_allowed=False)), SITE)
    found = []
    for site in sites:
        world.reconciler.change_site(site)
        world.settle()
        trigger = world.get("Trigger", "t")
        found.append((world.condition(trigger, "SubscriberResolved"), world.settings(trigger)))
    (refused, before), (allowed, after) = found
    assert (refused, allowed) == (("False", "BlockedAddress"), ("True", ""))
    assert (before.sink.uri, before.unusable) == (SINK, None)
    assert "allow_sinks" in before.refused
    assert (after.sink.uri, after.refused) == (SINK, None)


def test_a_service_with_certificates_is_spoken_to_by_tls(world, tmp_path):
    """As Knative makes ``https`` of it; what is dialled stays."""
    world.service("s", {"distributary.dev/address": "127.0.0.1:9001"})
    world.service("external", type="ExternalName", externalName="svc.example", ports=[])
    certificates = {"CACerts": Authority(tmp_path).ca_certs}
    found = sink(world, world.at("Service", "s", **certificates))
    assert (found.uri, found.dial) == ("https://s.default.svc/", "127.0.0.1:9001")
    below = sink(world, world.at("Service", "s", uri="/a", **certificates), "below")
    assert (below.uri, below.dial) == ("https://s.default.svc/a", "127.0.0.1:9001")
    assert (
        sink(world, world.at("Service", "external", **certificates), "e").dial == "svc.example:443"
    )
    assert world.get("Trigger", "t")["status"]["subscriberUri"] == "https://s.default.svc/"


def test_trust_bundles_are_trusted_by_every_destination_with_https(world, tmp_path):
    """And by no other; the status shows what the destination names itself."""
    own, bundle, later = (Authority(tmp_path / name).ca_certs for name in ("own", "b", "later"))

    def bind(name, label, **data):
        labels = {"networking.knative.dev/trust-bundle": label}
        key = Key("configmaps", "knative-eventing", name)
        made = {"metadata": {"name": name, "labels": labels}, "data": data}
        world.runner.run(world.objects.put(key, lambda before: {**(before or {}), **made}))
        world.settle(all_of="default")

    bind("b", "true", pem=bundle)
    bind("no", "false", pem=later)
    bind("bad", "true", pem="no certificate")
    secure = world.to("https://one.example/", CACerts=own)
    found = sink(world, secure)
    assert (found.ca_certs, found.bundles, found.trusted) == (own, bundle, f"{own}\n{bundle}")
    assert world.get("Trigger", "t")["status"]["subscriberCACerts"] == own
    assert sink(world, world.to("https://two.example/"), "plain").trusted == bundle
    assert "subscriberCACerts" not in world.get("Trigger", "plain")["status"]
    assert sink(world, world.to("http://three.example/"), "http").trusted is None
    bind("b", "true", pem=later)
    assert world.settings(world.get("Trigger", "plain")).sink.trusted == later
    world.runner.run(world.objects.delete(Key("configmaps", "knative-eventing", "b")))
    world.settle(all_of="default")
    assert world.settings(world.get("Trigger", "plain")).sink.trusted is None


def test_certificates_of_a_dead_letter_sink_stand_where_it_is_named(world, tmp_path):
    """Not in the status of each Trigger whose Broker names it; deliveries have them."""
    own = Authority(tmp_path).ca_certs
    dead = {"deadLetterSink": world.to("https://dead.example/", CACerts=own)}
    broker = world.apply("Broker", "b", {"delivery": dead})
    assert broker["status"]["deadLetterSinkCACerts"] == own
    spec = {"broker": "b", "subscriber": world.to()}
    made = world.apply("Trigger", "t", spec)
    assert made["status"]["deadLetterSinkUri"] == "https://dead.example/"
    assert "deadLetterSinkCACerts" not in made["status"]
    assert world.settings(made).dead_letter.ca_certs == own
    made = world.apply("Trigger", "t", {**spec, "delivery": dead})
    assert made["status"]["deadLetterSinkCACerts"] == own


def test_a_trust_bundle_that_cannot_be_read_is_told_once(world):
    """However many destinations ask for the bundles."""
    labels = {"networking.knative.dev/trust-bundle": "true"}
    made = {"metadata": {"name": "bad", "labels": labels}, "data": {"pem": "no certificate"}}
    with capture_logs() as told:
        key = Key("configmaps", "knative-eventing", "bad")
        world.runner.run(world.objects.put(key, lambda _: made))
        for name in ("one", "two"):
            assert sink(world, world.to(f"https://{name}.example/"), name).trusted is None
    assert [line["event"] for line in told].count("trust-bundle-left-out") == 1


@pytest.mark.parametrize(
    ("uri", "expected", "dialled"),
    [
        ("/a/b", "http://s.default.svc/a/b", True),
        ("a?x=1", "http://s.default.svc/a?x=1", True),
        ("../up", "http://s.default.svc/up", True),
        ("//other.example/p", "http://other.example/p", False),
        ("https://other.example/", "https://other.example/", False),
    ],
)
def test_a_uri_is_relative_to_its_reference(world, uri, expected, dialled):
    """RFC 3986; another host than the Service's is not dialled as the Service is."""
    world.service("s", {"distributary.dev/address": "127.0.0.1:9001"})
    found = sink(world, world.at("Service", "s", uri=uri))
    assert found.uri == expected
    assert (found.dial is not None) is dialled


def test_brokers_and_channels_are_destinations(world):
    """Ours: reached on this machine, and passes are counted."""
    world.apply("Broker", "b", namespace="other")
    world.apply("Channel", "c")
    ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "b"}
    broker = sink(world, {"ref": {**ref, "namespace": "other"}}, "one")
    channel = sink(world, world.at("Channel", "c"), "two")
    written = sink(world, world.to("HTTP://Events.Example:8080/brokers/other/b"), "three")
    assert broker.uri == "http://events.example:8080/brokers/other/b"
    assert channel.uri == "http://events.example:8080/channels/default/c"
    assert {each.own for each in (broker, channel, written)} == {True}
    assert {each.dial for each in (broker, channel, written)} == {"127.0.0.1:8080"}


def test_a_service_that_stands_for_this_server_is_our_own(world):
    """Its passes are counted as a Broker's are; paths that take no events are like anybody's."""
    world.service("s", {"distributary.dev/address": "127.0.0.1:8080"})
    ours = sink(world, world.at("Service", "s", uri="/brokers/default/default"))
    assert (ours.uri, ours.own) == ("http://s.default.svc/brokers/default/default", True)
    assert ours.dial == "127.0.0.1:8080"
    assert not sink(world, world.at("Service", "s", uri="/subscriptions"), "u").own


def test_references_in_a_circle_resolve(world):
    """An address depends on no reference; what goes round ends at the hop limit."""
    one = world.apply("Broker", "one", {"delivery": {"deadLetterSink": world.at("Broker", "two")}})
    assert world.ready(one) == "False"
    world.apply("Broker", "two", {"delivery": {"deadLetterSink": world.at("Broker", "one")}})
    for name in ("one", "two"):
        assert world.ready(world.get("Broker", name)) == "True"
        spec = {"broker": name, "subscriber": world.at("Broker", name)}
        assert world.ready(world.apply("Trigger", name, spec)) == "True"
    world.apply("Channel", "a")
    world.apply("Channel", "b")
    for name, other in (("a", "b"), ("b", "a")):
        channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": name}
        spec = {"channel": channel, "subscriber": world.at("Channel", other)}
        assert world.ready(world.apply("Subscription", name, spec)) == "True"


def test_a_missing_configuration_is_told_and_blocks_nothing(world):
    """Nothing in it concerns this server."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "namespace": "default"}
    broker = world.apply("Broker", "b", {"config": config})
    assert world.condition(broker, "ConfigurationResolved") == ("False", "NotFound")
    assert world.ready(broker) == "True"
    world.apply("ConfigMap", "m")
    broker = world.get("Broker", "b")
    assert world.condition(broker, "ConfigurationResolved") == ("True", "")


def test_only_those_who_asked_look_again(world):
    """A thousand Triggers do not move for a Service that one of them refers to."""
    world.service("s")
    for name in ("a", "b", "c"):
        sink(world, world.to(), name)
    sink(world, world.at("Service", "s"))
    before = world.counts["objects_reconciled_total"]
    world.service("s", {"distributary.dev/address": "127.0.0.1:9001"})
    # The one Trigger, and once more for its own new status where that changed: it did not.
    assert world.counts["objects_reconciled_total"] - before == 1


@pytest.mark.parametrize(
    ("uri", "owned"),
    [
        ("http://events.example/brokers/default/b", True),
        ("http://events.example.:80/brokers/default/b", True),
        ("http://EVENTS.example/channels/default/c", True),
        ("http://events.example/events", True),
        ("http://events.example/subscriptions", False),
        ("http://events.example/", False),
        ("http://localhost:8080/brokers/default/b", True),
        ("http://localhost:8081/brokers/default/b", False),
        ("https://events.example/brokers/default/b", False),
        ("http://other.example/brokers/default/b", False),
    ],
)
def test_every_name_of_this_server_is_its_own(uri, owned):
    """Or a loop by another name of the server would never end."""
    site = Site(
        "http://events.example",
        "127.0.0.1:8080",
        SinkRule(local_allowed=True),
        ("http://localhost:8080",),
    )
    assert site.owns(uri) is owned


def test_an_audience_goes_with_its_destination_to_the_pipeline(world):
    """And who delivers there: the service account that Knative gives a Trigger."""
    world.apply("Broker", "b")
    trigger = world.apply(
        "Trigger",
        "orders",
        {
            "broker": "b",
            "subscriber": world.to(audience="urn:sink"),
            "delivery": {"deadLetterSink": world.to("http://127.0.0.1:9/dead")},
        },
    )
    settings = world.settings(trigger)
    assert settings.sink.audience == "urn:sink"
    assert settings.dead_letter.audience is None
    account = "orders-oidc-eventing.knative.dev-trigger"
    assert settings.subject == f"system:serviceaccount:default:{account}"
    assert trigger["status"]["subscriberAudience"] == "urn:sink"


def test_a_subscription_says_who_it_is(world):
    """Also where the reply alone has an audience."""
    world.apply("Channel", "c")
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "c"}
    spec = {"channel": channel, "subscriber": world.to(), "reply": world.to(audience="urn:r")}
    settings = world.settings(world.apply("Subscription", "s", spec))
    assert (settings.sink.audience, settings.reply.audience) == (None, "urn:r")
    account = "s-oidc-messaging.knative.dev-subscription"
    assert settings.subject == f"system:serviceaccount:default:{account}"


def test_what_has_no_audience_is_stored_as_before(world):
    """No route is written again by a new version; this server's own Brokers need none."""
    world.apply("Broker", "b")
    world.apply("Broker", "own")
    plain = world.apply("Trigger", "plain", {"broker": "b", "subscriber": world.to()})
    assert b"audience" not in encode_settings(world.settings(plain))
    assert world.settings(plain).subject is None
    subscriber = world.at("Broker", "own", audience="urn:own")
    own = world.apply("Trigger", "own", {"broker": "b", "subscriber": subscriber})
    assert world.settings(own).sink.own
    assert world.settings(own).subject is None


@pytest.mark.parametrize(
    ("kind", "audience"),
    [
        ("Broker", "eventing.knative.dev/broker/default/main"),
        ("Channel", "messaging.knative.dev/channel/default/main"),
    ],
)
def test_addresses_name_an_audience_where_clients_must_show_who_they_are(world, kind, audience):
    """As Knative writes it; without authentication there is none."""
    address = world.apply(kind, "main")["status"]["address"]
    assert "audience" not in address
    site = Site("http://events.example:8080", "127.0.0.1:8080", SinkRule(local_allowed=True))
    world.reconciler.change_site(dataclasses.replace(site, audiences=True))
    world.settle()
    assert world.get(kind, "main")["status"]["address"] == {**address, "audience": audience}
