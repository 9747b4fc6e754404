"""What one tenant leaves to the others of watches and of requests that are passed on."""

from types import SimpleNamespace

import pytest

from distributary.access import Grant, Identity, IdentityKind, Verb
from distributary.core.errors import RequestError
from distributary.net.http1 import Request
from distributary.server.ingest import IngestSettings, _limits
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._held_bodies import HeldBodies
from distributary.server.ingest._relay_limits import RelayLimits

SETTINGS = IngestSettings(connections_max=40)
OTHERS = SimpleNamespace(elsewhere=lambda _count: 0, add=lambda _count, _step: None)
PATHS = {
    SETTINGS.watches_max: b"/api/v1/watch/services",
    _limits.RELAYS_MAX: b"/subscriptions",
}


def limits_of(counters):
    """Limits of a receiver that is alone."""
    return RelayLimits(counters, OTHERS, HeldBodies(counters))


def request_of(path, *namespaces):
    """A request of a key for *namespaces*."""
    request = Request()
    request.method, request.target, request.path = b"GET", path, path
    grants = (Grant(may=(Verb.READ,), namespaces=namespaces),)
    request.sender = Identity(name="key:k", how=IdentityKind.KEY, grants=grants)
    return request


def taken(limits, request, most):
    """How many such requests fit beside those that are under way."""
    for count in range(most + 1):
        try:
            limits.check(request, SETTINGS)
        except RequestError:
            return count
        limits.count(request, 1)
    raise AssertionError("there is no limit")


@pytest.mark.parametrize(("most", "path"), PATHS.items(), ids=["watches", "requests"])
def test_a_tenant_leaves_places_to_others(most, path):
    """Half of them while nobody else asks; once half are taken, a quarter for each."""
    limits = limits_of(Counters())
    shop, till = request_of(path, "shop"), request_of(path, "till")
    assert taken(limits, shop, most) == most // 2
    assert taken(limits, till, most) == most // 4
    for _ in range(most // 2 - most // 4 + 1):
        limits.count(shop, -1)
    assert taken(limits, shop, most) == 1 + most // 2 - most // 4 - most // 4


@pytest.mark.parametrize("namespaces", [("*",), ("shop", "till")])
@pytest.mark.parametrize(("most", "path"), PATHS.items(), ids=["watches", "requests"])
def test_who_acts_in_several_namespaces_is_no_tenant(most, path, namespaces):
    """An operator has what is left."""
    limits = limits_of(Counters())
    taken(limits, request_of(path, "shop"), most)
    assert taken(limits, request_of(path, *namespaces), most) == most - most // 2
