"""What a connection shows with each event: found again by comparing bytes, not by reading them.

Caller: ``_context``, for requests in plain form. A client sends the same ``Authorization`` with
each request of a connection, at the same place, and a token has a thousand bytes. Here its line is
taken out of the request, so that nothing looks at each of them.
"""

from typing import Final

MISSES_MAX: Final = 8
"""Requests in a row whose line was elsewhere, or another; then a connection is not looked at any
more. To find the place of a line costs as much as it saves."""

VALUE_BYTES_MIN: Final = 256
"""Shorter values are read as they are, since that is as fast: those of API keys have 72 bytes."""


class Shown:
    """The line ``Authorization`` of the last request in plain form. One a connection.

    Attributes:
        value: Its value, empty where none is remembered; what it may do is another question.
    """

    __slots__ = ("_at", "_line", "_misses", "value")

    def __init__(self) -> None:
        self.value = b""
        self._line = b""  # with the CRLF before it and the one behind it
        self._at = 0
        self._misses = 0

    def taken_out(self, request: bytes) -> bytes | None:
        """*request* without the line, if its head has the same line at the same place; else None.

        Call it where a value is remembered. None: it is not any more.
        What it returns may have another line ``Authorization``.
        """
        line, at = self._line, self._at
        assert line
        # No head ends before the line: else it would stand in a body.
        if not request.startswith(line, at) or request.find(b"\r\n\r\n", 0, at + 3) >= 0:
            self.value = b""
            self._misses += 1
            return None
        self._misses = 0
        return request[:at] + request[at + len(line) - 2 :]

    def remember(self, request: bytes, value: bytes) -> None:
        """Remember the line of *request*, a request in plain form.

        Args:
            request: Has one line ``Authorization``.
            value: Its value, without the blanks around it.
        """
        if self._misses >= MISSES_MAX or len(value) < VALUE_BYTES_MIN:
            return
        value_at = request.find(value)
        at = request.rfind(b"\r\n", 0, value_at)
        end = value_at + len(value)
        is_line = request[at + 2 : value_at].lower().rstrip(b" \t") == b"authorization:"
        if at > 0 and is_line and request[end : end + 2] == b"\r\n":
            self.value, self._line, self._at = value, request[at : end + 2], at
