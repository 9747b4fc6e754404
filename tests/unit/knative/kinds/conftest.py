"""Rules of this version, objects to begin with, and shorthands for what is wrong with one."""

import pytest

from distributary.core.filter import check
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
    admit,
    defaulted,
)

SINK = {"uri": "http://sink.example/events"}
SPECS = {
    BROKER.resource: {},
    TRIGGER.resource: {"broker": "default", "subscriber": SINK},
    CHANNEL.resource: {},
    SUBSCRIPTION.resource: {
        "channel": {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "orders"},
        "subscriber": SINK,
    },
    SERVICE.resource: {},
}


@pytest.fixture
def rules():
    """The check of the filter dialects of this version."""
    return check


@pytest.fixture
def make():
    """An object of a kind that is right, with members of its spec changed; ``...``: left out."""

    def call(kind, **spec):
        whole = {**SPECS.get(kind.resource, {}), **spec}
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": "x", "namespace": "default"},
            "spec": {name: value for name, value in whole.items() if value is not ...},
        }

    return call


@pytest.fixture
def causes_of(rules):
    """Field and reason of everything that is wrong with an object, as it would be stored."""

    def call(kind, new, old=None):
        filled = None if old is None else defaulted(kind, old, None)
        return _causes_of(kind, defaulted(kind, new, filled), filled, rules)

    return call


def _causes_of(kind, new, old, rules):
    try:
        admit(kind, new, old, rules)
    except StatusError as error:
        refusal = error
    else:
        return []
    assert refusal.reason == "Invalid"
    return [(cause.field, cause.reason.removeprefix("FieldValue")) for cause in refusal.causes]
