"""Shows the subscriptions of the Subscriptions API as objects of the Kubernetes API."""

from collections.abc import Sequence
from typing import Any

from distributary.core.errors import NotFoundError
from distributary.core.shown import shown_uri
from distributary.knative.apiserver.http import ShownSubscription
from distributary.subscriptions.http import short_of, status_of
from distributary.subscriptions.service import Statuses
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import StoredSubscription


class ShownSubscriptions:
    """``knative.apiserver.http.ApiSubscriptions`` over the resource store.

    Args:
        store: Has the subscriptions.
        statuses: Knows how they stand.
    """

    def __init__(self, store: Store, statuses: Statuses) -> None:
        self._store = store
        self._statuses = statuses

    def find(self, namespace: str, name: str) -> ShownSubscription | None:
        """See ``ApiSubscriptions``."""
        try:
            state = self._statuses.state(self._id_of(namespace, name), namespace)
        except NotFoundError:
            return None
        status = status_of(state)
        for member in ("id", "route", "revision"):  # in the metadata
            del status[member]
        return _shown(state.brief.subscription, status)

    def _id_of(self, namespace: str, name: str) -> str:
        """The id of the subscription with this uid, if there is one; else *name*."""
        found = self._store.route_names([name]).get(name)
        if found is not None and (found.kind, found.namespace) == ("subscription", namespace):
            return found.text
        return name

    def page(
        self, namespace: str | None, after: tuple[str, str], limit: int
    ) -> Sequence[ShownSubscription]:
        """See ``ApiSubscriptions``."""
        if namespace is None:
            found = self._store.page_everywhere(after, limit)
        else:
            found = self._store.page(after[1], limit, namespace)
        return [_shown(one.subscription, short_of(one)) for one in self._statuses.briefs(found)]


def _shown(found: StoredSubscription, status: dict[str, Any]) -> ShownSubscription:
    return ShownSubscription(
        found.namespace,
        found.id,
        found.uid,
        found.revision,
        found.created_ms,
        _without_queries(found.to_json()),
        status,
    )


def _without_queries(spec: dict[str, Any]) -> dict[str, Any]:
    """*spec* with sinks without their queries, which hold tokens."""
    spec["sink"] = shown_uri(spec["sink"])
    delivery = spec["protocolsettings"]["delivery"]
    dead = delivery.get("deadLetterSink")
    if isinstance(dead, dict):
        dead["sink"] = shown_uri(dead["sink"])
    elif dead is not None:
        delivery["deadLetterSink"] = shown_uri(dead)
    return spec
