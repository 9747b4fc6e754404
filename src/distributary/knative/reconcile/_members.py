"""How a resolved destination stands in a status."""

from distributary.knative.apiserver.machinery import Object
from distributary.knative.reconcile._resolve import Resolution, Resolved


def destination_members(prefix: str, resolution: Resolution | None) -> Object:
    """Members of a status with this *prefix*: none where there is no destination.

    Source:
        Knative Eventing, "Trigger Lifecycle": the URI is the empty string while the reference
        cannot be resolved.
    """
    if resolution is None:
        return {}
    if not isinstance(resolution, Resolved):
        return {f"{prefix}Uri": ""}
    endpoint = resolution.endpoint
    members: Object = {f"{prefix}Uri": endpoint.uri}
    if resolution.ca_certs is not None:
        members[f"{prefix}CACerts"] = resolution.ca_certs
    if resolution.audience is not None:
        members[f"{prefix}Audience"] = resolution.audience
    return members
