"""Fetches an issuer's documents: discovery and key set. One GET each, over a connection of its own.

Called by ``KeyKeeper``. An address comes from the operator or from an issuer's discovery document;
it is dialled by the connector, under the rule for addresses, which the operator may widen for this
issuer alone.
"""

import dataclasses
import ipaddress
from typing import Any, Final, Protocol

from distributary.access.jwks import KeySet, read_keys
from distributary.core.errors import ResourceError, TransportError
from distributary.net import AddressRule, Connector, Resolver, exchange
from distributary.resource import decode_json
from distributary.server.issuers._tables import IssuerSettings, is_allowed_url

DOCUMENT_BYTES_MAX: Final = 256 * 1024
"""Largest response, bytes, headers included: 100 RSA keys with their certificates."""

GET_S_MAX: Final = 10.0
"""Longest exchange, from the name look-up to the last byte, seconds."""

_WELL_KNOWN: Final = "/.well-known/openid-configuration"

_REQUEST: Final = (
    b"GET %b HTTP/1.1\r\nhost: %b\r\naccept: application/json\r\n"
    b"user-agent: distributary\r\nconnection: close\r\n\r\n"
)


class Documents(Protocol):
    """Gets documents over HTTP."""

    async def get(self, uri: str) -> bytes:
        """Returns the body of the 200 response at *uri*.

        Raises:
            TransportError: Another status, no complete response in time, or the address is not
                allowed.
        """


class HttpDocuments:
    """``Documents`` over HTTP/1.1.

    Args:
        settings: The issuer.
        rule: Which addresses may be dialled, besides its ``networks``.
        resolver: Resolves names.
    """

    def __init__(self, settings: IssuerSettings, rule: AddressRule, resolver: Resolver) -> None:
        own = tuple(ipaddress.ip_network(text) for text in settings.networks)
        widened = dataclasses.replace(rule, allow=(*rule.allow, *own))
        self._connector = Connector(widened, resolver)
        self._ca_certs = settings.ca_certs

    async def get(self, uri: str) -> bytes:
        """Get *uri*; see ``Documents``."""
        endpoint = self._connector.endpoint(uri)._replace(ca_certs=self._ca_certs)
        request = _REQUEST % (endpoint.target, endpoint.authority)
        response = await exchange(
            self._connector, endpoint, request, bytes_max=DOCUMENT_BYTES_MAX, s_max=GET_S_MAX
        )
        if response.status != 200:
            raise TransportError("protocol", f"It answers {response.status}")
        return response.body


async def fetch_keys(settings: IssuerSettings, documents: Documents) -> KeySet:
    """Returns the present keys of an issuer, perhaps none.

    Raises:
        TransportError: They could not be fetched; the message is for people.

    Source:
        OpenID Connect Discovery 1.0, sections 4.1 to 4.3: a terminating slash of the issuer is left
        out, and ``issuer`` in the document must be the issuer that was asked for.
    """
    uri = settings.issuer.jwks_uri
    if uri is None:
        uri = await _discovered(settings.issuer.url, documents)
    keys = read_keys(await documents.get(uri))
    if keys is None:
        raise TransportError("protocol", "It answers with what is no set of keys")
    return keys


async def _discovered(url: str, documents: Documents) -> str:
    found = _object(await documents.get(url.rstrip("/") + _WELL_KNOWN))
    if found.get("issuer") != url:
        raise TransportError("protocol", "Its discovery document is of another issuer")
    uri = found.get("jwks_uri")
    if not isinstance(uri, str) or not is_allowed_url(uri):
        raise TransportError("protocol", "Its discovery document has no https jwks_uri")
    return uri


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = decode_json(body)
    except ResourceError:
        found = None
    if not isinstance(found, dict):
        raise TransportError("protocol", "Its discovery document is no JSON object")
    return found
