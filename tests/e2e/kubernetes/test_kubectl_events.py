"""From `kubectl apply` to an event at a sink, and what becomes of it after `kubectl delete`."""

import json

import pytest

from distributary.knative.kinds import TRIGGER as TRIGGERS
from kit.answering_sinks import answered, respond
from kit.running_server import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETTLE_S_MAX = 60.0
"""Longest wait until everything has come to its end."""

BROKER = """\
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {{name: {name}}}
spec: {{delivery: {delivery}}}
---
"""

TRIGGER = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {{name: {name}}}
spec:
  broker: {broker}
  filter: {{attributes: {{type: order}}}}
  subscriber: {{uri: "{uri}"}}
---
"""

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: till
  annotations: {{distributary.dev/address: "127.0.0.1:{port}"}}
spec: {{ports: [{{port: 80}}]}}
---
"""

PIPE = """\
apiVersion: messaging.knative.dev/v1
kind: Channel
metadata: {{name: pipe}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {{name: end}}
spec:
  channel: {{apiVersion: messaging.knative.dev/v1, kind: Channel, name: pipe}}
  subscriber: {{ref: {{apiVersion: v1, kind: Service, name: till}}, uri: "{path}"}}
"""


@pytest.fixture
def settled(server):
    """Waits until every event that was accepted has come to its end."""
    return lambda: wait_until(server.settled, SETTLE_S_MAX, "everything settles")


def test_an_event_arrives_while_its_trigger_stands(kubectl, sinks, settled):
    """Not before, not after, and not at a Broker that is gone."""
    sink = sinks.sink(f"/{kubectl.namespace}/orders")
    address = f"/brokers/{kubectl.namespace}/shop"
    kubectl.apply(BROKER.format(name="shop", delivery="{}"))
    kubectl.ready("broker/shop")
    kubectl.api.publish(address, type="order", id="early")
    kubectl.apply(TRIGGER.format(name="orders", broker="shop", uri=sink.url))
    kubectl.ready("trigger/orders")
    kubectl.api.publish(address, type="order", id="mine")
    kubectl.api.publish(address, type="refund", id="other")
    sink.wait()
    kubectl("delete", "trigger/orders")
    kubectl.api.publish(address, type="order", id="late")
    settled()
    assert sink.ids == ["mine"]
    kubectl("delete", "broker/shop")
    assert kubectl.api.post(address, {"specversion": "1.0", "id": "x"}).status == 404


def test_a_patch_counts_from_its_answer_on(kubectl, sinks, settled):
    """Another filter and another subscriber, for events that are accepted later."""
    first, second = (sinks.sink(f"/{kubectl.namespace}/{name}") for name in ("first", "second"))
    address = f"/brokers/{kubectl.namespace}/shop"
    kubectl.apply(BROKER.format(name="shop", delivery="{}"))
    kubectl.apply(TRIGGER.format(name="orders", broker="shop", uri=first.url))
    kubectl.ready("broker/shop", "trigger/orders")
    kubectl.api.publish(address, type="order", id="a")
    spec = {"filter": {"attributes": {"type": "refund"}}, "subscriber": {"uri": second.url}}
    kubectl("patch", "trigger/orders", "--type=merge", "-p", json.dumps({"spec": spec}))
    seen = kubectl.field("trigger/orders", ".metadata.generation")
    kubectl.api.wait_condition(TRIGGERS, "orders", "True")
    assert seen == kubectl.field("trigger/orders", ".status.observedGeneration") == "2"
    kubectl.api.publish(address, type="order", id="b")
    kubectl.api.publish(address, type="refund", id="c")
    settled()
    assert (first.ids, second.ids) == (["a"], ["c"])


def test_a_service_is_followed_to_where_it_is(kubectl, sinks):
    """A Subscription to a Service that turns up later."""
    sink = sinks.sink(f"/{kubectl.namespace}/pipe")
    kubectl.apply(PIPE.format(path=f"/{kubectl.namespace}/pipe"))
    kubectl("wait", "--for=condition=Ready=False", "subscription/end", "--timeout=60s")
    kubectl.apply(SERVICE.format(port=sinks.port))
    kubectl.ready("channel/pipe", "subscription/end")
    kubectl.api.publish(f"/channels/{kubectl.namespace}/pipe", id="a")
    sink.wait_for("a")
    (arrival,) = sink.arrivals
    assert arrival.headers["prefer"] == "reply"


def test_brokers_that_are_dead_letter_sinks_of_each_other_end_at_the_hop_limit(
    kubectl, sinks, settled
):
    """References in a circle are followed as far as the event may go, and no further."""
    refusing = sinks.sink(f"/{kubectl.namespace}/refusing", answered(respond(400)))
    for name, other in (("one", "two"), ("two", "one")):
        ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": other}
        delivery = json.dumps({"retry": 0, "deadLetterSink": {"ref": ref}})
        kubectl.apply(BROKER.format(name=name, delivery=delivery))
        kubectl.apply(TRIGGER.format(name=name, broker=name, uri=refusing.url))
    kubectl.ready("broker/one", "broker/two", "trigger/one", "trigger/two")
    address = f"/brokers/{kubectl.namespace}/one"
    kubectl.api.publish(address, type="order", id="round", knativebrokerttl=6)
    settled()
    assert refusing.ids == ["round"] * 5
