"""What a node that does not lead answers for itself."""

import asyncio

import pytest

from distributary.access import Grant, Identity, IdentityKind, Verb, encode_identity
from distributary.datadir import DataDir
from distributary.server.processes.node._node_health import node_application
from distributary.server.processes.supervision.health import Health
from distributary.testing.virtual import VirtualClock
from kit.asgi_client import AsgiClient


@pytest.fixture
def health(tmp_path):
    """Metrics of two namespaces, and of the node."""
    made = Health(DataDir(tmp_path), 1, VirtualClock(), behind=lambda: None, restarts=dict)

    def count(meter):
        for namespace in ("shop", "till"):
            meter.add(f'namespace_events_total{{namespace="{namespace}"}}', 3)

    made.count_more = count
    return made


def test_metrics_of_a_node_are_those_that_the_sender_observes(health):
    """As where the node leads."""
    with asyncio.Runner() as runner:
        client = AsgiClient(node_application(health, None), runner)

        def series(namespace):
            grants = (Grant(may=(Verb.OBSERVE,), namespaces=(namespace,)),)
            sender = Identity(name="key:x", how=IdentityKind.KEY, grants=grants)
            headers = [("x-distributary-identity", encode_identity(sender).decode())]
            text = client.request("GET", "/metrics", headers=headers).body.decode()
            return [line for line in text.splitlines() if not line.startswith("#")]

        assert series("shop") == ['distributary_namespace_events_total{namespace="shop"} 3.0']
        assert series("bank") == []
        whole = series("*")
        assert 'distributary_namespace_events_total{namespace="till"} 3.0' in whole
        assert "distributary_ready 0.0" in whole


@pytest.mark.parametrize(("namespaces", "told"), [(("*",), True), (("shop",), False), ((), False)])
def test_why_a_node_is_not_ready_is_for_who_observes(tmp_path, namespaces, told):
    """A reason names the host of the database, and comes when strangers look."""
    why = "connection to server at 10.0.0.7 failed"
    health = Health(DataDir(tmp_path), 1, VirtualClock(), behind=lambda: why, restarts=dict)
    grants = (Grant(may=(Verb.OBSERVE,), namespaces=namespaces),) if namespaces else ()
    sender = Identity(name="key:x", how=IdentityKind.KEY, grants=grants)
    headers = [("x-distributary-identity", encode_identity(sender).decode())]
    with asyncio.Runner() as runner:
        client = AsgiClient(node_application(health, None), runner)
        answer = client.request("GET", "/readyz", headers=headers)
    assert answer.status == 503
    assert (why.encode() in answer.body) is told
