"""Schemas that Knative's kinds share: destinations, delivery, conditions.

Source:
    Knative Eventing, "Detailed SubResource Objects". Further members (``CACerts``, ``audience``,
    ``backoffMax``, ``timeout``, ``format``) have Knative's names.
"""

from typing import Final

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
from distributary.resource.delivery import BACKOFF_POLICIES, RETRY_MAX

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
    "Certificates of the authorities (PEM) that the destination's certificate may be signed by,"
    " beside those that the system trusts."
)
_AUDIENCE: Final = "OIDC audience of the destination. It is carried and not used."


def resolved(what: str, prefix: str) -> dict[str, Schema]:
    """Members of a status with the resolved *what*; their names begin with *prefix*."""
    return {
        f"{prefix}Uri": text(f"Resolved URL of {what}; empty while it cannot be resolved."),
        f"{prefix}CACerts": text(f"Certificates (PEM) that {what} is trusted by."),
        f"{prefix}Audience": text(f"OIDC audience of {what}."),
    }


def status(description: str, /, **members: Schema) -> Schema:
    """A status: the members common to Knative's kinds, and *members*."""
    return struct(
        description,
        annotations=texts("Further facts, for programs."),
        conditions=keyed(
            CONDITION,
            "Observed state, one entry for each aspect; `Ready` sums up what counts for it.",
            "type",
        ),
        observedGeneration=whole(
            "The `metadata.generation` that this status was made for; written together with the"
            " conditions.",
        ),
        **members,
    )


def addresses(what: str) -> dict[str, Schema]:
    """Members of a status with the address of *what*.

    ``addresses`` and ``policies`` are accepted, so that objects exported from a cluster can be
    applied, but never written.
    """
    policies = struct("An EventPolicy.", apiVersion=text("Its version."), name=text("Its name."))
    return {
        "address": ref(ADDRESSABLE, f"Where the {what} takes events."),
        "addresses": array("Further addresses. Not written.", ADDRESSABLE),
        "policies": array("EventPolicies of other servers. Not written.", policies),
    }


AUTH: Final = struct(
    "Identity that deliveries are made by. Not written.",
    serviceAccountName=text("Name of a ServiceAccount."),
    serviceAccountNames=array("Names of ServiceAccounts."),
)
"""Member of a status that names an identity: accepted but never written, as ``policies`` above."""


DUCK: Final[dict[str, Schema]] = {
    KREFERENCE: struct(
        "Names another object.",
        ("apiVersion", "kind", "name"),
        apiVersion=text("API version of the object: `group/version`, or `v1`."),
        kind=text("Kind of the object."),
        name=text("Name of the object."),
        namespace=text("Namespace of the object. Default: that of the object it stands in."),
    ),
    DESTINATION: struct(
        "Where events go. At least one of `ref` and `uri` is set.",
        ref=ref(
            KREFERENCE,
            "An object of this server to deliver to: a Broker, a Channel, or a `v1/Service`.",
        ),
        uri=text(
            "URL to deliver to, http or https. Where `ref` is set, it may be relative to the"
            " URL of that object.",
        ),
        CACerts=text(_CA_CERTS),
        audience=text(_AUDIENCE),
    ),
    ADDRESSABLE: struct(
        "Where the object takes events.",
        name=text("Scheme of the URL."),
        url=text("URL that takes events by HTTP POST."),
        CACerts=text(_CA_CERTS),
        audience=text(_AUDIENCE),
    ),
    CONDITION: struct(
        "One aspect of the observed state.",
        ("type", "status"),
        type=text("Name of the aspect; unique in the list."),
        status=one_of("Whether it holds.", "True", "False", "Unknown"),
        severity=text(
            "How bad it is where the status is not True; unset: an error. `Warning` and `Info`"
            " do not count for `Ready`.",
        ),
        lastTransitionTime=time("When the status last changed."),
        reason=text("A word for programs: why it is so."),
        message=text("A sentence for people: why it is so."),
    ),
    DELIVERY_SPEC: struct(
        "How often and how an event is sent. Where one stands, it alone counts: what it leaves out"
        " is as it is by default, and two DeliverySpecs are never mixed. Where none stands there"
        " are 10 retries.",
        deadLetterSink=ref(
            DESTINATION,
            "Where an event goes that cannot be delivered. Default: it is kept by the server.",
        ),
        retry=whole(
            "Retries after the first attempt. Default: 0.",
            bits=32,
            minimum=0,
            maximum=RETRY_MAX,
        ),
        backoffPolicy=one_of(
            "How waits grow: `linear` repeats `backoffDelay`, `exponential` doubles it each time."
            " Default: exponential.",
            *BACKOFF_POLICIES,
        ),
        backoffDelay=text("The first wait, ISO 8601. Default: PT0.2S."),
        backoffMax=text("The longest wait, ISO 8601. Default: PT5M."),
        timeout=text("Deadline of one attempt, ISO 8601, above zero. Default: PT30S."),
        retryAfterMax=text(
            "The most that a sink's `Retry-After` counts, ISO 8601; PT0S: it counts for nothing."
            " Default: `backoffMax`."
        ),
        format=one_of(
            "Content mode: `binary`, or `json` for structured. Default: binary.", "json", "binary"
        ),
    ),
    SUBSCRIBER_SPEC: struct(
        "What a Channel knows of one of its Subscriptions. The server writes it.",
        name=text("Name of the Subscription."),
        uid=text("`metadata.uid` of the Subscription."),
        generation=whole("`metadata.generation` of the Subscription."),
        **resolved("the Subscription's `spec.subscriber`", "subscriber"),
        **resolved("the Subscription's `spec.reply`", "reply"),
        delivery=ref(DELIVERY_SPEC, "Delivery options, with `deadLetterSink` as a `uri`."),
    ),
    SUBSCRIBER_STATUS: struct(
        "Whether a Channel delivers to one of its Subscriptions.",
        uid=text("`metadata.uid` of the Subscription."),
        generation=whole("`metadata.generation` of the Subscription that this was made for."),
        observedGeneration=whole("The same, by the name that Knative's own clients read."),
        ready=one_of("Whether it does.", "True", "False", "Unknown"),
        message=text("A sentence for people about `ready`."),
    ),
}
"""Definitions by name."""
