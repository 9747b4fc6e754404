"""One connection of a task to the server, reopened after it broke.

Caller: ``writer``. Hides ``http.client``, and in which ways a request fails. Ignores proxies of the
environment: it connects to the server that was named.
"""

import http.client
import socket
import ssl
from typing import Final

from distributary.core.errors import TransportError
from distributary.spark.publish._options import WriteOptions
from distributary.spark.publish._publisher import ServerResponse

RESPONSE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a response that are read: a list of 100 faults has some 20 KiB."""


class Client:
    """Posts events; close it.

    Args:
        options: Where to, and what to show.

    Raises:
        ssl.SSLError: The authorities cannot be read.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._tls = None
        if options.secure:
            self._tls = ssl.create_default_context(cadata=options.authorities or None)
        self._connection: http.client.HTTPConnection | None = None

    def post(self, lines: bytes, body: bytes) -> ServerResponse:
        """Send one request, and wait for its response. As ``_publisher.Post``.

        Raises:
            TransportError: No response came.
        """
        reused = self._connection is not None
        try:
            return self._exchange(lines, body)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            # The server closes connections now and then; a repeat on a new one costs no attempt.
            self.close()
            if not reused:
                raise TransportError("reset", f"{self._place} closed the connection") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(error) from error
        try:
            return self._exchange(lines, body)
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the connection; the next request opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, lines: bytes, body: bytes) -> ServerResponse:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect()
        connection.putrequest("POST", self._options.path, skip_accept_encoding=True)
        for line in lines.splitlines():
            name, _, value = line.partition(b": ")
            connection.putheader(name.decode("latin-1"), value)
        if self._options.token:
            connection.putheader("authorization", f"Bearer {self._options.token}")
        connection.putheader("user-agent", "distributary-spark")
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        read = answer.read(RESPONSE_BYTES_MAX)
        found = ServerResponse(answer.status, answer.getheader("retry-after"), read)
        if answer.will_close or not answer.isclosed():
            self.close()
        return found

    def _connect(self) -> http.client.HTTPConnection:
        options = self._options
        if self._tls is None:
            return http.client.HTTPConnection(options.host, options.port, timeout=options.timeout_s)
        return http.client.HTTPSConnection(
            options.host, options.port, timeout=options.timeout_s, context=self._tls
        )

    @property
    def _place(self) -> str:
        return f"{self._options.host}:{self._options.port}"

    def _failed(self, error: Exception) -> TransportError:
        self.close()
        if isinstance(error, TimeoutError):
            return TransportError("timeout", f"{self._place} did not answer in time")
        if isinstance(error, ssl.SSLCertVerificationError):
            message = f"the certificate of {self._place} is not accepted: {error.verify_message}"
            return TransportError("tls", message, retryable=False)
        if isinstance(error, ssl.SSLError):
            return TransportError("tls", f"no TLS with {self._place}: {error.reason}")
        if isinstance(error, socket.gaierror):
            return TransportError("dns", f"{self._options.host} has no address: {error.strerror}")
        if isinstance(error, ConnectionRefusedError):
            return TransportError("refused", f"{self._place} refused the connection")
        return TransportError("reset", f"no answer of {self._place}: {type(error).__name__}")
