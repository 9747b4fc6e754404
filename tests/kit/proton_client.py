"""Asks the Subscriptions API over AMQP of a running server, by Qpid Proton's own client.

Callers: end-to-end tests. Hides which modules proton has; none is imported before a client is made.
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
    """One connection, with the links of a request and an answer.

    Args:
        port: Of the server, on loopback.
    """

    def __init__(self, port: int) -> None:
        self._proton = importlib.import_module("proton")
        utils = importlib.import_module("proton.utils")
        url = f"amqp://127.0.0.1:{port}"
        self._connection = utils.BlockingConnection(url, timeout=ANSWER_S_MAX)
        self._links = utils.SyncRequestResponse(self._connection, "subscriptions")

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
