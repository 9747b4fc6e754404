"""What one tenant leaves to the others of watches and of requests that are passed on."""

import pytest

from distributary.access import Grant, Identity, IdentityKind, Verb
from distributary.core.errors import RequestError
from distributary.datadir import NodeCounts, make_node_counts
from distributary.net.http1 import Request
from distributary.server.ingest import IngestSettings, _limits
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._event_paths import EventPaths
from distributary.server.ingest._held_bodies import HeldBodies
from distributary.server.ingest._relay_limits import RelayLimits

SETTINGS = IngestSettings(connections_max=40)
PATHS = {
    SETTINGS.watches_max: b"/api/v1/watch/services",
    _limits.RELAYS_MAX: b"/subscriptions",
}


def limits_of(node=None):
    """Limits of a receiver; by default it is alone."""
    counters = Counters()
    bodies = HeldBodies(counters, EventPaths())
    return RelayLimits(counters, node or NodeCounts(), bodies)


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
    limits = limits_of()
    shop, till = request_of(path, "shop"), request_of(path, "till")
    assert taken(limits, shop, most) == most // 2
    assert taken(limits, till, most) == most // 4
    for _ in range(most // 2 - most // 4 + 1):
        limits.count(shop, -1)
    assert taken(limits, shop, most) == 1 + most // 2 - most // 4 - most // 4


@pytest.mark.parametrize("namespaces", [("*",), ("shop", "*")])
@pytest.mark.parametrize(("most", "path"), PATHS.items(), ids=["watches", "requests"])
def test_who_acts_in_all_namespaces_is_no_tenant(most, path, namespaces):
    """An operator has what is left."""
    limits = limits_of()
    taken(limits, request_of(path, "shop"), most)
    assert taken(limits, request_of(path, *namespaces), most) == most - most // 2


@pytest.mark.parametrize(("most", "path"), PATHS.items(), ids=["watches", "requests"])
def test_keys_for_the_same_namespaces_have_one_share(most, path):
    """However many they are, and in whatever order they name them."""
    limits = limits_of()
    both, again = request_of(path, "shop", "shop-test"), request_of(path, "shop-test", "shop")
    assert taken(limits, both, most) == most // 2
    assert taken(limits, again, most) == 0
    with pytest.raises(RequestError, match="of the namespaces shop, shop-test are open"):
        limits.check(again, SETTINGS)
    assert taken(limits, request_of(path, "till"), most) == most // 4
    for _ in range(most // 2):
        limits.count(again, -1)
    assert taken(limits, both, most) == most // 4


@pytest.mark.parametrize(("most", "path"), PATHS.items(), ids=["watches", "requests"])
def test_a_tenant_has_one_share_of_all_receivers(tmp_path, most, path):
    """What it has at one of them counts at the others, until it ends."""
    make_node_counts(tmp_path / "counts", 3)
    receivers = [limits_of(NodeCounts(tmp_path / "counts", number)) for number in range(3)]
    shop, till = request_of(path, "shop"), request_of(path, "till")
    assert taken(receivers[0], shop, most) == most // 2
    assert [taken(each, shop, most) for each in receivers] == [0, 0, 0]
    assert taken(receivers[1], till, most) == most // 4
    assert taken(receivers[2], till, most) == 0
    for _ in range(most // 2):
        receivers[0].count(shop, -1)
    for _ in range(most // 2):
        receivers[2].count(request_of(path, "*"), 1)
    assert taken(receivers[1], shop, most) == most // 4
