"""Looks at the Secrets that a Trigger or messaging Subscription names."""

from distributary.core.deliver.origins import origin_of
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
from distributary.resource import SINKS, sinks_in


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
        if isinstance(sink, Resolved) and not _may_go(secret, sink.endpoint.uri):
            message = f'the annotation {SINKS} of the Secret "{name}" does not name the sink'
            return {conditions.SECRETS_RESOLVED: Finding("False", "SecretNotForSink", message)}
    return {conditions.SECRETS_RESOLVED: HOLDS}


def _may_go(secret: Stored, uri: str) -> bool:
    annotations = secret.content["metadata"].get("annotations") or {}
    origin = origin_of(uri)
    return any(origin_of(one).covers(origin) for one in sinks_in(annotations.get(SINKS)))
