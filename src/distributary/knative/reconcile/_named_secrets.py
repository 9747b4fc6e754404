"""Looks at the Secrets that a Trigger or messaging Subscription names."""

from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Stored
from distributary.knative.kinds import SECRET, conditions, secrets_named_by
from distributary.knative.reconcile._findings import HOLDS, Finding
from distributary.knative.reconcile._resolve import (
    ObjectView,
    Resolution,
    Resolved,
    not_found,
)
from distributary.resource import SINKS, sinks_in, unnamed
from distributary.routes.settings import RouteEndpoint


def secret_findings(view: ObjectView, stored: Stored, sink: Resolution) -> dict[str, Finding]:
    """The condition of the Secrets that *stored* names; none where it names none.

    Deliveries wait until they are there and may go to *sink*: ``partitions`` decides by the values
    as they are sealed, this says why.
    """
    named = secrets_named_by(stored.content)
    if not named:
        return {}
    for name in named.values():
        secret = view.find(Key(SECRET.resource, stored.key.namespace, name))
        if secret is None:
            message = not_found(SECRET, stored.key.namespace, name)
            return {conditions.SECRETS_RESOLVED: Finding("False", "SecretNotFound", message)}
        fault = _fault(secret, sink.endpoint) if isinstance(sink, Resolved) else None
        if fault is not None:
            message = f'the annotation {SINKS} of the Secret "{name}" does not name {fault}'
            return {conditions.SECRETS_RESOLVED: Finding("False", "SecretNotForSink", message)}
    return {conditions.SECRETS_RESOLVED: HOLDS}


def _fault(secret: Stored, sink: RouteEndpoint) -> str | None:
    annotations = secret.content["metadata"].get("annotations") or {}
    place = unnamed(sinks_in(annotations.get(SINKS)), sink.uri, sink.dial)
    if place is None:
        return None
    return "the sink" if place == sink.uri else f"{place}, where the sink is reached"
