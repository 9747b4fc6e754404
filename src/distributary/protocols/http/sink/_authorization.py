"""The ``Authorization`` header of a request, and the masking of its secrets in responses.

Called by ``_transport``. Hides the authentication schemes. Masking prevents a leak: a sink may echo
the request in its error page, which goes into the dead letter and so to another sink; or in an
event with which it replies, which goes to whoever subscribes.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, unquote_plus, urlsplit

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.shown import is_secret
from distributary.protocols.http.binding import encode_binary
from distributary.protocols.http.settings import settings_of

MASK: Final = b"***"
"""Replaces a secret in a stored response."""

_ECHO_BYTES_MIN: Final = 4
"""Shortest prefix of a secret that is masked at the end of a truncated response, and shortest query
that is masked: shorter ones reveal nothing, and would match in every response."""

_PIECE_CHARS_MIN: Final = 8
"""Shortest part of a header, or parameter of a query, that is masked alone, and shortest
credential for which a reply is refused: harmless ones are mostly shorter, and would match in every
response."""

_SCHEME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CREDENTIALS: Final = re.compile(rb"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def authorization(credential: Credential) -> bytes:
    """The value of ``Authorization``.

    Raises:
        TransportError: ``protocol``, not retryable: *credential* cannot be written as a header.

    Source:
        RFC 7617, section 2 (``PLAIN``, in UTF-8); RFC 6750, section 2.1 (both token types; the
        scheme is the subscription's ``accessTokenType`` unchanged, except that any spelling of
        ``Bearer`` becomes that).
    """
    if credential.type == "PLAIN":
        scheme = b"Basic"
        value = base64.b64encode(f"{credential.identifier}:{credential.secret}".encode())
    else:
        name = credential.access_token_type or ""
        # Schemes are case-insensitive (RFC 9110, 11.1), but many sinks compare this one exactly,
        # and token endpoints return it in lower case.
        scheme = b"Bearer" if name.lower() == "bearer" else name.encode()
        value = (credential.access_token or "").encode()
    # Resources are validated for this too; here it prevents request splitting.
    if not _SCHEME.fullmatch(scheme) or not _CREDENTIALS.fullmatch(value):
        raise TransportError(
            "protocol", "The credential cannot be written as a header", retryable=False
        )
    return scheme + b" " + value


def credentials_of(destination: Destination) -> tuple[bytes, ...]:
    """The credential of requests to *destination* and its headers with secret names, longest first.

    Each also in the escaped forms of JSON, HTML and URIs, as error pages write them.
    """
    return _written(_credentials(destination))


def secrets_of(destination: Destination) -> tuple[bytes, ...]:
    """Secrets of requests to *destination*, to be masked in stored responses, longest first.

    These are those of ``credentials_of`` and the query of its URI, which may hold a key.
    """
    texts = _credentials(destination)
    query = urlsplit(destination.uri).query
    if len(query) >= _ECHO_BYTES_MIN:
        values = [parameter.rpartition("=")[2] for parameter in re.split("[&;]", query)]
        for value in (query, *_long(values)):
            texts |= {value, unquote_plus(value)}
    return _written(texts)


def _credentials(destination: Destination) -> set[str]:
    texts: set[str] = set()
    credential = destination.credential
    if credential is not None:
        value = authorization(credential).partition(b" ")[2].decode()
        texts |= {value, credential.secret or "", credential.access_token or ""}
    for name, field in settings_of(destination).lines:
        if is_secret(name.decode("latin-1")):
            text = field.decode("latin-1")
            texts |= {text, *_long(re.split(r"[ ;,=]+", text))}
    return texts


def _written(texts: set[str]) -> tuple[bytes, ...]:
    written = {form.encode() for text in texts - {""} for form in _forms(text)}
    return tuple(sorted(written, key=lambda form: (-len(form), form)))


def _long(texts: Iterable[str]) -> list[str]:
    """The *texts* that are long enough to be secrets."""
    return [text for text in texts if len(text) >= _PIECE_CHARS_MIN]


def _forms(text: str) -> Iterator[str]:
    yield text
    yield html.escape(text)
    yield quote(text, safe="")
    for ascii_alone in (True, False):
        in_json = json.dumps(text, ensure_ascii=ascii_alone)[1:-1]
        yield in_json
        yield in_json.replace("/", "\\/")  # as PHP writes it


def repeats(event: Event, credentials: Iterable[bytes]) -> bool:
    """Whether *event*, which a sink replied, holds one of *credentials*.

    Short ones are not looked for: they stand in events by chance.
    """
    block, data = encode_binary(event)
    return any(
        secret in data or secret in block
        for secret in credentials
        if len(secret) >= _PIECE_CHARS_MIN
    )


def masked(body: bytes, secrets: Iterable[bytes]) -> bytes:
    """*body*, the stored beginning of a response, with *secrets* masked.

    Masks also a prefix of a secret at the end of *body*.
    """
    for secret in secrets:
        body = body.replace(secret, MASK)
        start = body.find(secret[:_ECHO_BYTES_MIN], max(0, len(body) - len(secret) + 1))
        while start >= 0:
            if len(body) - start >= _ECHO_BYTES_MIN and secret.startswith(body[start:]):
                body = body[:start] + MASK
                break
            start = body.find(secret[:_ECHO_BYTES_MIN], start + 1)
    return body
