"""The documents by which receivers verify the tokens of deliveries."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from distributary.subscriptions.http._problems import problem
from distributary.subscriptions.http._resources import Handler, Resource

DOCUMENT_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"
"""As a Kubernetes API server has it."""

_HEADERS: Final = {"cache-control": "public, max-age=300"}
"""A new key is published this long before it signs, at least: the documentation says so."""


class IssuerDocuments(NamedTuple):
    """What an issuer publishes, as JSON.

    Attributes:
        configuration: OpenID Connect Discovery 1.0, section 3.
        keys: Its public keys, a JWK set.
    """

    configuration: bytes
    keys: bytes


def issuer_resources(documents: Callable[[], IssuerDocuments | None]) -> dict[str, Resource]:
    """The two paths; *documents* returns None where this server issues no tokens: then 404.

    *documents* may block: it is called in a thread.
    """

    def showing(kind: str, choose: Callable[[IssuerDocuments], bytes]) -> Handler:
        async def answer(_request: Request) -> Response:
            found = await asyncio.to_thread(documents)
            if found is None:
                return problem("notfound", "this server issues no tokens (issuer_key_file)")
            return Response(choose(found), media_type=kind, headers=_HEADERS)

        return answer

    json, jwks = "application/json", "application/jwk-set+json"
    return {
        DOCUMENT_PATH: Resource({"GET": showing(json, lambda found: found.configuration)}),
        KEYS_PATH: Resource({"GET": showing(jwks, lambda found: found.keys)}),
    }
