"""The table of our own annotations in docs/reference/knative-resources.md."""

from typing import Final

import clauses

from distributary.knative.kinds import LIFECYCLE, SERVICE_ADDRESS, SIGNATURE, SINK_CREDENTIAL
from distributary.resource import SINKS
from distributary.resource.orders import (
    DISABLED,
    ENABLE,
    ORDERS,
    PAUSED,
    PREFIX,
    REDRIVE,
    REPLAY,
    RETRY,
    TEXT_MAX,
)

_OF_SECRETS: Final = "../how-to/sink-credentials.md#triggers-and-messaging-subscriptions"
_SUBSCRIBER: Final = "Trigger, Subscription"
_NEW: Final = f"any new text, at most {TEXT_MAX} characters"

_ORDERS: Final = {
    PAUSED: ("`true`, `false`", "Nothing is sent as long as it is `true`."),
    DISABLED: ("`true`, `false`", "Nothing is sent as long as it is `true`; no resume ends it."),
    ENABLE: (_NEW, "Enables what the server has disabled."),
    RETRY: (_NEW, "Makes the waiting retries now."),
    REDRIVE: (_NEW, "Sends the kept dead letters again."),
    REPLAY: ("`from=TIME[,to=TIME][,rate=N]`", "Sends events of the log again, once a value."),
}

_OTHERS: Final = {
    SERVICE_ADDRESS: (
        "Service",
        "`host:port`",
        "What the server connects to in place of the Service's name.",
    ),
    LIFECYCLE: (
        _SUBSCRIBER,
        "`true`, `false`",
        "The subscriber is told [what becomes of the object](lifecycle-events.md).",
    ),
    SIGNATURE: (
        _SUBSCRIBER,
        "name of a Secret",
        f"Its keys [sign deliveries]({_OF_SECRETS}): `secret`, and `previous`.",
    ),
    SINK_CREDENTIAL: (
        _SUBSCRIBER,
        "name of a Secret",
        f"The subscriber is [shown it]({_OF_SECRETS}): `username` and `password`, or `token`.",
    ),
    SINKS: (
        "Secret",
        "URIs, apart by spaces or commas",
        f"Sinks that [it may go to]({_OF_SECRETS}): their origins count. Without it, none.",
    ),
}


def draw() -> str:
    """Name, kinds, values and meaning of each annotation, by name."""
    of_orders = {PREFIX + name: (_SUBSCRIBER, *_ORDERS[name]) for name in ORDERS}
    rows = ((f"`{name}`", *row) for name, row in sorted((_OTHERS | of_orders).items()))
    return clauses.table(("Annotation", "Of", "Value", "Meaning"), rows)
