"""Schemas that Knative's kinds share: destinations, delivery, conditions.

Source:
    Knative Eventing, "Detailed SubResource Objects". Further members (``CACerts``, ``audience``,
    ``backoffMax``, ``timeout``, ``format``) have Knative's names.
"""

from typing import Final

from distributary.core.policy import RETRY_DEFAULT
from distributary.knative.apiserver.machinery.schema_words import (
    Schema,
    array,
    keyed,
    one_of,
    ref,
    struct,
    text,
    texts,
    time,
    whole,
)
from distributary.resource.delivery import BACKOFF_POLICIES, DELIVERY, RETRY_MAX

_DUCK: Final = "dev.knative.pkg.apis.duck.v1."
_DELIVERY: Final = "dev.knative.eventing.duck.v1."

ADDRESSABLE: Final = _DUCK + "Addressable"
CONDITION: Final = _DUCK + "Condition"
DESTINATION: Final = _DUCK + "Destination"
KREFERENCE: Final = _DUCK + "KReference"
DELIVERY_SPEC: Final = _DELIVERY + "DeliverySpec"
SUBSCRIBER_SPEC: Final = _DELIVERY + "SubscriberSpec"
SUBSCRIBER_STATUS: Final = _DELIVERY + "SubscriberStatus"

_CA_CERTS: Final = (
    "CA certificates (PEM) trusted for the destination, in addition to those of the system."
)
_AUDIENCE: Final = "OIDC audience of the destination: deliveries show a token for it."


def _default(member: str) -> str:
    return f"Default: {DELIVERY[member]['default']}."


def resolved(what: str, prefix: str) -> dict[str, Schema]:
    """Members of a status with the resolved *what*; their names begin with *prefix*."""
    return {
        f"{prefix}Uri": text(f"Resolved URL of {what}; empty while it cannot be resolved."),
        f"{prefix}CACerts": text(f"CA certificates (PEM) trusted for {what}."),
        f"{prefix}Audience": text(f"OIDC audience of {what}."),
    }


def status(description: str, /, **members: Schema) -> Schema:
    """A status: the members common to Knative's kinds, and *members*."""
    return struct(
        description,
        annotations=texts("Further facts, for programs."),
        conditions=keyed(
            CONDITION,
            "Observed state, one entry for each aspect; `Ready` summarizes those without"
            " `severity`.",
            "type",
        ),
        observedGeneration=whole(
            "The `metadata.generation` of this status; written together with the conditions.",
        ),
        **members,
    )


def addresses(what: str) -> dict[str, Schema]:
    """Members of a status with the address of *what*.

    ``addresses`` is accepted, so that objects exported from a cluster can be applied, but never
    written.
    """
    policies = struct("An EventPolicy.", apiVersion=text("Its version."), name=text("Its name."))
    return {
        "address": ref(ADDRESSABLE, f"Where the {what} receives events."),
        "addresses": array("Further addresses. Not written.", ADDRESSABLE),
        "policies": array("EventPolicies in force for it.", policies),
    }


AUTH: Final = struct(
    "Identity used for deliveries. Not written.",
    serviceAccountName=text("Name of a ServiceAccount."),
    serviceAccountNames=array("Names of ServiceAccounts."),
)
"""Member of a status that names an identity: accepted but never written, as ``addresses`` above."""


DUCK: Final[dict[str, Schema]] = {
    KREFERENCE: struct(
        "Names another object.",
        ("apiVersion", "kind", "name"),
        apiVersion=text("API version of the object: `group/version`, or `v1`."),
        kind=text("Kind of the object."),
        name=text("Name of the object."),
        namespace=text("Namespace of the object. Default: that of the referring object."),
    ),
    DESTINATION: struct(
        "Where events go. At least one of `ref` and `uri` is set.",
        ref=ref(
            KREFERENCE,
            "An object of this server to deliver to: a Broker, a Channel, or a `v1/Service`.",
        ),
        uri=text(
            "URL to deliver to, http or https. If `ref` is set, it may be relative to the URL of"
            " that object.",
        ),
        CACerts=text(_CA_CERTS),
        audience=text(_AUDIENCE),
    ),
    ADDRESSABLE: struct(
        "Where the object receives events.",
        name=text("Scheme of the URL."),
        url=text("URL that accepts events by HTTP POST."),
        CACerts=text(_CA_CERTS),
        audience=text("OIDC audience of tokens for it; written where they are asked for."),
    ),
    CONDITION: struct(
        "One aspect of the observed state.",
        ("type", "status"),
        type=text("Name of the aspect; unique in the list."),
        status=one_of("Whether it is true.", "True", "False", "Unknown"),
        severity=text(
            "Severity while the status is not True; unset: an error. `Warning` and `Info` do not"
            " affect `Ready`.",
        ),
        lastTransitionTime=time("When the status last changed."),
        reason=text("Reason, one word for programs."),
        message=text("Reason, a sentence for people."),
    ),
    DELIVERY_SPEC: struct(
        "Retries, dead letters and content mode of deliveries. If set, it applies as a whole:"
        " members left out have their defaults, and two DeliverySpecs are never merged. Without"
        f" any, there are {RETRY_DEFAULT} retries.",
        deadLetterSink=ref(
            DESTINATION,
            "Where undeliverable events go. Default: the server keeps them.",
        ),
        retry=whole(
            "Retries after the first attempt. Default: 0.",
            bits=32,
            minimum=0,
            maximum=RETRY_MAX,
        ),
        backoffPolicy=one_of(
            "Growth of waits: `linear` repeats `backoffDelay`, `exponential` doubles it each time."
            f" {_default('backoffPolicy')}",
            *BACKOFF_POLICIES,
        ),
        backoffDelay=text(f"The first wait, ISO 8601. {_default('backoffDelay')}"),
        backoffMax=text(f"The longest wait, ISO 8601. {_default('backoffMax')}"),
        timeout=text(f"Deadline of one attempt, ISO 8601, above zero. {_default('timeout')}"),
        retryAfterMax=text(
            "Ceiling for a sink's `Retry-After`, ISO 8601; PT0S: ignored. Default: `backoffMax`."
        ),
        format=one_of(
            "Content mode: `binary`, or `json` for structured. Default: binary.", "json", "binary"
        ),
    ),
    SUBSCRIBER_SPEC: struct(
        "A Subscription in the list of its Channel. Written by the server.",
        name=text("Name of the Subscription."),
        uid=text("`metadata.uid` of the Subscription."),
        generation=whole("`metadata.generation` of the Subscription."),
        **resolved("the Subscription's `spec.subscriber`", "subscriber"),
        **resolved("the Subscription's `spec.reply`", "reply"),
        delivery=ref(DELIVERY_SPEC, "Delivery options, with `deadLetterSink` as a `uri`."),
    ),
    SUBSCRIBER_STATUS: struct(
        "Readiness of a Subscription in the list of its Channel.",
        uid=text("`metadata.uid` of the Subscription."),
        generation=whole("`metadata.generation` of the Subscription for this entry."),
        observedGeneration=whole("The same, under the name that Knative's own clients read."),
        ready=one_of("Whether the Channel delivers to it.", "True", "False", "Unknown"),
        message=text("A sentence for people about `ready`."),
    ),
}
"""Definitions by name."""
