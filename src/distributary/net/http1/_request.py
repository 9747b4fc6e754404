"""Parses and validates the head of an HTTP request, and resolves its target.

Caller: ``_reader``. Hides llhttp (through ``httptools``), which is too lenient for a public port.
It parses the head alone, with a fresh parser for each: ``_reader`` frames messages, so no two
parsers in this process can disagree about where a request ends. Checks of this module, because
llhttp 9 accepts these: two spaces in the request line, HTTP/0.9 and 2.0, RTSP and ICE, a fragment
in the target, any scheme, ``Transfer-Encoding: identity, chunked``, Transfer-Encoding in HTTP/1.0,
a missing or double Host; and its Upgrade and CONNECT, which would skip the body.
"""

import re
from collections.abc import Callable, Mapping

import httptools

from distributary.core.errors import RequestError
from distributary.net.http1 import limits

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([!-~]+) HTTP/1\.([01])")
_HOST = re.compile(rb"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]%]*")
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://([A-Za-z0-9\-._~!$&'()*+,;=:\[\]%]+)([/?].*)?")
_PATH = re.compile(rb"/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
_PATH_TRAPS = re.compile(rb"//|%(?:[01][0-9A-Fa-f]|2[EeFf]|5[Cc]|7[Ff])|/\.\.?(?:/|$)")
_ATTRIBUTE = b"ce-"
_LENGTH_DIGITS_MAX = 19  # more digits exist only to overflow


class Request:
    """A received request. Has slots and no validation: it is made on the hot path.

    Attributes:
        head: The bytes up to and including the empty line.
        method: As sent; methods are case-sensitive.
        target: Request target in origin form (an absolute one without its authority).
        path: ``target`` without the query, canonical; ``*`` for ``OPTIONS *``.
        fields: Header fields in order: lower-cased names, values without surrounding blanks.
        body: The whole body, de-chunked; ``b""`` where there is none.
        content_length: Value of Content-Length; 0 without it.
        chunked: Whether the body is chunked.
        keep_alive: Whether the connection is persistent for the client.
        http10: Whether the version is HTTP/1.0.
        expects_continue: Whether the client waits for 100 before it sends its body.
        content_encoded: Whether ``Content-Encoding`` is set and not identity.
        asks_permission: Whether ``WebHook-Request-Origin`` was sent.
        sender: Who sends it, in the words of whoever asked; None: nobody did.
        shown: What it shows of its sender, likewise.
        asked_at: When that was asked, in the count of whoever asked.
        host: Authority that the request is for; empty in HTTP/1.0 without one.
        page: A browser's ``origin`` and ``sec-fetch-site``; None: neither was sent.

    The others (``watched``, ``host_count``, ``has_length``, ``close_asked``, ``head_ended``)
    serve parsing alone.
    """

    __slots__ = (
        "asked_at",
        "asks_permission",
        "body",
        "chunked",
        "close_asked",
        "content_encoded",
        "content_length",
        "expects_continue",
        "fields",
        "has_length",
        "head",
        "head_ended",
        "host",
        "host_count",
        "http10",
        "keep_alive",
        "method",
        "page",
        "path",
        "sender",
        "shown",
        "target",
        "watched",
    )

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.watched: list[tuple[bytes, bytes]] = []
        self.head = b""
        self.method = b""
        self.target = b""
        self.path = b""
        self.body = b""
        self.content_length = 0
        self.chunked = False
        self.keep_alive = True
        self.http10 = False
        self.expects_continue = False
        self.content_encoded = False
        self.close_asked = False
        self.has_length = False
        self.host = b""
        self.host_count = 0
        self.page: dict[bytes, bytes] | None = None
        self.asks_permission = False
        self.sender: object = None
        self.shown: object = None
        self.asked_at = 0
        self.head_ended = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a header field."""
        name = name.lower()
        value = value.strip()
        self.fields.append((name, value))
        if name in _FIELD_READERS:
            self.watched.append((name, value))

    def on_headers_complete(self) -> None:
        """Record the end of the head."""
        self.head_ended = True


def parse(request: Request, head: bytes, line_end: int, usual_lines: Mapping[bytes, bytes]) -> None:
    """Parses the head of a request.

    Args:
        request: Receives what is read, also where it is refused.
        head: From the request line to the empty line, both included.
        line_end: End of the request line.
        usual_lines: Canonical path by request line, for POST over HTTP/1.1.

    Raises:
        RequestError: The head violates HTTP or a limit. The connection is unusable, since the end
            of the request is unknown.
    """
    request.head = head
    usual = usual_lines.get(head[:line_end])
    if usual is None:
        _read_line(request, head, line_end)
    else:
        request.method = b"POST"
        request.path = request.target = usual
    try:
        httptools.HttpRequestParser(request).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # a server may ignore Upgrade (RFC 9110 section 7.8); CONNECT is refused below
    except httptools.HttpParserInvalidMethodError as error:
        raise RequestError("method-not-allowed", "No resource knows this method.") from error
    except httptools.HttpParserError as error:
        raise RequestError("bad-request", f"The header is malformed: {error}.") from error
    if not request.head_ended:
        # No known bytes lead here; a field that the parser still buffers must not be lost.
        raise RequestError("bad-request", "The header is malformed.")
    if (
        len(request.fields) > limits.HEADER_COUNT_MAX
        or len(head) - line_end > limits.HEADER_BYTES_MAX
    ):
        _check_sizes(request, head, line_end)
    _read_watched(request)
    if usual is None:
        _resolve_target(request)


def _read_line(request: Request, head: bytes, line_end: int) -> None:
    line = _REQUEST_LINE.fullmatch(head, 0, line_end)
    if line is None:
        raise RequestError("bad-request", "The request line is not of HTTP/1.1 or HTTP/1.0.")
    request.method, request.target, minor = line.groups()
    request.http10 = minor == b"0"


def _check_sizes(request: Request, head: bytes, line_end: int) -> None:
    if len(request.fields) > limits.HEADER_COUNT_MAX:
        raise RequestError(
            "headers-too-large", f"More than {limits.HEADER_COUNT_MAX} header fields."
        )
    lines = head[line_end + 2 :].split(b"\r\n")
    others = [len(line) for line in lines if line[: len(_ATTRIBUTE)].lower() != _ATTRIBUTE]
    if max(others) > limits.HEADER_BYTES_MAX:
        raise RequestError(
            "headers-too-large", f"A header field above {limits.HEADER_BYTES_MAX} bytes."
        )


def _read_watched(request: Request) -> None:
    """Evaluate the fields of framing and connection (RFC 9112 sections 3.2, 6 and 9)."""
    request.keep_alive = not request.http10
    for name, value in request.watched:
        _FIELD_READERS[name](request, value)
    if request.host_count != 1 and not (request.http10 and request.host_count == 0):
        raise RequestError("bad-request", "One Host field is required.")
    if request.chunked and request.has_length:
        raise RequestError("bad-request", "Content-Length beside Transfer-Encoding.")


def _read_host(request: Request, value: bytes) -> None:
    request.host_count += 1
    request.host = value
    if _HOST.fullmatch(value) is None:
        raise RequestError("bad-request", "Host is not a host and port.")


def _read_content_length(request: Request, value: bytes) -> None:
    if request.has_length or not value.isdigit() or len(value) > _LENGTH_DIGITS_MAX:
        raise RequestError("bad-request", "Content-Length is not one decimal number.")
    request.has_length = True
    request.content_length = int(value)


def _read_transfer_encoding(request: Request, value: bytes) -> None:
    if request.chunked or request.http10 or value.lower() != b"chunked":
        raise RequestError("bad-request", "Transfer-Encoding is not chunked alone.")
    request.chunked = True


def _read_connection(request: Request, value: bytes) -> None:
    options = [option.strip() for option in value.lower().split(b",")]
    if b"close" in options:
        request.close_asked = True
    elif b"keep-alive" in options:
        request.keep_alive = True
    if request.close_asked:
        request.keep_alive = False


def _read_content_encoding(request: Request, value: bytes) -> None:
    if value.lower() != b"identity":
        request.content_encoded = True


def _read_expect(request: Request, value: bytes) -> None:
    # Other expectations are ignored, as RFC 9110 section 10.1.1 allows.
    request.expects_continue = value.lower() == b"100-continue" and not request.http10


def _read_request_origin(request: Request, _value: bytes) -> None:
    request.asks_permission = True


def _read_origin(request: Request, value: bytes) -> None:
    _note_page(request, b"origin", value)


def _read_fetch_site(request: Request, value: bytes) -> None:
    _note_page(request, b"sec-fetch-site", value)


def _note_page(request: Request, name: bytes, value: bytes) -> None:
    if request.page is None:
        request.page = {}
    # Several values are joined, so that they equal no valid one.
    before = request.page.get(name)
    request.page[name] = value if before is None else before + b", " + value


_FIELD_READERS: dict[bytes, Callable[[Request, bytes], None]] = {
    b"connection": _read_connection,
    b"content-encoding": _read_content_encoding,
    b"content-length": _read_content_length,
    b"expect": _read_expect,
    b"host": _read_host,
    b"origin": _read_origin,
    b"sec-fetch-site": _read_fetch_site,
    b"transfer-encoding": _read_transfer_encoding,
    b"webhook-request-origin": _read_request_origin,
}


def _resolve_target(request: Request) -> None:
    """Set path and target from the target as sent (RFC 9112 section 3.2).

    Accepts only canonical paths: later readers of the path, here or in the control process, must
    not interpret it differently (dot segments, ``//``, encoded slashes).
    """
    target = request.target
    if request.method in {b"CONNECT", b"TRACE"}:
        raise RequestError("method-not-allowed", "No resource knows this method.")
    if target == b"*" and request.method == b"OPTIONS":
        request.path = target
        return
    if not target.startswith(b"/"):
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None:
            raise RequestError("bad-request", "The target is neither a path nor an http URI.")
        authority, rest = absolute.groups()
        target = b"/" if rest is None else rest if rest.startswith(b"/") else b"/" + rest
        request.target = target
        # The authority of the target replaces Host (RFC 9112 section 3.2.2).
        request.fields = [field for field in request.fields if field[0] != b"host"]
        request.fields.insert(0, (b"host", authority))
        request.host = authority
        request.host_count = 1
    path = target.partition(b"?")[0]
    if b"#" in target or _PATH.fullmatch(path) is None or _PATH_TRAPS.search(path) is not None:
        raise RequestError("bad-request", "The path is not canonical.")
    request.path = path
