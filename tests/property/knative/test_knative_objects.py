"""Any JSON is admitted or refused with causes; what is admitted can be read and compiled."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from distributary.core import filter as filters
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.metadata_faults import CAUSES_MAX
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    KINDS,
    SUBSCRIPTION,
    TRIGGER,
    admit,
    defaulted,
    unknown_fields,
)
from distributary.knative.kinds.specs import addressed_spec, subscription_spec, trigger_spec

RULES = filters.check
READ = {
    BROKER.resource: addressed_spec,
    TRIGGER.resource: trigger_spec,
    CHANNEL.resource: addressed_spec,
    SUBSCRIPTION.resource: subscription_spec,
}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
words = st.sampled_from(
    [
        "v1",
        "Channel",
        "messaging.knative.dev/v1",
        "a",
        "http://e.com/",
        "/p",
        "linear",
        "PT1S",
        "json",
    ]
)


def objects(names: str, values: st.SearchStrategy) -> st.SearchStrategy:
    """Objects with some of *names*."""
    return st.dictionaries(st.sampled_from(names.split()), values, max_size=6)


references = objects("apiVersion kind name namespace group", words) | anything
destinations = objects("ref uri CACerts audience x", words | references)
deliveries = objects(
    "retry backoffPolicy backoffDelay backoffMax timeout format deadLetterSink x",
    words | st.integers(-1, 1001) | destinations,
)
attributes = st.dictionaries(st.sampled_from(["type", "a1", "A", ""]), words | scalars)
expressions = st.recursive(
    objects("exact prefix suffix", attributes) | objects("sql cesql", words | st.just("TRUE")),
    lambda inner: objects("all any", st.lists(inner, max_size=2)) | objects("not x", inner),
    max_leaves=5,
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "broker": words | anything,
        "filter": objects("attributes x", attributes | anything) | anything,
        "filters": st.lists(expressions | anything, max_size=3) | anything,
        "subscriber": destinations | anything,
        "reply": destinations | anything,
        "channel": references,
        "config": references,
        "delivery": deliveries | anything,
        "subscribers": anything,
        "channelTemplate": anything,
        "ports": st.lists(objects("name port protocol targetPort", words | st.integers(0, 9))),
        "externalName": words | anything,
        "x": anything,
    },
)
metadata = st.just({"name": "x", "namespace": "default"}) | anything
proposals = st.fixed_dictionaries(
    {},
    optional={"metadata": metadata, "spec": specs | anything, "data": anything, "status": anything},
) | st.dictionaries(st.text(max_size=9), anything, max_size=3)
kinds = st.sampled_from(KINDS)


@pytest.mark.slow
@given(kind=kinds, proposal=proposals, old=st.none() | proposals)
@example(kind=TRIGGER, proposal={"spec": {"filters": [{"not": {"cesql": 1}}]}}, old=None)
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_json_is_admitted_or_refused_with_causes(kind, proposal, old):
    """Nothing else comes out, and filling in once is enough."""
    filled = defaulted(kind, proposal, old)
    assert unknown_fields(kind, filled) == []
    assert defaulted(kind, filled, old) == filled
    try:
        admit(kind, filled, old, RULES)
    except StatusError as error:
        refusal = error
    else:
        return
    assert refusal.reason == "Invalid"
    assert 1 <= len(refusal.causes) <= CAUSES_MAX + 1


@pytest.mark.slow
@given(kind=st.sampled_from([BROKER, TRIGGER, CHANNEL, SUBSCRIPTION]), spec=specs)
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_what_is_admitted_can_be_read_and_compiled(kind, spec):
    """The reconciler meets no surprise."""
    sent = {"metadata": {"name": "x", "namespace": "default"}, "spec": spec}
    filled = defaulted(kind, sent, None)
    try:
        admit(kind, filled, None, RULES)
    except StatusError:
        return
    read = READ[kind.resource](filled)
    if kind is TRIGGER:
        filters.compile(list(read.filters))
