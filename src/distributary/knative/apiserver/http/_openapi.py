"""OpenAPI documents, built and encoded at the first request, then cached."""

import functools
from typing import Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from distributary.knative import kinds as knative
from distributary.knative.apiserver.http._answers import Document, json_answer
from distributary.knative.apiserver.http._negotiation import JSON, choose_type
from distributary.knative.apiserver.machinery.gnostic import openapi_v2_protobuf
from distributary.knative.apiserver.machinery.openapi import (
    openapi_hash,
    openapi_v2,
    openapi_v3,
    openapi_v3_index,
)

PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_OLD: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""Name of that type in ``Accept`` of clients before 1.24. Responses use the type above: ``@`` is
not allowed in a media type, and clients reject it (kubectl 1.20: "unexpected content after media
subtype")."""

_FOREVER: Final = "public, immutable, max-age=31536000"
"""For a document requested by the digest of its content: it never changes."""


class _Encoded(NamedTuple):
    """A document that never changes while the server runs.

    Attributes:
        body: The encoded document.
        digest: Of the document; its ``ETag``.
        media_type: Its content type.
    """

    body: bytes
    digest: str
    media_type: str = JSON


def answer_v2(request: Request) -> Response:
    """``GET /openapi/v2``: JSON, or protobuf if preferred."""
    wanted = choose_type(request.headers.get("accept", ""), (JSON, PROTOBUF, PROTOBUF_OLD))
    return _answer(request, _v2(JSON if wanted == JSON else PROTOBUF))


def find_v3(path: str) -> Document | None:
    """The handler for ``GET /openapi/v3/{path}``; empty: the index. None: not served."""
    document = _v3().get(path)
    if document is None:
        return None
    return lambda request: _answer_v3(request, document)


def _answer_v3(request: Request, document: _Encoded) -> Response:
    choose_type(request.headers.get("accept", ""), (JSON,))
    answer = _answer(request, document)
    if request.query_params.get("hash") == document.digest:
        answer.headers["cache-control"] = _FOREVER
    return answer


def _answer(request: Request, document: _Encoded) -> Response:
    tag = f'"{document.digest}"'
    if tag in request.headers.get("if-none-match", ""):
        answer = Response(status_code=304)
    else:
        answer = json_answer(document.body)
        answer.headers["content-type"] = document.media_type
    answer.headers["etag"] = tag
    answer.headers["vary"] = "accept"
    return answer


_SERVED: Final = (*knative.KINDS, knative.API_SUBSCRIPTION)


@functools.cache
def _v2(media_type: str) -> _Encoded:
    document = openapi_v2(_SERVED, knative.SCHEMAS)
    encode = openapi_v2_protobuf if media_type == PROTOBUF else msgspec.json.encode
    return _Encoded(encode(document), openapi_hash(document), media_type)


@functools.cache
def _v3() -> dict[str, _Encoded]:
    """Path below ``/openapi/v3/`` -> document; the empty path is the index."""
    served = dict.fromkeys((kind.group, kind.version) for kind in _SERVED)
    documents = {
        f"apis/{group}/{version}" if group else f"api/{version}": openapi_v3(
            group, version, _SERVED, knative.SCHEMAS
        )
        for group, version in served
    }
    documents[""] = openapi_v3_index(documents)
    return {
        path: _Encoded(msgspec.json.encode(document), openapi_hash(document))
        for path, document in documents.items()
    }
