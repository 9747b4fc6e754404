"""Whose consent is asked for: the targets of a Trigger's route."""

import pytest

from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.resource import Reach, target_key
from distributary.routes import RouteEndpoint, RouteSettings
from distributary.subscriptions.consent import targets_of
from distributary.subscriptions.store import ListedRoute

SINK, DEAD = "https://sink.example/in", "https://sink.example/dead"


@pytest.mark.parametrize(("namespace", "of"), [("shop", "shop"), ("", "default")])
def test_targets_of_a_trigger_are_of_its_namespace(namespace, of):
    """Consent to one tenant is none to another one; an older route without a namespace has one."""
    settings = RouteSettings(
        name="Trigger shop/orders",
        namespace=namespace,
        sink=RouteEndpoint(SINK),
        dead_letter=RouteEndpoint(DEAD),
        policy=DeliveryPolicy(3, BackoffPolicy.LINEAR, 0.5, 60.0, 5.0),
    )
    found = targets_of(ListedRoute(1, settings), Reach())
    assert [target.key for target in found] == [target_key(of, uri, None) for uri in (SINK, DEAD)]
    assert {target.destination.tenant for target in found} == {of}
