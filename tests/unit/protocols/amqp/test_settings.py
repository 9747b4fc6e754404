"""Settings of AMQP 1.0, by which links are told apart."""

import itertools

import pytest

from distributary.core.deliver import Destination
from distributary.protocols.amqp.settings import restore


def _destination(value):
    realized = {
        "address": "orders",
        "sendersettlementmode": "unsettled",
        "linkproperties": {"priority": value},
    }
    return Destination("amqp://b.example", protocol="AMQP", settings=restore(realized))


@pytest.mark.parametrize(
    ("one", "other"),
    list(itertools.combinations([1, 1.0, True], 2)),
    ids=["long, double", "long, boolean", "double, boolean"],
)
def test_link_properties_of_two_types_are_two_settings(one, other):
    """They are equal in Python: a link with the one would carry events of the other."""
    assert _destination(one) != _destination(other)
    assert _destination(one).settings != _destination(other).settings
    assert _destination(one) == _destination(one)
