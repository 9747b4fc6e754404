"""An OpenID Connect issuer on loopback: discovery, keys, and tokens that it signs.

Called by end-to-end tests and benchmarks. Serves in a thread, so that it works beside any loop and
beside servers in other processes.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from kit.minted import AUDIENCE, SigningKey, claims_of, signing_key


class TokenIssuer:
    """An issuer with one key at the start; use it as a context manager.

    Args:
        algorithm: Of its first key.

    Attributes:
        keys: What it publishes, in order.
        signs: The key that signs ``token``.
        asked: Paths of the requests so far.
        status: Of its answers; other than 200 it is broken.
    """

    def __init__(self, algorithm: str = "ES256") -> None:
        self.signs: SigningKey = signing_key(algorithm)
        self.keys: list[SigningKey] = [self.signs]
        self.asked: list[str] = []
        self.status = 200
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Its identifier."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/realms/shop"

    def table(self, *grants: str) -> str:
        """Its table for a configuration file.

        Args:
            grants: Lines of each ``[[issuers.grants]]``.
        """
        lines = [
            "[[issuers]]",
            'name = "test"',
            f'url = "{self.url}"',
            f'audiences = ["{AUDIENCE}"]',
            f'algorithms = ["{self.signs.algorithm}"]',
            'networks = ["127.0.0.0/8"]',
        ]
        return "\n".join((*lines, *(f"[[issuers.grants]]\n{grant}" for grant in grants), ""))

    def token(self, lifetime_s: float = 3_600, **claims: object) -> str:
        """A token that is valid from now on."""
        now_s = int(time.time())
        times = {"iat": now_s, "exp": now_s + lifetime_s}
        return self.signs.mint(claims_of(**{"iss": self.url, **times, **claims})).decode()

    def rotate(self, key: SigningKey, *, keep: bool) -> None:
        """Sign with *key* from now on; *keep*: the earlier keys stay published."""
        self.keys = [*(self.keys if keep else ()), key]
        self.signs = key

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _document(self, path: str) -> dict[str, Any] | None:
        if path == "/realms/shop/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/realms/shop/keys":
            return {"keys": [key.jwk() for key in self.keys]}
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                found = issuer._document(self.path)
                body = json.dumps(found).encode()
                self.send_response(404 if found is None else issuer.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                """Say nothing."""

        return Handler
