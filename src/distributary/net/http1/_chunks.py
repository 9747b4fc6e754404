"""Incremental parser of a chunked body (RFC 9112 section 7.1), with limits on its framing.

Caller: ``_reader``. Extensions and trailers are validated and dropped.
"""

import enum
import re

from distributary.core.errors import RequestError
from distributary.net.http1 import limits

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,%d})(;[\t -~\x80-\xff]*)?" % limits.CHUNK_SIZE_DIGITS_MAX)
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*")
_SIZE_LINE_MAX = limits.CHUNK_SIZE_DIGITS_MAX + limits.CHUNK_EXTENSION_BYTES_MAX


class _Expect(enum.Enum):
    SIZE = enum.auto()
    BYTES = enum.auto()
    BYTES_END = enum.auto()
    TRAILER = enum.auto()


class ChunkedBody:
    """Collects one chunked body.

    Args:
        body_bytes_max: Largest body that is accepted.
    """

    __slots__ = (
        "_body_bytes_max",
        "_expect",
        "_missing",
        "_overhead_bytes",
        "_trailer_bytes",
        "_trailer_count",
        "body",
    )

    def __init__(self, body_bytes_max: int) -> None:
        self.body = bytearray()
        self._body_bytes_max = body_bytes_max
        self._expect = _Expect.SIZE
        self._missing = 0
        self._overhead_bytes = 0
        self._trailer_bytes = 0
        self._trailer_count = 0

    def feed(self, buffer: bytes | bytearray, pos: int) -> tuple[int, bool]:
        """Parse *buffer* from *pos* on.

        Returns:
            The offset of the rest (an incomplete line is left), and whether the body is complete.

        Raises:
            RequestError: The framing is malformed (400), or the body (413) or its trailers (431)
                exceed a limit.
        """
        while True:
            if self._expect is _Expect.BYTES:
                piece = buffer[pos : pos + self._missing]
                self.body += piece
                pos += len(piece)
                self._missing -= len(piece)
                if self._missing:
                    return pos, False
                self._expect = _Expect.BYTES_END
            if self._expect is _Expect.BYTES_END:
                end = buffer[pos : pos + 2]
                if not b"\r\n".startswith(end):
                    raise RequestError("bad-request", "A chunk is not as long as it says.")
                if len(end) < 2:
                    return pos, False
                pos += 2
                self._expect = _Expect.SIZE
            line = self._line(buffer, pos)
            if line is None:
                return pos, False
            pos += len(line)
            if self._expect is _Expect.SIZE:
                self._open_chunk(line[:-2])
            elif self._end_trailer(line[:-2]):
                return pos, True

    def _line(self, buffer: bytes | bytearray, pos: int) -> bytes | None:
        """Returns the line at *pos*, with its CRLF; None: it is incomplete."""
        if self._expect is _Expect.SIZE:
            line_max = _SIZE_LINE_MAX
        else:
            line_max = limits.TRAILERS_BYTES_MAX - self._trailer_bytes
        line_end = buffer.find(b"\n", pos, pos + line_max + 2)
        if line_end < 0:
            if len(buffer) - pos >= line_max + 2:
                self._refuse_long_line()
            return None
        line = bytes(buffer[pos : line_end + 1])
        if not line.endswith(b"\r\n"):
            raise RequestError("bad-request", "A line of a chunked body ends without CR.")
        return line

    def _open_chunk(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        if match is None:
            raise RequestError("bad-request", "A chunk size is not a hexadecimal number.")
        digits, extension = match.groups()
        if extension is not None and len(extension) > limits.CHUNK_EXTENSION_BYTES_MAX:
            self._refuse_long_line()
        size = int(digits, 16)
        if len(self.body) + size > self._body_bytes_max:
            raise RequestError(
                "content-too-large", f"The body is above {self._body_bytes_max:,} bytes."
            )
        self._overhead_bytes += len(line) + 4
        allowed = limits.CHUNK_OVERHEAD_BYTES_MAX
        if self._overhead_bytes > allowed + limits.CHUNK_OVERHEAD_RATIO_MAX * len(self.body):
            raise RequestError("content-too-large", "The body comes in too small chunks.")
        self._missing = size
        self._expect = _Expect.BYTES if size else _Expect.TRAILER

    def _end_trailer(self, line: bytes) -> bool:
        if not line:
            return True
        self._trailer_bytes += len(line) + 2
        self._trailer_count += 1
        if (
            self._trailer_count > limits.TRAILER_COUNT_MAX
            or self._trailer_bytes > limits.TRAILERS_BYTES_MAX
        ):
            self._refuse_long_line()
        if _TRAILER.fullmatch(line) is None:
            raise RequestError("bad-request", "A trailer field is malformed.")
        return False

    def _refuse_long_line(self) -> None:
        if self._expect is _Expect.SIZE:
            raise RequestError(
                "bad-request",
                f"A chunk extension above {limits.CHUNK_EXTENSION_BYTES_MAX} bytes.",
            )
        raise RequestError(
            "headers-too-large",
            f"Trailers above {limits.TRAILER_COUNT_MAX} fields or "
            f"{limits.TRAILERS_BYTES_MAX} bytes.",
        )
