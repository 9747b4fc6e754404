"""Read-only ``ApiSubscription`` objects: lists in parts, tables, single objects.

They are not in the object store: whoever has the subscriptions shows them through
``ApiSubscriptions``.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.core.turns import in_thread
from distributary.knative import kinds as knative
from distributary.knative.apiserver.http._answers import json_answer
from distributary.knative.apiserver.http._negotiation import choose_form
from distributary.knative.apiserver.http._options import ListOptions, read_list_options
from distributary.knative.apiserver.http._view import ListPage, ListView
from distributary.knative.apiserver.machinery import Key, Object, StatusError
from distributary.knative.apiserver.machinery.names import subdomain_faults
from distributary.knative.apiserver.objects import Stored, timestamp

PAGE_MAX: Final = 500
"""Most objects of one answer: some 100 ms and a megabyte. kubectl asks for as many at once, and all
clients go on with ``metadata.continue``."""
ADVICE: Final = (
    "subscriptions are only read here; create and change them with `distributary subscribe` or"
    " PUT /subscriptions/{id}"
)
_FOLDER: Final = f"/apis/{knative.API_SUBSCRIPTION.api_version}/"
_VERSION: Final = 1
"""Version of every list: it cannot be watched, so there is nothing to go on from."""


class ShownSubscription(NamedTuple):
    """A subscription to show.

    Attributes:
        namespace: Its tenant.
        id: Unique there.
        uid: Never reused.
        revision: Counts its changes, from 1.
        created_ms: Wall clock, milliseconds.
        spec: As the Subscriptions API shows it, without what is secret.
        status: How it stands.
    """

    namespace: str
    id: str
    uid: str
    revision: int
    created_ms: int
    spec: Object
    status: Object


class ApiSubscriptions(Protocol):
    """Shows the subscriptions of the Subscriptions API. Blocking; safe from any thread."""

    def find(self, namespace: str, name: str) -> ShownSubscription | None:
        """The subscription of this id, or else of this uid, with its whole status; None: none is.

        Raises:
            StoreError: It cannot be read now.
        """

    def page(
        self, namespace: str | None, after: tuple[str, str], limit: int
    ) -> Sequence[ShownSubscription]:
        """At most *limit* of *namespace* (None: of all), by namespace and id, after this pair.

        Raises:
            StoreError: They cannot be read now.
        """


class NoSubscriptions:
    """Shows none: the server has not started."""

    def find(self, namespace: str, name: str) -> ShownSubscription | None:
        """See ``ApiSubscriptions``."""
        del namespace, name
        return None

    def page(
        self, namespace: str | None, after: tuple[str, str], limit: int
    ) -> Sequence[ShownSubscription]:
        """See ``ApiSubscriptions``."""
        del namespace, after, limit
        return ()


class _Place(NamedTuple):
    """What a path names: a namespace (None: all), and a name (empty: a list)."""

    namespace: str | None
    name: str


def subscription_place(path: str) -> _Place | None:
    """What *path* names among the subscriptions; None: nothing there."""
    if not path.startswith(_FOLDER):
        return None
    match path.removeprefix(_FOLDER).removesuffix("/").split("/"):
        case [knative.API_SUBSCRIPTION.plural]:
            return _Place(None, "")
        case ["namespaces", namespace, knative.API_SUBSCRIPTION.plural] if namespace:
            return _Place(namespace, "")
        case ["namespaces", namespace, knative.API_SUBSCRIPTION.plural, name] if namespace and name:
            return _Place(namespace, name)
    return None


async def show_subscriptions(
    request: Request, place: _Place, source: ApiSubscriptions, now_ms: int
) -> Response:
    """Answer a GET of *place*.

    Raises:
        StatusError: ``NotFound``; ``BadRequest``: a selector or token that cannot be read;
            ``MethodNotAllowed``: a watch.
        StoreError: *source* cannot read now.
    """
    options = read_list_options(request.query_params, watched=False)
    if options.watch:
        raise StatusError(
            "MethodNotAllowed", "subscriptions cannot be watched here; list them again"
        )
    form = choose_form(request.headers.get("accept", ""))
    view = ListView(
        knative.API_SUBSCRIPTION,
        place.namespace,
        labels=options.labels,
        fields=options.fields,
        form=form,
    )
    if place.namespace is not None and place.name:
        found = await in_thread(place.namespace, source.find, place.namespace, place.name)
        if found is None or name_of(found) != place.name:
            message = f'{knative.API_SUBSCRIPTION.resource} "{place.name}" not found'
            raise StatusError("NotFound", message)
        return json_answer(view.show(_stored(found), now_ms))
    page = await in_thread(place.namespace or "", _page, view, options, source)
    return json_answer(view.show_page(page, now_ms))


def name_of(shown: ShownSubscription) -> str:
    """Name of its object: the id if that can be a name, else the uid."""
    return shown.uid if any(subdomain_faults(shown.id)) else shown.id


def _page(view: ListView, options: ListOptions, source: ApiSubscriptions) -> ListPage:
    limit = min(options.limit or PAGE_MAX, PAGE_MAX)
    read = source.page(view.namespace, _read_token(options.token), limit)
    token = _token(read[-1]) if len(read) == limit else ""
    picked = [stored for each in read if view.picks((stored := _stored(each)).content)]
    return ListPage(picked, _VERSION, token)


def _token(last: ShownSubscription) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((last.namespace, last.id))).decode()


def _read_token(text: str) -> tuple[str, str]:
    if not text:
        return "", ""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=tuple[str, str])
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise StatusError("BadRequest", "continue: not a token of this server") from None


def _stored(shown: ShownSubscription) -> Stored:
    kind, name = knative.API_SUBSCRIPTION, name_of(shown)
    content: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": shown.namespace,
            "uid": shown.uid,
            "resourceVersion": str(shown.revision),
            "generation": shown.revision,
            "creationTimestamp": timestamp(shown.created_ms),
            "annotations": {knative.ID_ANNOTATION: shown.id},
        },
        "spec": shown.spec,
        "status": shown.status,
    }
    key = Key(kind.resource, shown.namespace, name)
    return Stored(key, shown.uid, shown.revision, content, msgspec.json.encode(content))
