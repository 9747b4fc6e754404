"""A credential as HTTP carries it, and secrets of a request as they must not come back.

Called by ``_transport``. Hides the schemes of ``Authorization``, and what a sink may do with it:
one that repeats the request in its error page would have its secrets travel on to a dead letter
sink.
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
from distributary.core.shown import is_secret
from distributary.protocols.http.settings import settings_of

MASK: Final = b"***"
"""What stands in a kept answer where a secret stood."""

_ECHO_BYTES_MIN: Final = 4
"""A secret cut off at the end of an answer is masked from this length on, and a query at all: what
is shorter says nothing, and would be found in every answer."""

_PIECE_CHARS_MIN: Final = 8
"""A part of a header, or one parameter of a query, is masked by itself from this length on:
harmless ones are mostly shorter, and would be found in every answer."""

_SCHEME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CREDENTIALS: Final = re.compile(rb"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def authorization(credential: Credential) -> bytes:
    """Value of ``Authorization``.

    Raises:
        TransportError: ``protocol``, not retryable: it cannot be written into a header.

    Source:
        RFC 7617, section 2 (``PLAIN``, in UTF-8); RFC 6750, section 2.1 (both kinds of token;
        the scheme is the subscription's ``accessTokenType`` as it stands, and ``Bearer`` in
        whatever case it stands).
    """
    if credential.type == "PLAIN":
        scheme = b"Basic"
        value = base64.b64encode(f"{credential.identifier}:{credential.secret}".encode())
    else:
        name = credential.access_token_type or ""
        # Schemes differ in more than their case (RFC 9110, 11.1), but many sinks look for this one
        # letter by letter, and token endpoints give it in lower case.
        scheme = b"Bearer" if name.lower() == "bearer" else name.encode()
        value = (credential.access_token or "").encode()
    # Resources are checked for this; here it is what keeps requests from being split.
    if not _SCHEME.fullmatch(scheme) or not _CREDENTIALS.fullmatch(value):
        raise TransportError(
            "protocol", "The credential cannot be written as a header", retryable=False
        )
    return scheme + b" " + value


def secrets_of(destination: Destination) -> tuple[bytes, ...]:
    """What of a request to *destination* must not stand in anything that is kept, longest first.

    Its credential, its headers of secret names, the query of its URI. Error pages are JSON or HTML
    and hold URIs, so each secret is there as these write it, too.
    """
    texts: set[str] = set()
    credential = destination.credential
    if credential is not None:
        value = authorization(credential).partition(b" ")[2].decode()
        texts |= {value, credential.secret or "", credential.access_token or ""}
    for name, field in settings_of(destination).lines:
        if is_secret(name.decode("latin-1")):
            text = field.decode("latin-1")
            texts |= {text, *_long(re.split(r"[ ;,=]+", text))}
    query = urlsplit(destination.uri).query
    if len(query) >= _ECHO_BYTES_MIN:
        values = [parameter.rpartition("=")[2] for parameter in re.split("[&;]", query)]
        for value in (query, *_long(values)):
            texts |= {value, unquote_plus(value)}
    written = {form.encode() for text in texts - {""} for form in _forms(text)}
    return tuple(sorted(written, key=lambda form: (-len(form), form)))


def _long(texts: Iterable[str]) -> list[str]:
    """Those of *texts* that are long enough to be secrets."""
    return [text for text in texts if len(text) >= _PIECE_CHARS_MIN]


def _forms(text: str) -> Iterator[str]:
    yield text
    yield html.escape(text)
    yield quote(text, safe="")
    for ascii_alone in (True, False):
        in_json = json.dumps(text, ensure_ascii=ascii_alone)[1:-1]
        yield in_json
        yield in_json.replace("/", "\\/")  # as PHP writes it


def masked(body: bytes, secrets: Iterable[bytes]) -> bytes:
    """*body*, the kept beginning of an answer, without *secrets*.

    Also without the beginning of one that the end of *body* has cut off.
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
