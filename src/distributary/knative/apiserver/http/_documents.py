"""Static documents: discovery, OpenAPI, server version."""

import functools
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.knative import kinds as knative
from distributary.knative.apiserver.http import _openapi as openapi
from distributary.knative.apiserver.http._answers import Document, json_answer
from distributary.knative.apiserver.http._definitions import find_definitions
from distributary.knative.apiserver.http._negotiation import JSON, read_accept
from distributary.knative.apiserver.machinery import Object
from distributary.knative.apiserver.machinery.discovery import (
    aggregated,
    api_group,
    api_groups,
    api_versions,
    resource_list,
    version,
)

_OPENAPI_V3: Final = "/openapi/v3"
_DISCOVERY_GROUP: Final = "apidiscovery.k8s.io"
_DISCOVERY_KIND: Final = "APIGroupDiscoveryList"
_DISCOVERY_VERSIONS: Final = ("v2", "v2beta1")

_SERVED: Final = (*knative.KINDS, knative.API_SUBSCRIPTION, knative.DEFINITION)


def find_document(path: str) -> Document | None:
    """The handler for a GET of *path*; None: there is no such document."""
    path = path.removesuffix("/")
    found = _fixed().get(path) or find_definitions(path)
    if found is None and path.startswith(_OPENAPI_V3):
        return openapi.find_v3(path.removeprefix(_OPENAPI_V3).removeprefix("/"))
    return found


@functools.cache
def _fixed() -> dict[str, Document]:
    """Path -> handler, for all documents with fixed paths."""
    kinds = _SERVED
    documents: dict[str, Object | None] = {"/version": version()}
    for kind in kinds:
        place = f"/apis/{kind.group}" if kind.group else "/api"
        documents[f"{place}/{kind.version}"] = resource_list(kind.group, kind.version, kinds)
        if kind.group:
            documents[place] = api_group(kind.group, kinds)
    return {
        "/api": lambda request: _discovered(request, api_versions(), core=True),
        "/apis": lambda request: _discovered(request, api_groups(kinds), core=False),
        "/openapi/v2": openapi.answer_v2,
        **{path: _showing(document) for path, document in documents.items() if document},
    }


def _showing(document: Object) -> Document:
    return lambda _: json_answer(document)


def _discovered(request: Request, plain: Object, *, core: bool) -> Response:
    """The list of groups; or aggregated discovery if ``Accept`` prefers that."""
    accept = request.headers.get("accept", "")
    for media_type, parameters in read_accept(accept) if accept.strip() else ():
        if media_type not in (JSON, "application/*", "*/*"):
            continue
        if "as" not in parameters:
            break
        wanted = parameters.get("v", "")
        if (
            parameters.get("g") == _DISCOVERY_GROUP
            and parameters["as"] == _DISCOVERY_KIND
            and wanted in _DISCOVERY_VERSIONS
        ):
            answer = json_answer(aggregated(_SERVED, core=core, version=wanted))
            shown = f"{JSON};g={_DISCOVERY_GROUP};v={wanted};as={_DISCOVERY_KIND}"
            answer.headers["content-type"] = shown
            return answer
    return json_answer(plain)
