"""A credential as HTTP carries it, and as it must not come back.

Called by ``_transport``. Hides the schemes of ``Authorization``, and what a sink may do with it:
one that repeats the request in its error page would have the secret travel on to a dead letter
sink.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

from distributary.errors import TransportError
from distributary.resource import Credential

MASK: Final = b"***"
"""What stands in a kept answer where a secret stood."""

_ECHO_BYTES_MIN: Final = 4
"""A secret cut off at the end of an answer is masked from this length on: what is shorter says
nothing, and would be found in every answer."""

_SCHEME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CREDENTIALS: Final = re.compile(rb"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def authorization(credential: Credential) -> bytes:
    """Value of ``Authorization``.

    Raises:
        TransportError: ``protocol``, not retryable: it cannot be written into a header.

    Source:
        RFC 7617, section 2 (``PLAIN``, in UTF-8); RFC 6750, section 2.1 (both kinds of token;
        the scheme is the subscription's ``accessTokenType`` as it stands).
    """
    if credential.type == "PLAIN":
        scheme = b"Basic"
        value = base64.b64encode(f"{credential.identifier}:{credential.secret}".encode())
    else:
        scheme = (credential.access_token_type or "").encode()
        value = (credential.access_token or "").encode()
    # Resources are checked for this; here it is what keeps requests from being split.
    if not _SCHEME.fullmatch(scheme) or not _CREDENTIALS.fullmatch(value):
        raise TransportError(
            "protocol", "The credential cannot be written as a header", retryable=False
        )
    return scheme + b" " + value


def secrets_of(credential: Credential) -> tuple[bytes, ...]:
    """What of *credential* must not stand in anything that is kept, longest first.

    Error pages are JSON or HTML and hold URIs, so each secret is there as these write it, too.
    """
    value = authorization(credential).partition(b" ")[2].decode()
    texts = {value, credential.secret or "", credential.access_token or ""} - {""}
    written = {form.encode() for text in texts for form in _forms(text)}
    return tuple(sorted(written, key=lambda form: (-len(form), form)))


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
