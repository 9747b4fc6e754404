"""Looks at the Secrets that a Trigger or messaging Subscription names."""

from distributary.core.deliver.origins import origin_of
from distributary.core.errors import StoreError
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
    UNUSABLE,
    Withheld,
    credential_of,
    signing_keys_of,
    withheld_from,
)
from distributary.routes.settings import RouteEndpoint


def secret_findings(view: ObjectView, stored: Stored, sink: Resolution) -> dict[str, Finding]:
    """The condition of the Secrets that *stored* names; none where it names none.

    Deliveries wait until they are there, may go to *sink* and can be used: ``partitions`` decides
    so by the same functions.
    """
    named = secrets_named_by(stored.content)
    if not named:
        return {}
    for use, name in named.items():
        secret = view.find(Key(SECRET.resource, stored.key.namespace, name))
        if secret is None:
            message = not_found(SECRET, stored.key.namespace, name)
            return {conditions.SECRETS_RESOLVED: Finding("False", "SecretNotFound", message)}
        withheld = (
            _withheld(view, use, secret, sink.endpoint) if isinstance(sink, Resolved) else None
        )
        if withheld is not None:
            return {conditions.SECRETS_RESOLVED: Finding("False", *withheld)}
    return {conditions.SECRETS_RESOLVED: HOLDS}


def _withheld(view: ObjectView, use: str, stored: Stored, sink: RouteEndpoint) -> Withheld | None:
    """Why *sink* gets nothing of the Secret *stored*, to be used as *use*."""
    name = stored.key.name
    try:
        secret = view.opened(stored)
    except StoreError:  # without its text, which is for the operator: it says where keys are
        message = f'the values of the Secret "{name}" cannot be opened: send them again'
        return Withheld(UNUSABLE, message)
    withheld = withheld_from(name, secret, sink.uri, sink.dial, sink.ca_certs)
    if withheld is not None:  # what it holds is nobody's business then
        return withheld
    found = (
        credential_of(name, secret, origin_of(sink.uri))
        if use == SINK_CREDENTIAL
        else signing_keys_of(name, secret)
    )
    return found if isinstance(found, Withheld) else None
