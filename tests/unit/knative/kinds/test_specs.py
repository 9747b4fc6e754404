"""Typed specs: references with namespaces, filters translated, delivery whole."""

from dataclasses import replace

import pytest

from distributary.core.filter import check, naive_matches
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.knative.kinds import BROKER, CHANNEL, SUBSCRIPTION, TRIGGER
from distributary.knative.kinds.specs import (
    Delivery,
    DuckDestination,
    KReference,
    addressed_spec,
    subscription_spec,
    trigger_spec,
)
from distributary.resource import ResourceRules, SinkRule
from distributary.subscriptions import resource as api_subscription

REF = {"apiVersion": "v1", "kind": "Service", "name": "sink"}
EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "order",
    "subject": "42",
    "time": "2026-01-01T00:00:00Z",
    "datacontenttype": "application/json",
    "dataschema": "http://a/",
    "sequence": 7,
    "urgent": True,
}
WHOLE = Delivery(
    dead_letter_sink=None,
    policy=DeliveryPolicy(10, BackoffPolicy.EXPONENTIAL, 0.2, 300.0, 30.0),
    format="binary",
)


def changed(**policy):
    """``WHOLE`` with another policy."""
    return replace(WHOLE, policy=replace(WHOLE.policy, **policy))


@pytest.fixture
def trigger(make):
    """The typed spec of a Trigger with some members of its spec changed."""
    return lambda **spec: trigger_spec(make(TRIGGER, **spec))


def test_a_reference_without_a_namespace_means_its_own(trigger):
    """An empty namespace is none."""
    own = KReference("v1", "Service", "sink", "default")
    for namespace in ({}, {"namespace": ""}):
        assert trigger(subscriber={"ref": {**REF, **namespace}}).subscriber.ref == own
    elsewhere = trigger(subscriber={"ref": {**REF, "namespace": "other"}}).subscriber.ref
    assert elsewhere == KReference("v1", "Service", "sink", "other")


def test_a_destination_carries_what_it_is_trusted_by(trigger):
    """Certificates and audience go with it; empty ones are none."""
    found = trigger(subscriber={"uri": "http://a", "CACerts": "PEM", "audience": "me"}).subscriber
    assert found == DuckDestination(None, "http://a", "PEM", "me")
    assert trigger(subscriber={"uri": "http://a", "CACerts": ""}).subscriber.ca_certs is None


@pytest.mark.parametrize("delivery", [..., None])
def test_no_delivery_is_none(delivery, trigger):
    """Then the options of the Broker count."""
    assert trigger(delivery=delivery).delivery is None


@pytest.mark.parametrize("options", [{}, {"timeout": "PT5S"}, {"backoffPolicy": "exponential"}])
def test_a_delivery_that_says_nothing_of_retry_makes_none(options, trigger):
    """As Knative reads it: the other options have their defaults, and nothing is tried again."""
    found = trigger(delivery=options).delivery
    timeout_s = 5.0 if "timeout" in options else WHOLE.policy.timeout_s
    assert found == changed(retry=0, timeout_s=timeout_s)


def test_what_was_written_before_means_what_it_meant(make):
    """Without ``retry`` the default; an empty delivery was none."""

    def early(**delivery):
        return trigger_spec(make(TRIGGER, delivery=delivery), early=True).delivery

    assert early(timeout="PT5S") == changed(timeout_s=5.0)
    assert early(retry=3) == changed(retry=3)
    assert early() is None


def test_one_option_makes_a_whole_delivery(trigger):
    """The others are as they are by default; the Subscriptions API has the same defaults."""
    assert trigger(delivery={"retry": 10}).delivery == WHOLE
    body = {"sink": "http://a", "protocol": "HTTP"}
    realized = api_subscription.restore(_realized(body)).policy
    assert realized == WHOLE.policy


def _realized(body):
    rules = ResourceRules(SinkRule(local_allowed=True), check)
    return api_subscription.parse(body, rules).realized


def test_all_options_are_read(make):
    """In seconds, and ``json`` is structured."""
    spec = addressed_spec(
        make(
            CHANNEL,
            delivery={
                "deadLetterSink": {"ref": REF},
                "retry": 0,
                "backoffPolicy": "linear",
                "backoffDelay": "PT1M",
                "backoffMax": "PT1H",
                "timeout": "PT5S",
                "format": "json",
            },
        ),
    )
    sink = DuckDestination(KReference("v1", "Service", "sink", "default"), None)
    assert spec.delivery == Delivery(
        sink, DeliveryPolicy(0, BackoffPolicy.LINEAR, 60.0, 3600.0, 5.0), "structured"
    )


def test_what_a_sink_may_ask_for_is_read(trigger):
    """In seconds; unset, it is the longest wait."""
    assert trigger(delivery={"retryAfterMax": "PT10S"}).delivery.policy.retry_after_max_s == 10.0
    assert trigger(delivery={"retry": 1}).delivery.policy.retry_after_max_s is None


def test_a_delay_beyond_the_default_ceiling_raises_it(trigger):
    """Nobody asked for a ceiling."""
    policy = trigger(delivery={"backoffDelay": "PT10M"}).delivery.policy
    assert policy.backoff_max_s == policy.backoff_delay_s == 600.0


def test_attributes_become_one_expression(trigger):
    """What has no value must be there."""
    spec = trigger(filter={"attributes": {"type": "order", "source": "", "urgent": "true"}})
    assert spec.filters == ({"exact": {"type": "order", "urgent": "true"}},)
    assert spec.present == ("source",)


@pytest.mark.parametrize(
    "given", [{}, {"filter": {}}, {"filter": {"attributes": {}}}, {"filters": []}]
)
def test_without_a_filter_every_event_passes(given, trigger):
    """Nothing is compared, nothing need be there."""
    spec = trigger(**given)
    assert (spec.filters, spec.present) == ((), ())


def test_filters_override_attributes(trigger):
    """But empty ones do not."""
    attributes = {"filter": {"attributes": {"type": "order", "source": ""}}}
    spec = trigger(filters=[{"prefix": {"type": "o"}}], **attributes)
    assert (spec.filters, spec.present) == (({"prefix": {"type": "o"}},), ())
    spec = trigger(filters=[], **attributes)
    assert (spec.filters, spec.present) == (({"exact": {"type": "order"}},), ("source",))


def test_cesql_is_called_sql_at_any_depth(trigger):
    """The dialects' room knows one name for it."""
    nested = {"all": [{"not": {"cesql": "a = 1"}}, {"any": [{"sql": "b = 2"}]}]}
    assert trigger(filters=[{"cesql": "TRUE"}, nested]).filters == (
        {"sql": "TRUE"},
        {"all": [{"not": {"sql": "a = 1"}}, {"any": [{"sql": "b = 2"}]}]},
    )


@pytest.mark.parametrize("name", EVENT)
def test_every_context_attribute_can_be_compared(name, trigger):
    """Required, optional and extension attributes alike, by their canonical text."""
    value = EVENT[name]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    (matching,) = trigger(filter={"attributes": {name: text}}).filters
    (other,) = trigger(filter={"attributes": {name: text + "x"}}).filters
    assert naive_matches([matching], EVENT)
    assert not naive_matches([other], EVENT)


def test_a_broker_names_its_settings(make):
    """With the namespace filled in."""
    spec = addressed_spec(make(BROKER, config={**REF, "kind": "ConfigMap"}))
    assert spec.config == KReference("v1", "ConfigMap", "sink", "default")
    assert addressed_spec(make(BROKER)).config is None


def test_a_subscription_has_a_subscriber_a_reply_or_both(make):
    """What is not set is None."""
    obj = make(SUBSCRIPTION, reply={"uri": "http://b"})
    spec = subscription_spec(obj)
    assert spec.channel == KReference("messaging.knative.dev/v1", "Channel", "orders", "default")
    assert spec.subscriber == DuckDestination(None, "http://sink.example/events")
    assert spec.reply == DuckDestination(None, "http://b")
    obj = make(SUBSCRIPTION, subscriber=..., reply={"uri": "http://b"})
    assert subscription_spec(obj).subscriber is None
