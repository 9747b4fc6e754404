"""Delivery settings of a route, as the store keeps them."""

import msgspec
import pytest

from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.routes.settings import (
    RouteEndpoint,
    RouteSettings,
    decode_settings,
    encode_settings,
)

SETTINGS = RouteSettings(
    name="Trigger shop/t",
    namespace="shop",
    sink=RouteEndpoint("http://s.example/", ca_certs="PEM"),
    dead_letter=RouteEndpoint("http://dead.example/"),
    policy=DeliveryPolicy(3, BackoffPolicy.LINEAR, 0.5, 60.0, 5.0, retry_after_max_s=10.0),
    format="structured",
    lifecycle=True,
)
STORED = (
    b'{"name":"Trigger shop/t","namespace":"shop",'
    b'"sink":{"uri":"http://s.example/","ca_certs":"PEM"},'
    b'"dead_letter":{"uri":"http://dead.example/"},'
    b'"retry":3,"backoff_policy":"linear","backoff_delay_s":0.5,"backoff_max_s":60.0,'
    b'"timeout_s":5.0,"retry_after_max_s":10.0,"format":"structured","lifecycle":true}'
)
LEAST = (
    b'{"name":"a","sink":{"uri":"http://s.example/"},"retry":10,"backoff_policy":"exponential",'
    b'"backoff_delay_s":0.2,"backoff_max_s":300.0,"timeout_s":30.0}'
)


@pytest.mark.parametrize(
    ("settings", "stored"),
    [
        (SETTINGS, STORED),
        (
            RouteSettings(
                name="a", sink=RouteEndpoint("http://s.example/"), policy=DeliveryPolicy()
            ),
            LEAST,
        ),
    ],
    ids=["whole", "least"],
)
def test_settings_are_stored_as_ever(settings, stored):
    """Byte by byte: whoever compares them with those of an earlier version finds no change."""
    assert encode_settings(settings) == stored
    assert decode_settings(stored) == settings


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"retry": None}, "no member retry"),
        ({"retry": -1}, "beyond"),
        ({"timeout_s": 0.0}, "beyond"),
        ({"backoff_policy": "cubic"}, "Invalid enum value"),
        ({"sink": 7}, "Expected `object`"),
    ],
)
def test_damaged_settings_are_a_value_error(changes, why):
    """So is a member that is missing: a policy is stored whole."""
    members = msgspec.json.decode(STORED) | changes
    left = {name: value for name, value in members.items() if value is not None}
    with pytest.raises(ValueError, match=why):
        decode_settings(msgspec.json.encode(left))
