"""Read-only CustomResourceDefinitions: lists, tables, selectors, single objects."""

import functools
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.knative import kinds as knative
from distributary.knative.apiserver.http._answers import Document, json_answer
from distributary.knative.apiserver.http._negotiation import choose_form
from distributary.knative.apiserver.http._options import read_list_options
from distributary.knative.apiserver.http._view import ListPage, ListView
from distributary.knative.apiserver.machinery import Key, StatusError
from distributary.knative.apiserver.objects import Stored

_PATH: Final = f"/apis/{knative.DEFINITION.api_version}/{knative.DEFINITION.plural}"
_VERSION: Final = 1
"""Fixed resource version of all definitions: they never change while the server runs, and cannot
be watched."""


def find_definitions(path: str) -> Document | None:
    """The handler for a GET of *path*; None: it is not a path of definitions."""
    if path == _PATH:
        return _list
    name = path.removeprefix(f"{_PATH}/")
    return None if name == path or "/" in name or not name else functools.partial(_get, name)


def _list(request: Request) -> Response:
    options = read_list_options(request.query_params, watched=False)
    if options.watch:
        raise StatusError("MethodNotAllowed", "the definitions cannot be watched: none changes")
    view = _view(request, options.labels, options.fields)
    picked = [stored for stored in _definitions().values() if view.picks(stored.content)]
    return json_answer(view.show_page(ListPage(picked, _VERSION), 0))


def _get(name: str, request: Request) -> Response:
    stored = _definitions().get(name)
    if stored is None:
        message = f'{knative.DEFINITION.resource} "{name}" not found'
        raise StatusError("NotFound", message)
    return json_answer(_view(request).show(stored, 0))


def _view(request: Request, labels: str = "", fields: str = "") -> ListView:
    form = choose_form(request.headers.get("accept", ""))
    return ListView(knative.DEFINITION, None, labels=labels, fields=fields, form=form)


@functools.cache
def _definitions() -> dict[str, Stored]:
    """By name."""
    made: dict[str, Stored] = {}
    for content in knative.definitions():
        metadata = content["metadata"]
        key = Key(knative.DEFINITION.resource, "", metadata["name"])
        made[key.name] = Stored(
            key, metadata["uid"], _VERSION, content, msgspec.json.encode(content)
        )
    return made
