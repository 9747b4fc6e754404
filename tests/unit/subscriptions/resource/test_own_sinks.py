"""This server's own addresses as sinks: what their text tells, and what it costs to come back."""

import pytest

from distributary.core.errors import ResourceError
from distributary.core.filter import check
from distributary.resource import (
    OWN_EVENTS,
    OWN_LISTENER,
    PORT_DENIED,
    OwnAddresses,
    Reach,
    ResourceRules,
    protocols_allowed,
)
from distributary.subscriptions import resource as api_subscription

OWN = OwnAddresses(
    ("https://events.example", "http://127.0.0.1:8080", "http://localhost:8080"),
    (("127.0.0.1", 8080), ("127.0.0.1", 5672), ("0.0.0.0", 9000)),
    "127.0.0.1:8080",
)


def faults(sink, protocol="HTTP", **reach):
    """Messages of what is wrong with such a subscription."""
    body = {"sink": sink, "protocol": protocol}
    if protocol.startswith("MQTT"):
        body["protocolsettings"] = {"topicname": "t"}
    try:
        rule = Reach(own=OWN, **reach).rule()
        api_subscription.parse(body, ResourceRules(rule, check))
    except ResourceError as error:
        return [fault.message for fault in error.faults]
    return []


@pytest.mark.parametrize(
    "sink",
    [
        "https://events.example/events",
        "https://EVENTS.example:443/brokers/default/default",
        "http://localhost:8080/channels/default/c",
        "http://127.0.0.1:8080/events?x=1",
    ],
)
def test_paths_that_take_events_are_refused_unless_they_are_allowed(sink):
    """The message names the setting; with it the sink is good whatever its address is."""
    assert faults(sink) == [OWN_EVENTS]
    assert faults(sink, own_sinks=1, private_allowed=False) == []


@pytest.mark.parametrize(
    "sink",
    [
        "https://events.example/subscriptions/x",
        "http://localhost:8080/subscriptions/made-by-event",
        "http://sub.localhost:8080/",
        "http://127.0.0.1:8080/metrics",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://127.0.0.1:5672/",
        "http://127.0.0.1:9000/",
        "http://[::1]:9000/",
    ],
)
@pytest.mark.parametrize("own_sinks", [0, 7])
def test_everything_else_of_our_listeners_is_never_a_sink(sink, own_sinks):
    """Or a publisher would drive the interface of the operator."""
    assert faults(sink, own_sinks=own_sinks) == [OWN_LISTENER]


def test_our_listeners_are_no_sink_of_another_protocol():
    """Whatever would be spoken there."""
    assert faults("mqtt://127.0.0.1:8080", "MQTT5") == [OWN_LISTENER]


@pytest.mark.parametrize(
    "sink",
    ["http://127.0.0.1:8081/events", "http://127.0.0.2:8080/", "http://events.example:8080/events"],
)
def test_neighbours_of_our_addresses_are_anybodys(sink):
    """Another port, another address, another scheme's port."""
    assert faults(sink) == []


@pytest.mark.parametrize("port", [22, 25, 6379, 5432, 6667])
def test_ports_of_other_services_are_refused_on_public_addresses(port):
    """Not on private ones, nor in networks that the operator names."""
    assert faults(f"http://93.184.216.34:{port}/") == [PORT_DENIED]
    assert faults(f"http://10.0.0.1:{port}/") == []
    assert faults(f"http://93.184.216.34:{port}/", allow_sinks=("93.184.216.0/24",)) == []


@pytest.mark.parametrize("ways", range(1, 8))
def test_the_passes_of_an_event_pay_for_as_many_ways_back_as_are_allowed(ways):
    """And not for one more."""
    cost = Reach(own_sinks=ways).pass_cost(32)
    assert 32 - ways * cost >= 0
    assert 32 - (ways + 1) * cost <= 0


@pytest.mark.parametrize(
    ("chosen", "denied", "allowed"),
    [
        ((), False, None),
        ((), True, ("AMQP", "HTTP", "MQTT3", "MQTT5", "NATS")),
        (("HTTP", "KAFKA"), True, ("HTTP", "KAFKA")),
    ],
)
def test_kafka_is_left_out_where_private_sinks_are_denied(chosen, denied, allowed):
    """Its client dials before what it dials is known; the operator can allow it by name."""
    assert protocols_allowed(chosen, private_denied=denied) == allowed
