"""Incremental parser of HTTP responses, without I/O and without a clock.

Callers: deliveries, the command line, the token refresher, the proxy to the control process. Hides
llhttp, interim responses, trailers, and malformed responses.
"""

import httptools

from distributary.core.errors import TransportError
from distributary.net.http1.limits import (
    RESPONSE_FIELD_COUNT_MAX,
    RESPONSE_HEAD_BYTES_MAX,
    RESPONSE_INTERIM_COUNT_MAX,
    RESPONSE_PIECE_BYTES,
    RESPONSE_PIECES_MAX,
)

_SWITCHING_PROTOCOLS = 101


class _ExcessError(Exception):
    """Stops the parser from inside a callback."""


class ResponseReader:
    """Parses bytes; its attributes describe the current response.

    Args:
        bodiless: See the attribute.
        endless: Whether the body may have any number of small pieces, as a stream of events has.

    Attributes:
        bodiless: Whether the response has no body, whatever its header says (``HEAD``).
        status: Status of the final response; 0: its head is incomplete.
        phrase: Its reason phrase.
        fields: Its header fields in order: lower-cased names, values without surrounding blanks.
            Complete when ``status`` is set; trailers are dropped.
        framed: Whether a field delimits the body; else the end of the connection may.
        complete: Whether the response is complete.
        received_bytes: Bytes of this response, interim ones included.
        excess: What the response has too many of; empty: nothing. ``feed`` has raised then.
    """

    __slots__ = (
        "_endless",
        "_field_count",
        "_interim_count",
        "_keep",
        "_parser",
        "_piece_count",
        "_pieces",
        "_surplus",
        "bodiless",
        "complete",
        "excess",
        "fields",
        "framed",
        "phrase",
        "received_bytes",
        "status",
    )

    def __init__(self, *, bodiless: bool = False, endless: bool = True) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._endless = endless
        self.bodiless = bodiless
        self.expect()

    def expect(self) -> None:
        """Reset for the next response; only when ``reusable``."""
        self._keep = False
        self._pieces: list[bytes] = []
        self._surplus = False
        self._field_count = 0
        self._interim_count = 0
        self._piece_count = 0
        self.excess = ""
        self.status = 0
        self.phrase = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.framed = False
        self.complete = False
        self.received_bytes = 0

    @property
    def reusable(self) -> bool:
        """Whether the response is complete, and the connection can carry another request."""
        return self.complete and self._keep and not self._surplus

    def feed(self, data: bytes) -> list[bytes]:
        """Parse *data*; returns the pieces of the body in it.

        Raises:
            TransportError: ``protocol``: not HTTP, too long a header, or an ``excess``.
        """
        self.received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._surplus = True  # what follows a 101 has no known framing
        except httptools.HttpParserError as error:
            if not self.complete:
                text = self.excess or f"The answer is not HTTP: {error}"
                raise TransportError("protocol", text) from error
            self._surplus = True
        if not self.status and self.received_bytes > RESPONSE_HEAD_BYTES_MAX:
            text = f"The headers are longer than {RESPONSE_HEAD_BYTES_MAX} bytes"
            raise TransportError("protocol", text)
        pieces = self._pieces
        if pieces:
            self._pieces = []
        return pieces

    def end(self) -> bool:
        """Handle an orderly end of the connection; returns whether the response is complete."""
        if self.status and not self.framed:
            self.complete = True
            self._keep = False
        return self.complete

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Detect an unsolicited response."""
        if self.complete:
            self._surplus = True

    def on_status(self, phrase: bytes) -> None:
        """Keep the reason phrase."""
        if not self.status:
            self.phrase += phrase

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field, unless it is a trailer."""
        self._field_count += 1
        if self._field_count > RESPONSE_FIELD_COUNT_MAX:
            self._refuse(f"The answer has more than {RESPONSE_FIELD_COUNT_MAX} header fields")
        if not self.status:
            name = name.lower()
            self.fields.append((name, value.strip(b" \t")))
            if name in _FRAMING:
                self.framed = True

    def on_headers_complete(self) -> None:
        """Record the final status and the end of its body; discard an interim response."""
        if self.complete:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != _SWITCHING_PROTOCOLS:
            self.fields = []
            self.phrase = b""
            self.framed = False
            self._interim_count += 1
            if self._interim_count > RESPONSE_INTERIM_COUNT_MAX:
                self._refuse(f"More than {RESPONSE_INTERIM_COUNT_MAX} interim answers")
            return
        self.status = status
        if self.bodiless or status == _SWITCHING_PROTOCOLS:
            self.complete = True  # the parser waits for a body: it reads no further response
        else:
            self._keep = self._parser.should_keep_alive()

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body for ``feed`` to return."""
        if self.complete:
            return
        self._piece_count += 1
        if self._piece_count > RESPONSE_PIECES_MAX and not self._endless:
            further = self.received_bytes // RESPONSE_PIECE_BYTES
            if self._piece_count > RESPONSE_PIECES_MAX + further:
                self._refuse("The answer comes in too many small pieces")
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Record the end of a final response."""
        if self.status:
            self.complete = True

    def _refuse(self, text: str) -> None:
        """Stop parsing: the rest would take longer than a response is worth."""
        self.excess = text
        raise _ExcessError


_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
