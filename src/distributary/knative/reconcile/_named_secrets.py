"""Looks at the Secrets that a Trigger or messaging Subscription names."""

from distributary.knative.apiserver.machinery import Key
from distributary.knative.apiserver.objects import Stored
from distributary.knative.kinds import SECRET, SINK_CREDENTIAL, conditions, secrets_named_by
from distributary.knative.reconcile._findings import HOLDS, Finding
from distributary.knative.reconcile._resolve import (
    ObjectView,
    Resolution,
    Resolved,
    not_found,
)
from distributary.resource import (
    SINKS,
    lacks_credential,
    lacks_signing_key,
    sinks_in,
    unnamed,
)
from distributary.routes.settings import RouteEndpoint


def secret_findings(view: ObjectView, stored: Stored, sink: Resolution) -> dict[str, Finding]:
    """The condition of the Secrets that *stored* names; none where it names none.

    Deliveries wait until they are there, may go to *sink* and hold what is asked of them:
    ``partitions`` decides by the values as they are sealed, this says why. Objects have no values,
    so one that cannot be used (an empty token) is not told of here.
    """
    named = secrets_named_by(stored.content)
    if not named:
        return {}
    for use, name in named.items():
        secret = view.find(Key(SECRET.resource, stored.key.namespace, name))
        if secret is None:
            message = not_found(SECRET, stored.key.namespace, name)
            return {conditions.SECRETS_RESOLVED: Finding("False", "SecretNotFound", message)}
        finding = _fault(use, name, secret, sink) if isinstance(sink, Resolved) else None
        if finding is not None:
            return {conditions.SECRETS_RESOLVED: finding}
    return {conditions.SECRETS_RESOLVED: HOLDS}


def _fault(use: str, name: str, secret: Stored, sink: Resolved) -> Finding | None:
    place = _place_unnamed(secret, sink.endpoint)
    if place is not None:  # its keys are nobody's business then
        message = f'the annotation {SINKS} of the Secret "{name}" does not name {place}'
        return Finding("False", "SecretNotForSink", message)
    keys = secret.content.get("data") or {}
    lacking = lacks_credential(keys) if use == SINK_CREDENTIAL else lacks_signing_key(keys)
    if lacking is not None:
        return Finding("False", "SecretUnusable", f'the Secret "{name}" has {lacking}')
    return None


def _place_unnamed(secret: Stored, sink: RouteEndpoint) -> str | None:
    annotations = secret.content["metadata"].get("annotations") or {}
    place = unnamed(sinks_in(annotations.get(SINKS)), sink.uri, sink.dial)
    if place is None:
        return None
    return "the sink" if place == sink.uri else f"{place}, where the sink is reached"
