"""Limits of parsing requests and responses, each with its reason."""

REQUEST_LINE_BYTES_MAX = 8 * 1024
"""Request line without its CRLF. RFC 9112 section 3 asks for at least 8,000; nginx: 8 KiB."""

HEADER_COUNT_MAX = 100
"""Header fields of a request: Apache's default. An event has at most 64 attributes."""

HEADER_BYTES_MAX = 8 * 1024
"""One header field, name and value, without its CRLF: nginx's and Apache's default. Those of
attributes (``ce-``) are bounded by the next limit alone: an event of 64 KiB may be one of them
(CloudEvents 1.0, Size Limits)."""

HEADERS_BYTES_MAX = 64 * 1024
"""All header fields with their CRLFs: eight of the largest; bounds the buffer of a partial head."""

CHUNK_SIZE_DIGITS_MAX = 16
"""Hexadecimal digits of a chunk size: 64 bits. Longer numbers are overflow attacks."""

CHUNK_EXTENSION_BYTES_MAX = 256
"""Extension of one chunk, with its semicolon; extensions are unused (Go, CVE-2023-39326)."""

CHUNK_OVERHEAD_BYTES_MAX = 16 * 1024
"""Framing bytes of a chunked body before the ratio below applies, as in Go's net/http."""

CHUNK_OVERHEAD_RATIO_MAX = 2
"""Framing bytes for each byte of body beyond that. Chunks of 3 bytes pass, of 1 byte fail."""

TRAILER_COUNT_MAX = 16
"""Trailer fields after a chunked body, which are validated and dropped (CVE-2026-22815)."""

TRAILERS_BYTES_MAX = 8 * 1024
"""All trailer fields with their CRLFs."""

RESPONSE_HEAD_BYTES_MAX = 64 * 1024
"""Status line and header fields of a response, interim ones included: as for requests."""

RESPONSE_FIELD_COUNT_MAX = 256
"""Header fields of a response, those of interim ones and trailers included. Python's http.client
takes 100, Node 2,000. Sixteen thousand short ones fit into 64 KiB, and take 3 ms of the loop."""

RESPONSE_INTERIM_COUNT_MAX = 32
"""Interim responses before the final one; Go's net/http takes 5. Thousands fit into 64 KiB."""

RESPONSE_PIECES_MAX = 4_096
"""Pieces of a response's body before the size below applies: 0.2 ms of the loop."""

RESPONSE_PIECE_BYTES = 64
"""Bytes received for each further piece. Chunks of 64 bytes pass; forty thousand of one byte, in
250 KiB, take 2 ms of the loop."""
