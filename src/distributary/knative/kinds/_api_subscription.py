"""``ApiSubscription``: subscriptions of the Subscriptions API, as objects that are only read."""

from typing import Final

from distributary.knative.apiserver.machinery import Column, Kind
from distributary.knative.apiserver.machinery.schema_words import Schema, top

ID_ANNOTATION: Final = "subscriptions.distributary.dev/id"
"""Has the id: not every id can be the name of an object."""

API_SUBSCRIPTION: Final = Kind(
    "subscriptions.distributary.dev",
    "v1",
    "ApiSubscription",
    "apisubscriptions",
    short_names=("apisub",),
    columns=(
        Column("Sink", "spec.sink"),
        Column("State", "status.state"),
        Column("Failing", "status.failing.reason"),
        Column("Waiting", "status.waiting", "integer"),
        Column("Age", "age", "date"),
        Column("Delivered", "status.delivered", "integer", priority=1),
        Column("Last_Success", "status.lastSuccess", "date", priority=1),
    ),
    label_names=False,
    read_only=True,
)
"""Not one of ``KINDS``, which are stored as objects."""

_WHAT: Final = (
    "A subscription of the CloudEvents Subscriptions API. It is only read here; create and change"
    " it with `distributary subscribe` or `PUT /subscriptions/{id}`."
)


def _open(description: str) -> Schema:
    return {
        "description": description,
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


SHOWN: Final[dict[str, Schema]] = {
    API_SUBSCRIPTION.definition: top(
        API_SUBSCRIPTION,
        _WHAT,
        {
            "spec": _open(
                "The subscription as `GET /subscriptions/{id}` shows it; no URI has its query."
            ),
            "status": _open(
                "How it stands: in a list as the member `status` of a subscription, by its name as"
                " `GET /subscriptions/{id}/status`."
            ),
        },
    )
}
"""Definition of the kind, by name."""
