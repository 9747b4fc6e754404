"""Where a destination is dialled, whom it trusts, and who is told the passes of an event."""

import asyncio

import pytest
from msgspec.structs import replace

from distributary.core.deliver import Destination
from distributary.core.errors import TransportError
from distributary.core.flow import Stage
from distributary.net import AddressRule, Connector


def endpoint(uri="http://orders.shop.svc/in", **settings):
    """The endpoint of a destination."""
    return Connector(AddressRule(), None).endpoint_of(Destination(uri, **settings))


@pytest.mark.parametrize(
    ("dial", "dialled"),
    [
        (None, ("orders.shop.svc", 80)),
        ("10.1.2.3:8080", ("10.1.2.3", 8080)),
        ("Backend.example:1", ("backend.example", 1)),
        ("[2001:db8::1]:443", ("2001:db8::1", 443)),
    ],
)
def test_dials_where_it_is_told(dial, dialled):
    """``Host`` and the TLS server name stay the URI's."""
    found = endpoint(dial=dial)
    assert found.dialled == dialled
    assert (found.host, found.authority) == ("orders.shop.svc", b"orders.shop.svc")


@pytest.mark.parametrize(
    "dial",
    ["", "host", "host:", "host:0", "host:65536", "a@b:1", "host:1/x", "host:1?q", "h:1 ", ":1"],
)
def test_what_cannot_be_dialled_is_refused_for_good(dial):
    """Strictly ``host:port``."""
    with pytest.raises(TransportError) as caught:
        endpoint(dial=dial)
    assert (caught.value.reason, caught.value.retryable) == ("blocked-address", False)


def checked(**settings):
    """What the address rule says of a destination when only public addresses are allowed."""
    found = endpoint(**settings)
    connector = Connector(AddressRule(), None)
    return asyncio.run(connector.checked_addresses(found.dialled[0], own=found.own))


def test_the_rule_is_asked_about_what_is_dialled():
    """A public name does not make a private address fit (decision 22)."""
    with pytest.raises(TransportError, match=r"127\.0\.0\.1"):
        checked(uri="http://public.example/", dial="127.0.0.1:80")


def test_our_own_listener_may_be_dialled():
    """That server chose the address itself."""
    assert checked(uri="http://public.example/", dial="127.0.0.1:80", own=True) == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("own", "dial", "tls"),
    [(False, None, True), (False, "a:1", True), (True, None, True), (True, "127.0.0.1:1", False)],
)
def test_our_own_listener_speaks_no_tls(own, dial, tls):
    """Whoever ends TLS for the public URL stands before it."""
    assert endpoint("https://public.example/", own=own, dial=dial).tls == tls


def test_certificates_that_cannot_be_read_are_a_failure_of_tls():
    """Each attempt says so; nothing is sent by a context that trusts less or more."""
    connector = Connector(AddressRule(loopback_allowed=True), None)
    found = connector.endpoint_of(Destination("https://127.0.0.1:1/", ca_certs="nonsense"))
    with pytest.raises(TransportError) as caught:
        asyncio.run(connector.open(found, asyncio.Protocol))
    assert caught.value.reason == "tls"


def test_a_broker_of_ours_alone_is_told_the_passes_left(rig):
    """Subscribers do not see ``knativebrokerttl`` (decision 17), and the task is not changed."""
    for own in (True, False):
        for stage in Stage:
            task = replace(rig.task(), stage=stage, ttl=7)
            before = dict(task.event.attributes)
            rig.dispatcher.offer(task, Destination(f"http://{own}.example/", own=own))
            event, _ = rig.transport.arrived[-1]
            expected = before | {"knativebrokerttl": 7} if own else before
            assert event.attributes == expected
            assert task.event.attributes == before
