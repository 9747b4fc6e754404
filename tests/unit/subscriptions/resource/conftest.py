"""Rules of this version and shorthands for proposals."""

from collections.abc import Callable
from typing import Any

import pytest

from distributary.core.errors import ResourceError
from distributary.core.filter import check
from distributary.resource import ResourceRules, SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import ApiSubscriptionSpec


@pytest.fixture
def rules():
    """Local sinks allowed, the filter dialects and durations of this version."""
    return ResourceRules(SinkRule(local_allowed=True), check)


@pytest.fixture
def parse(rules) -> Callable[..., ApiSubscriptionSpec]:
    """Parse a good HTTP proposal with some members changed; ``...`` leaves one out."""

    def call(**members: Any) -> ApiSubscriptionSpec:
        body = {"sink": "https://example.com/sink", "protocol": "HTTP", **members}
        return api_subscription.parse(
            {name: value for name, value in body.items() if value is not ...}, rules
        )

    return call


@pytest.fixture
def faults_of(parse) -> Callable[..., list[tuple[str, str]]]:
    """Path and code of every fault of such a proposal."""

    def call(**members: Any) -> list[tuple[str, str]]:
        with pytest.raises(ResourceError) as caught:
            parse(**members)
        return [(fault.path, fault.code) for fault in caught.value.faults]

    return call
