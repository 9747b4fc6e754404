"""HTTP client of token endpoints (RFC 6749, section 6).

Called by ``Refresher``. The address comes from a user, so it is dialled by the same connector, and
under the same rules, as sinks.
"""

from typing import Final
from urllib.parse import urlencode

from distributary.net import Connector, exchange
from distributary.subscriptions.refresh._answer import TokenReply

ANSWER_BYTES_MAX: Final = 64 * 1024
"""Largest response, bytes, headers included: two tokens of the largest size are a quarter of it."""

TRADE_S_MAX: Final = 10.0
"""Longest trade, from the name look-up to the last byte, seconds. A healthy endpoint takes a
fraction of a second, and a slow one occupies one of few places."""

_REQUEST: Final = (
    b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    b"accept: application/json\r\nuser-agent: distributary\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b"
)


class HttpTokenEndpoint:
    """``TokenEndpoint`` over HTTP/1.1; one connection a trade.

    Args:
        connector: Dials; decides which addresses are allowed.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    async def trade(self, uri: str, refresh_token: str) -> TokenReply:
        """Post *refresh_token* to *uri*.

        Raises:
            TransportError: No complete response within ``TRADE_S_MAX``, or the address is not
                allowed.
        """
        endpoint = self._connector.endpoint(uri)
        form = urlencode({"grant_type": "refresh_token", "refresh_token": refresh_token}).encode()
        request = _REQUEST % (endpoint.target, endpoint.authority, len(form), form)
        response = await exchange(
            self._connector, endpoint, request, bytes_max=ANSWER_BYTES_MAX, s_max=TRADE_S_MAX
        )
        return TokenReply(response.status, response.body)
