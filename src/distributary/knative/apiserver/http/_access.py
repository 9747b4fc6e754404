"""``SelfSubjectAccessReview`` (``kubectl auth can-i``): without users, everything is allowed.

Restrict access by the network, or by a proxy in front of this API.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from distributary.knative.apiserver.http._answers import json_answer
from distributary.knative.apiserver.http._requests import parse_object, read_body
from distributary.knative.apiserver.machinery import StatusError

REVIEWS_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

_API_VERSION: Final = "authorization.k8s.io/v1"
_KIND: Final = "SelfSubjectAccessReview"


async def review_access(request: Request) -> Response:
    """``POST`` of a ``SelfSubjectAccessReview``: allowed.

    Raises:
        StatusError: ``BadRequest``: the body is no ``SelfSubjectAccessReview``.
    """
    review, _ = await parse_object(request, await read_body(request))
    if (review.get("apiVersion"), review.get("kind")) != (_API_VERSION, _KIND):
        raise StatusError("BadRequest", f"expected a {_KIND} of {_API_VERSION}")
    status = {"allowed": True, "reason": "this server knows no users"}
    return json_answer({**review, "metadata": {}, "status": status}, 201)
