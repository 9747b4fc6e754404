"""A client of the Subscriptions API over AMQP on Qpid Proton, for a running server.

Callers: end-to-end tests. Hides proton's modules, which are imported only when a client is made.
"""

import importlib
import importlib.util
from typing import Any

import msgspec

__all__ = ["ProtonClient", "installed"]

ANSWER_S_MAX = 30
"""Longest wait for one answer: longer means that it never comes."""


def installed() -> bool:
    """Whether Qpid Proton is; without it no server listens for AMQP either."""
    return importlib.util.find_spec("proton") is not None


class ProtonClient:
    """One connection with a link for requests and one for responses.

    Args:
        port: Port of the server on loopback.
        key: An API key, shown as the password; None: the client is anonymous.
        tls: Paths of the server's authority and of the client's certificate and key, with which it
            logs in (SASL EXTERNAL); None: plain AMQP.
        address: Node of the requests.
    """

    def __init__(
        self,
        port: int,
        key: str | None = None,
        tls: tuple[str, str, str] | None = None,
        *,
        address: str = "subscriptions",
    ) -> None:
        self._proton = importlib.import_module("proton")
        utils = importlib.import_module("proton.utils")
        url = f"amqp://127.0.0.1:{port}"
        login: dict[str, Any] = {}
        if key is not None:
            login = {"user": "me", "password": key, "allowed_mechs": "PLAIN"}
        if tls is not None:
            domain = self._proton.SSLDomain(self._proton.SSLDomain.MODE_CLIENT)
            domain.set_trusted_ca_db(tls[0])
            domain.set_credentials(tls[1], tls[2], None)
            domain.set_peer_authentication(self._proton.SSLDomain.VERIFY_PEER)
            url = url.replace("amqp:", "amqps:")
            login = {"ssl_domain": domain, "allowed_mechs": "EXTERNAL"}
        self._connection = utils.BlockingConnection(
            url, timeout=ANSWER_S_MAX, allow_insecure_mechs=True, **login
        )
        self._links = utils.SyncRequestResponse(self._connection, address)

    def ask(self, operation: str, body: object = None, **properties: Any) -> Any:
        """The answer, as proton reads it; a *body* is sent as JSON."""
        said = {"operation": operation, **properties}
        text = None if body is None else msgspec.json.encode(body).decode()
        return self._links.call(self._proton.Message(properties=said, body=text))

    def has_ended(self) -> bool:
        """Whether the connection takes no more requests."""
        try:
            self.ask("Discover")
        except self._proton.ProtonException:
            return True
        return False

    def close(self) -> None:
        """Go."""
        self._connection.close()
